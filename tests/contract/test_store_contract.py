"""What every store promises, run over every store."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import penstock.store
from penstock.errors import StoreError
from penstock.model import Action, ActionKind, Metric, Mode, QueryName, RecordedAction, SeriesPoint
from penstock.settings import StoreSettings
from penstock.store import MemoryStore, SqliteStore, Store, forget_old

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STORES: dict[str, Callable[[Path], Store]] = {
    "SqliteStore": lambda directory: SqliteStore(directory / "penstock.db"),
    "MemoryStore": lambda _: MemoryStore(),
}

CLICKS, TAXIS = QueryName("clicks"), QueryName("taxis")

READ_LIMIT = Action(
    kind=ActionKind.READ_LIMIT,
    query=CLICKS,
    cause="batch 12",
    reason="2 500 rows fit in 2.5 s, «höchstens»\n\x00'; DROP TABLE actions; --",
    target="source 0",
    value=2500.0,
    previous=1000.0,
    unit="rows",
    expected={"duration_s": 0.1 + 0.2, "größe": -1e-300},
    details={
        "source": 0,
        "units": 2**70,
        "rate": 0.1 + 0.2,
        "flag": True,
        "unit": "größe",
        "targets": {"a": [1.5, {}]},
    },
)


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Every store in turn, empty; at the end its ids must be without gaps."""
    opened = STORES[request.param](tmp_path)
    yield opened
    try:
        ids = [record.action_id for record in opened.actions()]
    except StoreError:
        return  # closed by the test
    assert ids == list(range(1, len(ids) + 1))
    opened.close()


