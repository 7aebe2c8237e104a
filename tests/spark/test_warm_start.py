"""The first batch of a query that ran before."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from penstock.control.events import WarmStart
from penstock.estimate.batch_time import BatchTimeModel
from penstock.model import APPLICATION, Goal, Metric, QueryName, SeriesPoint
from penstock.settings import AdmissionSettings
from penstock.spark.warm_start import executor_times, warm_start
from penstock.store import MemoryStore

QUERY = QueryName("clicks")
NOW_S = 1_700_000_000.0
ENDLESS = 123_456.75


class DamagedStore(MemoryStore):
    """Gives what it was not given: numbers without end, as from a file that something else has written to."""

    def points(self, *what: Any, **which: Any) -> list[SeriesPoint]:
        """The points; one of ``ENDLESS`` has no end."""
        found = super().points(*what, **which)
        return [replace(each, value=math.inf) if each.value == ENDLESS else each for each in found]


def store_with(rows: float, duration_s: float, *, age_s: float = 60.0, batches: int = 5) -> MemoryStore:
    store = DamagedStore()
    for index in range(batches):
        at = NOW_S - age_s + index
        store.append_points(
            [
                SeriesPoint(at, QUERY, Metric.BATCH_ROWS, rows, index),
                SeriesPoint(at, QUERY, Metric.BATCH_DURATION_S, duration_s, index),
                SeriesPoint(at, QUERY, Metric.BATCH_DURATION_S, duration_s / 2, index, "addBatch"),
            ]
        )
    return store


def test_a_quarter_of_what_fitted_last_time() -> None:
    """100,000 rows/s, batches of up to 2.5 s: the first batch may read a quarter of 250,000 rows."""
    found = warm_start(store_with(200_000, 2.0), QUERY, Goal(latency=5.0), AdmissionSettings(), NOW_S)
    assert found.first_rows == 62_500
    assert found.batch_time is None, "five batches without learned costs are too little to believe"


def test_learned_costs_come_back_with_doubt() -> None:
    """After ten batches the last costs are the first guess of the next run, and not yet certain."""
    store = store_with(200_000, 2.0, batches=10)
    costs = {Metric.BATCH_OVERHEAD_S: 0.2, Metric.READ_COST_PER_ROW_S: 1e-6, Metric.COST_PER_ROW_S: 8e-6}
    store.append_points([SeriesPoint(NOW_S - 1, QUERY, metric, value, 9) for metric, value in costs.items()])
    found = warm_start(store, QUERY, Goal(latency=5.0), AdmissionSettings(), NOW_S)
    assert found.batch_time is not None
    model = BatchTimeModel(state=found.batch_time)
    assert model.predict_s(200_000, 100_000) == pytest.approx(1.2, rel=0.01)
    assert not model.is_certain(200_000, 1.0, within=0.15)


def test_nothing_is_recalled_of_an_unknown_or_old_run() -> None:
    """Another name, a run of a month ago, a goal without latency, or less than a stranger gets: start as unknown."""
    settings, goal = AdmissionSettings(), Goal(latency=5.0)
    assert warm_start(MemoryStore(), QUERY, goal, settings, NOW_S) == WarmStart()
    assert warm_start(store_with(200_000, 2.0, age_s=30 * 86_400), QUERY, goal, settings, NOW_S) == WarmStart()
    assert warm_start(store_with(200_000, 2.0), QueryName("other"), goal, settings, NOW_S) == WarmStart()
    assert warm_start(store_with(200_000, 2.0), QUERY, Goal(), settings, NOW_S) == WarmStart()
    assert warm_start(store_with(100, 2.0), QUERY, goal, settings, NOW_S) == WarmStart()


@pytest.mark.parametrize(
    ("rows", "duration_s"),
    [
        (200_000, 0.0),
        (200_000, -2.0),
        (200_000, ENDLESS),
        (ENDLESS, 2.0),
        (-200_000, 2.0),
        (1e300, 1e-300),
        (1e30, 2),
    ],
)
def test_batches_that_nobody_can_have_seen_tell_nothing(rows: float, duration_s: float) -> None:
    """A damaged series is no error, and no first batch without end; beside it the others count."""
    settings, goal = AdmissionSettings(), Goal(latency=5.0)
    damaged = store_with(rows, duration_s)
    assert warm_start(damaged, QUERY, goal, settings, NOW_S) == WarmStart()


@pytest.mark.parametrize("duration_s", [0.0, -2.0, ENDLESS])
def test_a_damaged_batch_among_others_changes_nothing(duration_s: float) -> None:
    """The fastest of the batches that were counts."""
    store = store_with(200_000, 2.0)
    store.append_points(
        [
            SeriesPoint(NOW_S - 1, QUERY, Metric.BATCH_ROWS, 200_000, 9),
            SeriesPoint(NOW_S - 1, QUERY, Metric.BATCH_DURATION_S, duration_s, 9),
        ]
    )
    assert warm_start(store, QUERY, Goal(latency=5.0), AdmissionSettings(), NOW_S).first_rows == 62_500


@pytest.mark.parametrize("value", [ENDLESS, -1.0])
def test_damaged_costs_and_times_are_not_recalled(value: float) -> None:
    """A cost that no row can have is none, and so is a time that no executor took."""
    store = store_with(200_000, 2.0, batches=10)
    costs = {Metric.BATCH_OVERHEAD_S: 0.2, Metric.READ_COST_PER_ROW_S: 1e-6, Metric.COST_PER_ROW_S: value}
    store.append_points([SeriesPoint(NOW_S - 1, QUERY, metric, each, 9) for metric, each in costs.items()])
    found = warm_start(store, QUERY, Goal(latency=5.0), AdmissionSettings(), NOW_S)
    assert (found.first_rows, found.batch_time) == (62_500, None)
    for each in (3.0, value):
        store.append_points([SeriesPoint(NOW_S, APPLICATION, Metric.EXECUTOR_START_S, each, subject="7")])
    assert executor_times(store).outcomes.starts.observed_s == (3.0,)


def test_times_of_executors_are_the_newest_on_record() -> None:
    """The last 32 starts and releases of the application, oldest first; none where there are none."""
    store = MemoryStore()
    assert executor_times(store).outcomes.starts.observed_s == ()
    for number in range(40):
        at = NOW_S + number
        store.append_points([SeriesPoint(at, APPLICATION, Metric.EXECUTOR_START_S, float(number), subject=str(number))])
    store.append_points([SeriesPoint(NOW_S, APPLICATION, Metric.EXECUTOR_RELEASE_S, 2.0, subject="7")])
    outcomes = executor_times(store).outcomes
    assert outcomes.starts.observed_s == tuple(float(number) for number in range(8, 40))
    assert outcomes.releases.observed_s == (2.0,)
