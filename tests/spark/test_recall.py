"""The first batch of a query that ran before."""

from __future__ import annotations

import pytest

from penstock.estimate.batch_time import BatchTimeModel
from penstock.model import Goal, Metric, QueryName, SeriesPoint
from penstock.settings import AdmissionSettings
from penstock.spark.recall import Recalled, recall, recorded_shares
from penstock.store import MemoryStore

QUERY = QueryName("clicks")
NOW_S = 1_700_000_000.0


def store_with(rows: float, duration_s: float, *, age_s: float = 60.0, batches: int = 5) -> MemoryStore:
    store = MemoryStore()
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
    """100,000 rows/s, batches of 2 s: the first batch may read a quarter of 200,000 rows."""
    found = recall(store_with(200_000, 2.0), QUERY, Goal(latency=5.0), AdmissionSettings(), NOW_S)
    assert found.first_rows == 50_000
    assert found.batch_time is None, "five batches without learned costs are too little to believe"


def test_learned_costs_come_back_with_doubt() -> None:
    """After ten batches the last costs are the first guess of the next run, and not yet certain."""
    store = store_with(200_000, 2.0, batches=10)
    costs = {Metric.BATCH_OVERHEAD_S: 0.2, Metric.READ_COST_PER_ROW_S: 1e-6, Metric.COST_PER_ROW_S: 8e-6}
    store.append_points([SeriesPoint(NOW_S - 1, QUERY, metric, value, 9) for metric, value in costs.items()])
    found = recall(store, QUERY, Goal(latency=5.0), AdmissionSettings(), NOW_S)
    assert found.batch_time is not None
    model = BatchTimeModel(0.97, found.batch_time)
    assert model.predict_s(200_000, 100_000) == pytest.approx(1.2)
    assert not model.is_certain(200_000, 1.0, within=0.15)


def test_nothing_is_recalled_of_an_unknown_or_old_run() -> None:
    """Another name, a run of a month ago, a goal without latency, or less than a stranger gets: start as unknown."""
    settings, goal = AdmissionSettings(), Goal(latency=5.0)
    assert recall(MemoryStore(), QUERY, goal, settings, NOW_S) == Recalled()
    assert recall(store_with(200_000, 2.0, age_s=30 * 86_400), QUERY, goal, settings, NOW_S) == Recalled()
    assert recall(store_with(200_000, 2.0), QueryName("other"), goal, settings, NOW_S) == Recalled()
    assert recall(store_with(200_000, 2.0), QUERY, Goal(), settings, NOW_S) == Recalled()
    assert recall(store_with(100, 2.0), QUERY, goal, settings, NOW_S) == Recalled()


def test_shares_are_those_of_the_same_query_id() -> None:
    """A new checkpoint under an old name numbers its batches anew: the old shares are not for them."""
    from penstock.model import Action, ActionKind, Mode  # noqa: PLC0415 - only this test needs them

    store = MemoryStore()

    def record(kind: ActionKind, *, target: str = "", **expected: float) -> None:
        store.append(
            Action(kind, QUERY, "test", "because", target=target, expected=expected), time_s=1.0, mode=Mode.ACT
        )

    record(ActionKind.GOVERN, target="id A")
    record(ActionKind.KEEP_RATIO, from_batch=4.0, told=0.5)
    record(ActionKind.GOVERN, target="id B")
    record(ActionKind.KEEP_RATIO, from_batch=2.0, told=0.25)
    record(ActionKind.GOVERN, target="id A")
    record(ActionKind.KEEP_RATIO, from_batch=9.0, told=0.75)
    assert recorded_shares(store.actions(), "A").entries == ((4, 0.5), (9, 0.75))
    assert recorded_shares(store.actions(), "B").entries == ((2, 0.25),)
    assert recorded_shares(store.actions(), "C").entries == ()