@pytest.fixture(params=sorted(STORES))
def shrinking_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Every store in turn, empty; actions may be deleted from it, which leaves gaps between the ids."""
    opened = STORES[request.param](tmp_path)
    yield opened
    opened.close()


def _hold(query: QueryName = CLICKS, reason: str = "within goal") -> Action:
    return Action(ActionKind.HOLD, query, "batch 1", reason)


def _point(time_s: float, value: float = 1.0, **changes: object) -> SeriesPoint:
    return replace(SeriesPoint(time_s, CLICKS, Metric.LAG_ROWS, value), **changes)  # type: ignore[arg-type]


def _fill(store: Store) -> list[RecordedAction]:
    """Six actions of two queries, one every ten seconds from 10 to 60."""
    actions = [
        _hold(CLICKS),
        _hold(TAXIS),
        READ_LIMIT,
        replace(READ_LIMIT, query=TAXIS, value=None, previous=None),
        Action(ActionKind.INFEASIBLE, CLICKS, "batch 14", "one row takes 9 s"),
        _hold(CLICKS),
    ]
    return [store.append(action, time_s=10.0 * n, mode=Mode.ACT) for n, action in enumerate(actions, start=1)]


def test_every_exported_store_is_in_this_battery() -> None:
    """A new store cannot be exported without being put to this contract."""
    exported = {name for name in penstock.store.__all__ if hasattr(getattr(penstock.store, name), "append")}

    assert exported - {"Store"} == set(STORES)


def test_an_action_comes_back_as_it_was_given(store: Store) -> None:
    """Every field survives, odd characters and numbers included."""
    recorded = store.append(READ_LIMIT, time_s=1_700_000_000.123456, mode=Mode.OBSERVE)

    assert recorded == RecordedAction(1, 1_700_000_000.123456, Mode.OBSERVE, READ_LIMIT)
    assert store.actions() == [recorded]


def test_every_kind_and_mode_can_be_stored(store: Store) -> None:
    """No member of the enums is refused or comes back as plain text."""
    members = [(kind, mode) for kind in ActionKind for mode in Mode]
    for kind, mode in members:
        store.append(replace(READ_LIMIT, kind=kind), time_s=1.0, mode=mode)

    records = store.actions()
    assert [(record.action.kind, record.mode) for record in records] == members
    assert {(type(record.action.kind), type(record.mode)) for record in records} == {(ActionKind, Mode)}
    for kind in ActionKind:
        assert [record.action.kind for record in store.actions(kinds=[kind])] == [kind] * len(Mode)


def test_no_value_and_zero_are_told_apart(store: Store) -> None:
    """Unknown stays None and zero stays zero."""
    store.append(replace(READ_LIMIT, value=None, previous=0.0), time_s=0.0, mode=Mode.ACT)

    (record,) = store.actions()
    assert record.action.value is None
    assert record.action.previous == 0.0


def test_whole_numbers_are_taken_as_numbers(store: Store) -> None:
    """A caller may pass an int where a float is meant, as Python allows."""
    store.append(replace(READ_LIMIT, value=7, expected={"rows": 3}), time_s=5, mode=Mode.ACT)
    store.append_points([_point(5, 7)])

    (record,) = store.actions()
    (point,) = store.points(CLICKS, Metric.LAG_ROWS)
    assert (record.time_s, record.action.value, record.action.expected) == (5.0, 7.0, {"rows": 3.0})
    assert (type(record.action.value), type(point.value)) == (float, float)


def test_ids_start_at_one_and_have_no_gaps(store: Store) -> None:
    """A refused action uses up no id."""
    first = store.append(_hold(), time_s=1.0, mode=Mode.ACT)
    with pytest.raises(StoreError, match="time of hold of 'clicks' is nan"):
        store.append(_hold(), time_s=math.nan, mode=Mode.ACT)
    second = store.append(_hold(), time_s=1.0, mode=Mode.ACT)

    assert (first.action_id, second.action_id) == (1, 2)


def test_order_is_the_order_of_recording_even_when_the_clock_steps_back(store: Store) -> None:
    """A log is read in the order in which things were decided."""
    for time_s in (30.0, 10.0, 20.0):
        store.append(_hold(), time_s=time_s, mode=Mode.ACT)

    assert [record.time_s for record in store.actions()] == [30.0, 10.0, 20.0]
    assert [record.action_id for record in store.actions(last=2)] == [2, 3]


@pytest.mark.parametrize(
    ("filters", "expected_ids"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"query": CLICKS}, [1, 3, 5, 6]),
        ({"query": QueryName("nobody")}, []),
        ({"kinds": [ActionKind.HOLD]}, [1, 2, 6]),
        ({"kinds": {ActionKind.HOLD, ActionKind.INFEASIBLE}}, [1, 2, 5, 6]),
        ({"kinds": []}, [1, 2, 3, 4, 5, 6]),
        ({"since_s": 30.0}, [3, 4, 5, 6]),
        ({"until_s": 30.0}, [1, 2, 3]),
        ({"since_s": 20.0, "until_s": 40.0}, [2, 3, 4]),
        ({"since_s": 41.0, "until_s": 49.0}, []),
        ({"after_id": 4}, [5, 6]),
        ({"after_id": 6}, []),
        ({"after_id": -1}, [1, 2, 3, 4, 5, 6]),
        ({"last": 2}, [5, 6]),
        ({"last": 0}, []),
        ({"last": 100}, [1, 2, 3, 4, 5, 6]),
        ({"query": CLICKS, "kinds": [ActionKind.HOLD], "since_s": 10.0, "after_id": 1, "last": 5}, [6]),
        ({"query": TAXIS, "last": 1}, [4]),
    ],
)
def test_filters_choose_actions(store: Store, filters: dict[str, object], expected_ids: list[int]) -> None:
    """Each filter narrows the answer, both ends of a time range belong to it, and filters combine."""
    recorded = _fill(store)

    chosen = store.actions(**filters)  # type: ignore[arg-type]

    assert chosen == [recorded[action_id - 1] for action_id in expected_ids]
    if "last" not in filters:
        assert list(store.each_action(**filters)) == chosen  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kinds", "last", "expected_ids"),
    [
        ([ActionKind.HOLD, ActionKind.INFEASIBLE], 2, [5, 6]),
        ([ActionKind.READ_LIMIT, ActionKind.INFEASIBLE], 1, [5]),
        ([ActionKind.READ_LIMIT, ActionKind.INFEASIBLE], 9, [3, 5]),
        ([ActionKind.READ_LIMIT, ActionKind.FAULT], 0, []),
        (list(ActionKind), 3, [3, 5, 6]),
    ],
)
def test_the_newest_of_several_kinds(store: Store, kinds: list[ActionKind], last: int, expected_ids: list[int]) -> None:
    """``last`` counts over all kinds together, not for each of them."""
    _fill(store)

    assert [record.action_id for record in store.actions(query=CLICKS, kinds=kinds, last=last)] == expected_ids


def test_several_actions_are_recorded_together(store: Store) -> None:
    """They have one time and follow each other in the order given; none at all is no error."""
    store.append(_hold(), time_s=1.0, mode=Mode.ACT)

    recorded = store.append_all([READ_LIMIT, _hold(TAXIS)], time_s=2.0, mode=Mode.OBSERVE)

    assert [(each.action_id, each.time_s, each.mode) for each in recorded] == [
        (2, 2.0, Mode.OBSERVE),
        (3, 2.0, Mode.OBSERVE),
    ]
    assert store.actions(after_id=1) == recorded
    assert store.append_all([], time_s=3.0, mode=Mode.ACT) == []


def test_actions_are_recorded_together_or_not_at_all(store: Store) -> None:
    """One action that cannot be stored keeps its neighbours out too, and no id is used up."""
    with pytest.raises(StoreError, match="not valid Unicode"):
        store.append_all([_hold(), _hold(reason="\udcff"), _hold()], time_s=1.0, mode=Mode.ACT)

    assert store.actions() == []
    assert store.append(_hold(), time_s=1.0, mode=Mode.ACT).action_id == 1


@pytest.mark.parametrize(
    "detail", [math.nan, [math.inf], {"deep": {"er": -math.inf}}, {1: 2.0}, {1, 2}, b"bytes", "\udcff", {"\udcff": 1}]
)
def test_details_that_would_not_come_back_are_refused(store: Store, detail: object) -> None:
    """Whatever JSON has no word for, or another one, never reaches the log."""
    with pytest.raises(StoreError, match="read_limit of 'clicks'"):
        store.append(replace(READ_LIMIT, details={"it": detail}), time_s=1.0, mode=Mode.ACT)

    assert store.actions() == []


def test_many_actions_come_one_by_one(store: Store) -> None:
    """However many portions they are read in, each comes once and in order."""
    store.append_all([_hold(TAXIS if number % 3 else CLICKS) for number in range(2500)], time_s=1.0, mode=Mode.ACT)

    assert [record.action_id for record in store.each_action()] == list(range(1, 2501))
    assert [record.action_id for record in store.each_action(query=CLICKS, after_id=10)] == list(range(13, 2501, 3))


def test_last_below_zero_is_refused(store: Store) -> None:
    """A negative number of rows is a mistake, not "everything"."""
    with pytest.raises(StoreError, match="last = -1"):
        store.actions(last=-1)
    with pytest.raises(StoreError, match="last = -1"):
        store.points(CLICKS, Metric.LAG_ROWS, last=-1)


def test_a_kind_that_does_not_exist_is_refused(store: Store) -> None:
    """One kind in place of a list of kinds would otherwise match nothing without a word."""
    with pytest.raises(ValueError, match="'h' is not a valid ActionKind"):
        store.actions(kinds=ActionKind.HOLD)  # type: ignore[arg-type]


def test_points_come_back_by_time(store: Store) -> None:
    """A series is ordered by time; points of the same time keep the order of recording."""
    late, early, tie = _point(30.0, 1.5, batch_id=3), _point(10.0, -2.0, subject="source 1"), _point(30.0, 9.0)
    store.append_points([late, early])
    store.append_points([tie])

    assert store.points(CLICKS, Metric.LAG_ROWS) == [early, late, tie]


@pytest.mark.parametrize(
    ("filters", "expected_times_s"),
    [
        ({}, [1.0, 2.0, 3.0, 4.0]),
        ({"since_s": 2.0}, [2.0, 3.0, 4.0]),
        ({"until_s": 2.0}, [1.0, 2.0]),
        ({"since_s": 2.0, "until_s": 3.0}, [2.0, 3.0]),
        ({"since_s": 5.0}, []),
        ({"since_s": 3.0, "until_s": 2.0}, []),
        ({"last": 2}, [3.0, 4.0]),
        ({"last": 0}, []),
        ({"last": 9}, [1.0, 2.0, 3.0, 4.0]),
        ({"until_s": 3.0, "last": 2}, [2.0, 3.0]),
        ({"since_s": 3.0, "until_s": 2.0, "last": 1}, []),
    ],
)
def test_filters_choose_points(store: Store, filters: dict[str, float], expected_times_s: list[float]) -> None:
    """Both ends of a time range belong to it, and ``last`` counts from its end."""
    store.append_points([_point(time_s) for time_s in (1.0, 2.0, 3.0, 4.0)])
    store.append_points([_point(2.5, query=TAXIS), _point(2.5, metric=Metric.BATCH_ROWS)])

    chosen = store.points(CLICKS, Metric.LAG_ROWS, **filters)  # type: ignore[arg-type]

    assert [point.time_s for point in chosen] == expected_times_s


def test_every_metric_can_be_stored(store: Store) -> None:
    """Series of one query do not mix."""
    points = [_point(1.0, float(number), metric=each) for number, each in enumerate(Metric)]
    store.append_points(points)

    assert [store.points(CLICKS, point.metric) for point in points] == [[point] for point in points]


def test_no_points_are_no_error(store: Store) -> None:
    """A batch that tells nothing records nothing, and an unknown query has an empty series."""
    store.append_points([])

    assert store.points(CLICKS, Metric.LAG_ROWS) == []
    assert store.queries() == []


@pytest.mark.parametrize(
    "bad",
    [
        _point(2.0, math.nan),
        _point(2.0, math.inf),
        _point(math.nan),
        _point(-math.inf),
        _point(2.0, batch_id=2**63),
        _point(2.0, subject="\ud800"),
    ],
    ids=["nan", "infinite", "no time", "infinite time", "batch id too large", "bad text"],
)
def test_points_are_recorded_together_or_not_at_all(store: Store, bad: SeriesPoint) -> None:
    """One point that cannot be stored keeps its neighbours out too."""
    with pytest.raises(StoreError, match="lag_rows of 'clicks'"):
        store.append_points([_point(1.0), bad, _point(3.0)])

    assert store.points(CLICKS, Metric.LAG_ROWS) == []
    store.append_points([_point(4.0)])
    assert store.points(CLICKS, Metric.LAG_ROWS) == [_point(4.0)]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_never_reach_the_log(store: Store, number: float) -> None:
    """The action itself refuses them, and the store refuses them as a time."""
    for changes in ({"value": number}, {"previous": number}, {"expected": {"rows": number}}):
        with pytest.raises(ValueError, match="finite numbers only"):
            replace(READ_LIMIT, **changes)
    with pytest.raises(StoreError, match="only finite numbers are stored"):
        store.append(READ_LIMIT, time_s=number, mode=Mode.ACT)

    assert store.actions() == []


def test_text_that_is_not_unicode_is_refused(store: Store) -> None:
    """A file name with stray bytes gets a plain error, not a codec's."""
    with pytest.raises(StoreError, match="not valid Unicode"):
        store.append(_hold(reason="file \udcff"), time_s=1.0, mode=Mode.ACT)


