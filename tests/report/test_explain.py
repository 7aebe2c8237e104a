"""The explanation of a query."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import UnknownQueryError
from penstock.model import APPLICATION, Action, ActionKind, Metric, Mode, QueryName, SeriesPoint
from penstock.model.decision import Executors, Govern, KeepRatio, Repayment, to_action
from penstock.report import application_status, explain
from penstock.report.text import clock_time
from penstock.store import MemoryStore

CLICKS = QueryName("clicks")
NOW_S = 1_700_000_000.0


def act(kind: ActionKind, reason: str = "because", **fields: Any) -> Action:
    return Action(kind, CLICKS, "batch 7", reason, **fields)


def recorded(*actions: Action, mode: Mode = Mode.ACT) -> MemoryStore:
    store = MemoryStore()
    for second, action in enumerate(actions):
        store.append(action, time_s=NOW_S + second, mode=mode)
    return store


def lines(store: MemoryStore) -> list[str]:
    return str(explain(store, CLICKS, now_s=NOW_S)).splitlines()


def kinds(store: MemoryStore) -> list[ActionKind]:
    return [entry.action.kind for entry in explain(store, CLICKS).actions]


GOVERN = to_action(
    Govern(query=CLICKS, cause="start", reason="declared", latency_s=5.0, minimum_accuracy=0.05, priority=3)
)
LIMIT = act(ActionKind.READ_LIMIT, target="source 0", value=12_000.0, unit="rows")


def ratio(value: float, batch: int) -> Action:
    return to_action(
        KeepRatio(query=CLICKS, cause="planned", reason="fits", batch_id=batch, keep_ratio=value, keep_floor=0.05)
    )


def test_all_that_is_in_force_in_eight_lines() -> None:
    """State, goal, limits, ratio of the newest batch, executors, trouble, effect: in this order, a line each."""
    store = recorded(
        GOVERN,
        act(ActionKind.READ_LIMIT, target="source 1", value=3.0, unit="files"),
        LIMIT,
        *(ratio(0.01 * batch, batch) for batch in range(1, 7)),
        to_action(Executors(cause="tick", reason="more is to come", executors=4, previous_executors=2)),
        act(ActionKind.INFEASIBLE, "one row takes 9 s", expected={"batch_duration_s": 2.0}),
        act(ActionKind.FAULT, "no answer"),
    )
    for second, value in ((0, 9.0), (11, 3.0), (12, 4.0)):
        store.append_points([SeriesPoint(NOW_S + second, CLICKS, Metric.BATCH_DURATION_S, value)])
    store.append_points([SeriesPoint(NOW_S, APPLICATION, Metric.EXECUTORS_SERVING, 2.0)])

    told = lines(store)

    at = [clock_time(NOW_S + second, now_s=NOW_S) for second in range(12)]
    both = "12,000 rows a batch from source 0, 3 files a batch from source 1"
    assert told == [
        f"clicks had a fault, and may run on without Penstock (since {at[11]}).",
        f"goal since {at[0]}: results within 5 s, at least 5 % of rows kept, priority 3",
        f"reads at most {both} since {at[2]}, batch 7: because",
        f"keeps 6 % of rows since {at[8]} (min accuracy 5 %), planned: fits",
        f"(application) 2 executors serve, 4 are to serve since {at[9]}, tick: more is to come",
        f"cannot meet its goal as of {at[10]}, batch 7: one row takes 9 s",
        f"had a fault as of {at[11]}, batch 7: no answer",
        "batch duration was expected to be 2 s; it is 3.5 s on average over 2 points since",
    ]


def test_released_query_has_no_limits_in_force() -> None:
    """After a release the limits of before are not told as if they held."""
    store = recorded(GOVERN, LIMIT, ratio(0.5, 1), act(ActionKind.RELEASE, "asked for"))
    assert kinds(store) == [ActionKind.RELEASE]
    assert lines(store)[0].endswith(": asked for")
    assert "not governed any more" in lines(store)[0]
    assert len(lines(store)) == 1


def test_governed_again_after_release() -> None:
    """Limits of an earlier life of the query are not told, those of this one are, set before the start or after."""
    old, new = (act(ActionKind.READ_LIMIT, target=f"source {index}", value=10.0) for index in (0, 1))
    store = recorded(GOVERN, old, act(ActionKind.RELEASE), new, GOVERN)
    entries = explain(store, CLICKS).actions
    assert [(entry.action.kind, entry.action.target) for entry in entries] == [
        (ActionKind.GOVERN, ""),
        (ActionKind.READ_LIMIT, "source 1"),
    ]


def test_what_was_repaid_is_told_and_hides_no_fault() -> None:
    """The newest word on dropped rows is in the line of what is kept; a fault before it stands all the same."""
    lost = Repayment(
        query=CLICKS, cause="idle", reason="the source has lost 90 of the 200 rows of it", first_batch_id=2,
        last_batch_id=3, batches=2, is_repaid=False, parts=90, parts_unit="rows",
    )  # fmt: skip
    done = Repayment(
        query=CLICKS, cause="idle", reason="there is room", first_batch_id=4, last_batch_id=4, is_repaid=True
    )
    told = lines(recorded(GOVERN, ratio(0.5, 4), act(ActionKind.FAULT, "no answer"), to_action(lost)))
    at = clock_time(NOW_S + 3, now_s=NOW_S)
    assert told[0].startswith("clicks had a fault")
    assert told[2].endswith(
        f"; what 2 batches, 2 to 3 dropped cannot be repaid as of {at}: the source has lost 90 of the 200 rows of it"
    )
    told = lines(recorded(GOVERN, to_action(lost), to_action(done)))
    assert told[2] == f"what batch 4 dropped was repaid as of {clock_time(NOW_S + 2, now_s=NOW_S)}: there is room"


def test_trouble_that_is_over_is_not_told() -> None:
    """A fault that decisions followed, and a goal that fits again, are history."""
    assert kinds(recorded(GOVERN, act(ActionKind.INFEASIBLE), act(ActionKind.FAULT), act(ActionKind.HOLD))) == [
        ActionKind.GOVERN
    ]


@pytest.mark.parametrize("kind", ActionKind)
def test_every_kind_can_be_explained(kind: ActionKind) -> None:
    """Whatever is decided, and however little is recorded of it, there is a first line and no unfilled place."""
    for fields in ({}, {"value": 0.5, "previous": 1.0}):
        told = lines(recorded(act(kind, **fields)))
        assert told[0].startswith("clicks ")
        assert "{" not in "".join(told)
        assert "None" not in "".join(told)


def test_unmanaged_sources_are_told_with_the_limits() -> None:
    """What cannot be limited stands beside what is, with its reason."""
    unmanaged = act(ActionKind.UNMANAGED, "it has no offsets", target="source 1")
    told = lines(recorded(GOVERN, LIMIT, unmanaged))[2]
    assert "from source 0" in told
    assert told.endswith("; source 1 is unmanaged: it has no offsets")


def test_observe_only_is_said() -> None:
    """Decisions that were not applied are told as such."""
    told = lines(recorded(GOVERN, LIMIT, mode=Mode.OBSERVE))
    assert "what is decided is not applied" in told[0]
    assert "observed only, not applied" in told[2]


def test_expectation_without_series_is_skipped() -> None:
    """An expectation that no series can confirm gives no line about its effect."""
    store = recorded(act(ActionKind.READ_LIMIT, value=10.0, expected={"mood": 1.0, "lag_rows": 5.0}))
    assert len(lines(store)) == 2
    store.append_points([SeriesPoint(NOW_S + 1, CLICKS, Metric.LAG_ROWS, 8.0)])
    assert lines(store)[2] == "lag was expected to be 5 rows; it is 8 rows on average over 1 points since"


def test_unknown_query_lists_the_known_ones() -> None:
    """The error carries the names that would have worked; the application is none."""
    store = recorded(GOVERN, to_action(Executors(cause="start", reason="as declared", executors=1)))
    for name in ("clocks", APPLICATION):
        with pytest.raises(UnknownQueryError) as caught:
            explain(store, QueryName(name))
        assert caught.value.known == ["clicks"]


def test_notebooks_get_escaped_lines() -> None:
    """A reason is text, never markup."""
    markup = explain(recorded(act(ActionKind.GOVERN, "<script>")), CLICKS)._repr_html_()
    assert "<script>" not in markup
    assert "&lt;script&gt;" in markup


class CountingStore(MemoryStore):
    """Counts the rows that each look-up gives."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def actions(self, **filters: Any) -> Any:
        """As the store does, counted."""
        rows = super().actions(**filters)
        self.counts.append(len(rows))
        return rows

    def points(self, *names: Any, **filters: Any) -> Any:
        """As the store does, counted."""
        rows = super().points(*names, **filters)
        self.counts.append(len(rows))
        return rows

    def each_action(self, **_: Any) -> Any:
        """Refused."""
        raise AssertionError("a report does not read the whole log")


def test_reads_are_bounded_whatever_the_size_of_the_store() -> None:
    """Ten thousand batches cost no more rows than one thousand, and no look-up gives more than a hundred."""
    totals = []
    for batches in (1_000, 10_000):
        store = CountingStore()
        store.append(GOVERN, time_s=0.0, mode=Mode.ACT)
        for batch in range(batches):
            limit = act(ActionKind.READ_LIMIT, target="source 0", value=float(batch), expected={"lag_rows": 1.0})
            actions = [limit, ratio(0.5, batch), act(ActionKind.HOLD), act(ActionKind.INFEASIBLE)]
            store.append_all(actions, time_s=1.0, mode=Mode.ACT)
            metrics = (Metric.LAG_ROWS, Metric.BATCH_DURATION_S, Metric.ARRIVAL_ROWS_PER_S, Metric.OLDEST_ROW_AGE_S)
            store.append_points([SeriesPoint(1.0 + batch, CLICKS, metric, 9.0, batch) for metric in metrics])
        for report in (lambda store: explain(store, CLICKS), application_status):
            store.counts.clear()
            report(store)
            assert max(store.counts) <= 100
            totals.append(sum(store.counts))
    assert totals[:2] == totals[2:]
    assert totals[1] < 800
