"""The state of a query, and the figures behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.model import APPLICATION, Action, ActionKind, LimitUnit, Metric, Mode, QueryName, SeriesPoint
from penstock.model.decision import (
    Decision,
    Executors,
    ExecutorsDone,
    Fault,
    Govern,
    Hold,
    Infeasible,
    KeepRatio,
    ReadLimit,
    Release,
    to_action,
)
from penstock.report import LiveFigures, QueryStatus, State, application_status
from penstock.report.text import width_columns
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from penstock.store import Store

CLICKS = QueryName("clicks")
NOW_S = 1_700_000_000.0

GOVERN = Govern(query=CLICKS, cause="start", reason="declared", latency_s=5.0, minimum_accuracy=0.05, priority=3)
RELEASE = Release(query=CLICKS, cause="release", reason="asked for")
INFEASIBLE = Infeasible(query=CLICKS, cause="batch 1", reason="one row takes 9 s")
HOLD = Hold(query=CLICKS, cause="batch 2", reason="fits again")
FAULT = Fault(query=CLICKS, cause="batch 3", reason="no answer")
GROW = Executors(cause="tick", reason="more is to come", executors=4, previous_executors=2)
DONE = ExecutorsDone(cause="tick", reason="all serve", took_s=9.0)
OVERTAKEN = ExecutorsDone(cause="tick", reason="another came")


def keep(ratio: float, batch: int = 1) -> KeepRatio:
    return KeepRatio(query=CLICKS, cause="planned", reason="fits", batch_id=batch, keep_ratio=ratio, keep_floor=0.05)


def limit(units: int, source: int = 0, unit: LimitUnit = LimitUnit.ROWS) -> ReadLimit:
    return ReadLimit(query=CLICKS, cause="batch 1", reason="2.1 s", source=source, units=units, limit_unit=unit)


def recorded(*decisions: Decision, mode: Mode = Mode.ACT) -> MemoryStore:
    """One decision a second, the last of them now."""
    store = MemoryStore()
    for ago_s, decision in zip(range(len(decisions) - 1, -1, -1), decisions, strict=True):
        store.append(to_action(decision), time_s=NOW_S - ago_s, mode=mode)
    return store


def observe(store: Store, *, ago_s: float = 0.0, query: QueryName = CLICKS, **values: float) -> None:
    store.append_points([SeriesPoint(NOW_S - ago_s, query, Metric(name), value) for name, value in values.items()])


def only(store: Store, **live: float | bool) -> QueryStatus:
    figures = {CLICKS: LiveFigures(**live)} if live else None  # type: ignore[arg-type]
    (status,) = application_status(store, live=figures, now_s=NOW_S).queries
    return status


@pytest.mark.parametrize(
    ("decisions", "state", "ago_s"),
    [
        ([GOVERN], State.FINE, 0),
        ([GOVERN, keep(0.5), FAULT], State.FAULT, 0),
        ([GOVERN, FAULT, keep(1.0)], State.FINE, 0),
        ([HOLD], State.OBSERVED, None),
        ([GOVERN, keep(0.5), RELEASE], State.OBSERVED, 0),
        ([GOVERN, RELEASE, GOVERN], State.FINE, 0),
        ([GOVERN, keep(0.5), RELEASE, GOVERN], State.FINE, 0),
        ([GOVERN, INFEASIBLE, keep(0.5)], State.INFEASIBLE, 1),
        ([GOVERN, INFEASIBLE, HOLD], State.FINE, 2),
        ([GOVERN, INFEASIBLE, GOVERN], State.FINE, 0),
        ([GOVERN, INFEASIBLE, HOLD, INFEASIBLE], State.INFEASIBLE, 0),
        ([GOVERN, keep(0.5), GROW], State.SCALING, 0),
        ([GOVERN, GROW, DONE], State.FINE, 2),
        ([GOVERN, GROW, OVERTAKEN], State.SCALING, 1),
        ([GOVERN, GROW, INFEASIBLE], State.INFEASIBLE, 0),
        ([GOVERN, keep(0.5, 1), keep(0.4, 2), keep(0.6, 3)], State.SHEDDING, 2),
        ([GOVERN, keep(0.5, 1), keep(1.0, 2), keep(0.6, 3)], State.SHEDDING, 0),
        ([GOVERN, keep(0.5, 1), keep(1.0, 2), keep(2.0, 3)], State.FINE, 1),
    ],
)
def test_state_is_the_first_that_holds(decisions: list[Decision], state: State, ago_s: float | None) -> None:
    """From fault to fine, each with the time since when."""
    status = only(recorded(*decisions))

    assert status.state is state
    assert status.since_s == (None if ago_s is None else NOW_S - ago_s)


def test_every_state_has_a_sentence() -> None:
    """No state is told by a word alone."""
    assert all(state.sentence for state in State)


def test_what_is_not_applied_is_observed() -> None:
    """Decisions of observe-only mode are not in force, and executors that were not asked for do not start."""
    store = recorded(GOVERN, limit(10), keep(0.5), GROW, mode=Mode.OBSERVE)

    status = only(store)
    assert (status.state, status.keep_ratio, status.read_limit_units) == (State.OBSERVED, None, {})
    assert not application_status(store).executors.is_scaling


def test_more_waits_than_arrives_within_the_goal() -> None:
    """A backlog of more than five seconds of arrivals is being worked off, since the first such batch."""
    store = recorded(GOVERN)
    for ago_s, lag_rows in ((3.0, 900.0), (2.0, 1200.0), (1.0, 1100.0)):
        observe(store, ago_s=ago_s, lag_rows=lag_rows, arrival_rows_per_s=200.0)
    status = only(store)
    assert (status.state, status.since_s, status.backlog_rows) == (State.CATCHING_UP, NOW_S - 2.0, 1100.0)

    observe(store, lag_rows=1000.0)
    assert only(store).state is State.FINE
    assert only(store, backlog_rows=1001.0).state is State.CATCHING_UP


def test_parts_of_a_query_are_not_taken_for_the_whole() -> None:
    """The lag of one source and the time of one phase are not those of the query."""
    store = recorded(GOVERN)
    observe(store, lag_rows=7.0, batch_duration_s=2.0)
    store.append_points([
        SeriesPoint(NOW_S, CLICKS, Metric.LAG_ROWS, 3.0, 1, "source 0"),
        SeriesPoint(NOW_S, CLICKS, Metric.BATCH_DURATION_S, 0.1, 1, "addBatch"),
    ])  # fmt: skip
    status = only(store)
    assert (status.backlog_rows, status.latency_s) == (7.0, 4.0)


def test_latency_is_the_age_of_the_oldest_row_or_batch_and_wait() -> None:
    """A measured age wins while it is of the newest batch; else the batch and the wait for it count."""
    store = recorded(GOVERN)
    assert only(store).latency_s is None
    observe(store, ago_s=2.0, batch_duration_s=1.5)
    assert only(store).latency_s == 3.0
    observe(store, ago_s=2.0, lag_rows=600.0, processed_rows_per_s=100.0)
    assert only(store).latency_s == 7.5
    observe(store, ago_s=2.0, oldest_row_age_s=4.25)
    assert only(store).latency_s == 4.25
    observe(store, batch_duration_s=2.0)
    assert only(store).latency_s == 8.0
    assert only(store, latency_s=1.0).latency_s == 1.0


def test_figures_are_those_in_force() -> None:
    """Goal, ratio of the newest batch, limits of all sources by unit, executors."""
    store = recorded(GOVERN, limit(500), limit(900), limit(100, 1), limit(3, 2, LimitUnit.FILES), keep(0.06), GROW)
    observe(store, ago_s=9.0, query=APPLICATION, executors_serving=2.0)

    row = application_status(store, now_s=NOW_S).rows()[0]

    wanted = {
        "query": "clicks", "state": "scaling", "goal_latency_s": 5.0, "keep_ratio": 0.06, "minimum_accuracy": 0.05,
        "read_limit_rows": 1000.0, "read_limit_files": 3.0, "read_limit_bytes": None, "priority": 3,
        "executors_serving": 2, "executors_target": 4,
    }  # fmt: skip
    assert {key: row[key] for key in wanted} == wanted


def test_executors_that_serve_are_no_longer_awaited() -> None:
    """A decision that was reached is done even where nobody said so; one that changed nothing never was under way."""
    store = recorded(GOVERN, GROW)
    observe(store, ago_s=-1.0, query=APPLICATION, executors_serving=4.0)
    assert only(store).state is State.FINE
    same = Executors(cause="start", reason="as declared", executors=2, previous_executors=2)
    assert only(recorded(GOVERN, same)).state is State.FINE


def test_records_without_details_have_a_status() -> None:
    """What an earlier version recorded has no fields of decisions; what it does not tell is unknown."""
    store = MemoryStore()
    for kind in ActionKind:
        store.append(Action(kind, CLICKS, "batch 1", "because"), time_s=NOW_S, mode=Mode.ACT)
    status = only(store)
    assert (status.state, status.goal_latency_s, status.priority) == (State.FAULT, None, None)


def test_a_running_query_without_records_is_listed() -> None:
    """What is known from elsewhere is enough for a line."""
    assert only(MemoryStore(), backlog_rows=5.0).backlog_rows == 5.0


def test_table_is_aligned_and_narrow() -> None:
    """One line a query, no line wider than a hundred columns, whatever the names and numbers."""
    store = recorded(GOVERN, limit(12_345_678), keep(0.0625), GROW)
    observe(store, lag_rows=123_456_789.0, arrival_rows_per_s=98_765.4, oldest_row_age_s=12_345.678)
    for name in ("q" * 200, "漢字" * 40, "a\x1b[31m", "b"):
        observe(store, query=QueryName(name), lag_rows=1.0)
    store.append(to_action(Fault(cause="tick", reason="no " * 100)), time_s=NOW_S, mode=Mode.ACT)

    status = application_status(store, now_s=NOW_S + 1e6)
    lines = str(status).splitlines()

    assert repr(status) == str(status)
    assert len(status.queries) == 5
    assert max(map(width_columns, lines)) <= 100
    states = [line for line in lines if "observed" in line or "scaling" in line]
    assert (
        len({width_columns(line.partition("observed" if "observed" in line else "scaling")[0]) for line in states}) == 1
    )
    assert "6.25/5 %" in str(status)
    assert "12.3M rows" in str(status)
    assert "(application)" in lines[6]


def test_notebooks_get_an_escaped_table() -> None:
    """A name is text, never markup."""
    store = MemoryStore()
    observe(store, query=QueryName("<b>&"), lag_rows=1.0)
    markup = application_status(store)._repr_html_()
    assert "<b>" not in markup
    assert "&lt;b&gt;&amp;" in markup
    assert markup.count("<tr>") == 2