@pytest.mark.parametrize("number", [5e-324, sys.float_info.max, -0.1, 1e16 + 2, 2.0**53])
def test_numbers_keep_every_bit(store: Store, number: float) -> None:
    """A number read back is the number given, not one near it."""
    store.append(replace(READ_LIMIT, value=number, expected={"rows": number}), time_s=number, mode=Mode.ACT)
    store.append_points([_point(number, number)])

    (record,) = store.actions()
    (point,) = store.points(CLICKS, Metric.LAG_ROWS)
    assert (record.time_s, record.action.value, record.action.expected["rows"]) == (number, number, number)
    assert (point.time_s, point.value) == (number, number)


def test_inputs_are_left_alone_and_do_not_reach_back(store: Store) -> None:
    """Recording changes no argument, and changing an argument or an answer later does not change the log."""
    expected = {"rows": 1.0}
    points = [_point(2.0), _point(1.0)]
    recorded = store.append(replace(READ_LIMIT, expected=expected), time_s=1.0, mode=Mode.ACT)
    store.append_points(points)
    assert (expected, points) == ({"rows": 1.0}, [_point(2.0), _point(1.0)])

    expected["rows"] = 2.0
    points.clear()
    recorded.action.expected["rows"] = 3.0  # type: ignore[index]
    store.actions()[0].action.expected["rows"] = 4.0  # type: ignore[index]

    assert store.actions()[0].action.expected == {"rows": 1.0}
    assert len(store.points(CLICKS, Metric.LAG_ROWS)) == 2


def test_queries_are_those_with_actions_or_points_sorted(store: Store) -> None:
    """Each name appears once, wherever it was seen; order is by code point."""
    for name in ("b", "é", "B"):
        store.append(_hold(QueryName(name)), time_s=1.0, mode=Mode.ACT)
    store.append_points([_point(1.0, query=QueryName(name)) for name in ("b", "", "z", "😀")])

    assert store.queries() == ["", "B", "b", "z", "é", "😀"]


def test_messages_keep_their_newest_text_by_query(store: Store) -> None:
    """A name has one text, the last; queries do not see each other's."""
    store.put_messages("a", [("costs.1", "4"), ("costs.0", "3")])
    store.put_messages("b", [("costs.0", "other")])
    store.put_messages("a", [("costs.0", "5")])

    assert store.messages("a") == [("costs.0", "5"), ("costs.1", "4")]
    assert store.messages("b") == [("costs.0", "other")]
    assert store.messages("c") == []


def test_old_points_are_deleted_and_actions_stay(store: Store) -> None:
    """Deletion counts what went, spares the given moment itself, and forgets queries of which nothing is left."""
    store.append(_hold(), time_s=1.0, mode=Mode.ACT)
    store.append_points([_point(1.0), _point(2.0), _point(3.0), _point(1.0, query=TAXIS)])
    assert store.queries() == [CLICKS, TAXIS]

    assert store.delete_points(before_s=2.0) == 2
    assert [point.time_s for point in store.points(CLICKS, Metric.LAG_ROWS)] == [2.0, 3.0]
    assert store.queries() == [CLICKS]
    assert store.delete_points(before_s=2.0) == 0
    assert store.delete_points(before_s=math.inf) == 2
    assert len(store.actions()) == 1


def _batch_history(store: Store) -> None:
    """Twenty batches of two queries, a second each: a limit of source 0 and a ratio; source 1 was limited once."""
    store.append(replace(READ_LIMIT, target="source 1"), time_s=0.0, mode=Mode.ACT)
    for batch in range(20):
        ratio = Action(ActionKind.KEEP_RATIO, CLICKS, "planned", "fits", target=f"batch {batch}", value=0.5)
        actions = [READ_LIMIT, ratio, replace(ratio, query=TAXIS), _hold()]
        store.append_all(actions, time_s=float(batch), mode=Mode.ACT)


def test_old_decisions_of_batches_are_deleted(shrinking_store: Store) -> None:
    """Those of the given kinds before the given moment go; the moment itself, other kinds and what follows stay."""
    store = shrinking_store
    _batch_history(store)
    kinds = (ActionKind.READ_LIMIT, ActionKind.KEEP_RATIO)

    assert store.delete_actions(before_s=15.0, kinds=()) == 0
    assert store.delete_actions(before_s=15.0, kinds=kinds) == 45
    assert store.delete_actions(before_s=15.0, kinds=kinds) == 0

    ratios = store.actions(query=CLICKS, kinds=[ActionKind.KEEP_RATIO])
    assert [record.action.target for record in ratios] == [f"batch {batch}" for batch in range(15, 20)]
    assert len(store.actions(kinds=[ActionKind.HOLD])) == 20
    assert list(store.each_action()) == store.actions()


def test_what_is_in_force_is_never_deleted(shrinking_store: Store) -> None:
    """The newest of each query and kind stays whatever its age, and so does the last limit of each source."""
    store = shrinking_store
    _batch_history(store)

    store.delete_actions(before_s=math.inf, kinds=list(ActionKind))

    left = [(record.action.query, record.action.kind, record.action.target) for record in store.actions()]
    assert left == [
        (CLICKS, ActionKind.READ_LIMIT, "source 1"),
        (CLICKS, ActionKind.READ_LIMIT, "source 0"),
        (CLICKS, ActionKind.KEEP_RATIO, "batch 19"),
        (TAXIS, ActionKind.KEEP_RATIO, "batch 19"),
        (CLICKS, ActionKind.HOLD, ""),
    ]
    newest_id = store.actions(last=1)[0].action_id
    assert store.append(_hold(), time_s=1.0, mode=Mode.ACT).action_id == newest_id + 1


def test_old_rows_are_forgotten_by_the_settings(shrinking_store: Store) -> None:
    """Observations go after ``series_days``, replaced limits and ratios after ``action_days``."""
    store, day_s = shrinking_store, 86_400.0
    for day in range(4):
        store.append(READ_LIMIT, time_s=day * day_s, mode=Mode.ACT)
        store.append_points([_point(day * day_s)])
    settings = StoreSettings(series_days=2.0, action_days=1.0)

    assert forget_old(store, settings, now_s=3.5 * day_s) == 2 + 3

    assert [record.time_s for record in store.actions()] == [3 * day_s]
    assert len(store.points(CLICKS, Metric.LAG_ROWS)) == 2


def test_a_closed_store_refuses_everything(store: Store) -> None:
    """Recording and reading after close are plain errors; closing again is not."""
    store.append(_hold(), time_s=1.0, mode=Mode.ACT)
    store.close()
    store.close()

    for use in (
        lambda: store.append(_hold(), time_s=2.0, mode=Mode.ACT),
        lambda: store.append_points([_point(1.0)]),
        lambda: store.append_points([]),
        lambda: store.delete_points(before_s=1.0),
        lambda: store.delete_actions(before_s=1.0, kinds=[ActionKind.HOLD]),
        lambda: list(store.each_action()),
        store.actions,
        store.queries,
        lambda: store.points(CLICKS, Metric.LAG_ROWS),
    ):
        with pytest.raises(StoreError, match="closed"):
            use()


def test_many_threads_may_record_and_read_at_once(store: Store) -> None:
    """No action is lost, doubled or mixed up, each thread's actions stay in order, and readers see whole prefixes."""
    threads, each = 8, 25

    def work(thread: int) -> list[RecordedAction]:
        recorded = []
        for step in range(each):
            action = replace(READ_LIMIT, cause=f"thread {thread}", value=float(step))
            recorded.append(store.append(action, time_s=float(step), mode=Mode.ACT))
            store.append_points([_point(float(step), float(thread), batch_id=step)])
            seen = [record.action_id for record in store.actions(last=10)]
            assert seen == list(range(seen[0], seen[0] + len(seen)))
            assert seen[-1] >= recorded[-1].action_id
        return recorded

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(work, range(threads)))

    assert store.actions() == sorted((record for part in results for record in part), key=lambda r: r.action_id)
    assert len(store.actions()) == threads * each
    for thread in range(threads):
        mine = [record.action.value for record in store.actions() if record.action.cause == f"thread {thread}"]
        assert mine == [float(step) for step in range(each)]
    points = store.points(CLICKS, Metric.LAG_ROWS)
    assert sorted((point.value, point.time_s) for point in points) == [
        (float(thread), float(step)) for thread in range(threads) for step in range(each)
    ]


def test_bins_are_what_the_points_between_edges_come_to(store: Store) -> None:
    """The earlier edge belongs to a stretch and the later one does not; one without points is None."""
    store.append_points([_point(time_s, value) for time_s, value in ((1.0, 2.0), (2.0, 4.0), (3.0, 9.0), (7.0, 5.0))])
    store.append_points([replace(_point(2.5, 99.0), subject="source 0"), _point(2.5, 77.0, query=TAXIS)])
    first, second, third = store.bins(CLICKS, Metric.LAG_ROWS, [1.0, 3.0, 5.0, 9.0])
    assert first is not None
    assert (first.time_s, first.count, first.low, first.mean, first.high) == (1.0, 2, 2.0, 3.0, 4.0)
    assert second is not None
    assert (second.count, second.mean) == (1, 9.0)
    assert third is not None
    assert third.mean == 5.0
    assert store.bins(CLICKS, Metric.LAG_ROWS, [20.0, 30.0]) == [None]
    (parts,) = store.bins(CLICKS, Metric.LAG_ROWS, [2.0, 3.0], subject=None)
    assert parts is not None
    assert parts.high == 99.0


def test_bins_of_very_many_points_read_some_of_them(store: Store) -> None:
    """The time that a chart takes has a bound, and the mean is still that of the stretch."""
    store.append_points([_point(index / 1000, 5.0) for index in range(2000)])
    (found,) = store.bins(CLICKS, Metric.LAG_ROWS, [0.0, 10.0])
    assert found is not None
    assert found.count < 2000
    assert found.mean == 5.0


def test_whoever_follows_sees_every_point_once(store: Store) -> None:
    """Points come in the order of recording whatever their times, and a portion goes on where the last one ended."""
    assert store.newest_point_id() == 0
    store.append_points([_point(time_s) for time_s in (5.0, 3.0, 9.0)])
    seen = store.points_after(0, limit=2)
    assert [point.time_s for _, point in seen] == [5.0, 3.0]
    store.append_points([_point(1.0, query=TAXIS)])
    rest = store.points_after(seen[-1][0], limit=10)
    assert [point.time_s for _, point in rest] == [9.0, 1.0]
    assert rest[-1][0] == store.newest_point_id()
    assert store.points_after(rest[-1][0], limit=10) == []
