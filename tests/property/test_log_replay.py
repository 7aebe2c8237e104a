"""A log gives back what went in, and replaying it gives the state that recording it had."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model import APPLICATION, Action, ActionKind, LimitUnit, Metric, Mode, QueryName, SeriesPoint
from penstock.model.decision import DECISIONS, Decision, from_action, to_action
from penstock.store import MemoryStore, SqliteStore, Store, open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.sampled_from(["clicks", "taxis", "mentions"]).map(QueryName)
few_times_s = st.integers(0, 20).map(float)

actions = st.builds(
    Action,
    kind=st.sampled_from(ActionKind),
    query=names | st.text(max_size=8).map(QueryName),
    cause=st.text(max_size=20),
    reason=st.text(max_size=60),
    target=st.sampled_from(["", "source 0", "source 1"]),
    value=st.none() | finite,
    previous=st.none() | finite,
    unit=st.sampled_from(["", "rows", "files", "bytes"]),
    expected=st.dictionaries(st.text(max_size=8), finite, max_size=3),
    details=st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | finite | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
            max_leaves=5,
        ),
        max_size=3,
    ),
)
entries = st.lists(st.tuples(actions, finite | few_times_s, st.sampled_from(Mode)), max_size=25)
points = st.builds(
    SeriesPoint,
    time_s=finite | few_times_s,
    query=names,
    metric=st.sampled_from([Metric.LAG_ROWS, Metric.BATCH_ROWS]),
    value=finite,
    batch_id=st.none() | st.integers(0, 2**63 - 1),
    subject=st.text(max_size=8),
)

# What a field of a decision may be, by its type as it is written; a type that is missing here fails the test.
whole = st.integers(-(2**63) + 1, 2**63 - 1)
OF_TYPE: dict[str, st.SearchStrategy[object]] = {
    "QueryName": names | st.just(APPLICATION),
    "str": st.text(max_size=20),
    "bool": st.booleans(),
    "int": whole,
    "int | None": st.none() | whole,
    "float": finite,
    "float | None": st.none() | finite,
    "LimitUnit": st.sampled_from(LimitUnit),
    "tuple[str, ...]": st.lists(st.text(max_size=8), max_size=3).map(tuple),
    "Mapping[str, int]": st.fixed_dictionaries(
        dict.fromkeys(("executors", "heap_mb", "overhead_mb", "python_mb", "cores", "task_cpus"), st.integers(0, 2**20))
    ),
    "Mapping[str, float]": st.dictionaries(st.text(max_size=8), finite, max_size=3),
}
decisions = st.sampled_from(DECISIONS).flatmap(
    lambda kind: st.builds(kind, **{each.name: OF_TYPE[str(each.type)] for each in fields(kind)})
)

few_examples = settings(max_examples=30, deadline=None)

# What is read back does not depend on the disk; waiting for it at every commit of every example takes minutes.
MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - each example makes its own directory there


def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None)


@contextmanager
def _sqlite() -> Iterator[Store]:
    with _directory() as directory, SqliteStore(Path(directory) / "penstock.db") as store:
        yield store


STORES: dict[str, Callable[[], AbstractContextManager[Store]]] = {"SqliteStore": _sqlite, "MemoryStore": MemoryStore}
every_store = pytest.mark.parametrize("opened", STORES.values(), ids=STORES.keys())


def _limits_in_force(log: Iterable[Action]) -> dict[tuple[str, str], float | None]:
    """The last read limit of every source of every query."""
    return {(each.query, each.target): each.value for each in log if each.kind is ActionKind.READ_LIMIT}


@every_store
@few_examples
@given(entries=entries)
def test_what_is_appended_is_read_back_in_order(
    opened: Callable[[], AbstractContextManager[Store]], entries: list[tuple[Action, float, Mode]]
) -> None:
    """Any sequence of actions comes back equal, in order, with ids from 1 on."""
    with opened() as store:
        recorded = [store.append(action, time_s=time_s, mode=mode) for action, time_s, mode in entries]

        assert store.actions() == recorded
        assert [(r.action, r.time_s, r.mode) for r in store.actions()] == entries
        assert [r.action_id for r in recorded] == list(range(1, len(entries) + 1))


@every_store
@settings(max_examples=100, deadline=None)
@given(made=st.lists(decisions, max_size=5))
def test_a_decision_read_back_equals_the_one_that_was_made(
    opened: Callable[[], AbstractContextManager[Store]], made: list[Decision]
) -> None:
    """Every field of every kind of decision survives the log."""
    with opened() as store:
        store.append_all([to_action(decision) for decision in made], time_s=1.0, mode=Mode.ACT)

        read_back = [from_action(record.action) for record in store.actions()]

    assert read_back == made
    assert [type(each) for each in read_back] == [type(each) for each in made]


@every_store
@few_examples
@given(entries=entries)
def test_replaying_the_log_gives_the_limits_in_force(
    opened: Callable[[], AbstractContextManager[Store]], entries: list[tuple[Action, float, Mode]]
) -> None:
    """The last read limits are the same over what was recorded and over what a restart reads."""
    with opened() as store:
        for action, time_s, mode in entries:
            store.append(action, time_s=time_s, mode=mode)

        replayed = _limits_in_force(record.action for record in store.actions())

    assert replayed == _limits_in_force(action for action, _, _ in entries)


@few_examples
@given(before=entries, after=entries)
def test_a_log_goes_on_where_it_was_left(
    before: list[tuple[Action, float, Mode]], after: list[tuple[Action, float, Mode]]
) -> None:
    """Closing and opening a file in between changes nothing, and a reader sees the same as the writer."""
    with _directory() as directory:
        path = Path(directory) / "penstock.db"
        for part in (before, after):
            with SqliteStore(path) as store:
                for action, time_s, mode in part:
                    store.append(action, time_s=time_s, mode=mode)
                with open_reader(path) as reader:
                    assert reader.actions() == store.actions()
        with open_reader(path) as reader:
            assert [(r.action, r.time_s, r.mode) for r in reader.actions()] == before + after


@few_examples
@given(
    entries=st.lists(st.tuples(actions, few_times_s, st.sampled_from(Mode)), max_size=25),
    query=st.none() | names,
    kinds=st.sets(st.sampled_from(ActionKind), max_size=3),
    since_s=st.none() | few_times_s,
    until_s=st.none() | few_times_s,
    after_id=st.integers(-1, 26),
    last=st.none() | st.integers(0, 26),
)
def test_both_stores_choose_the_same_actions(
    *,
    entries: list[tuple[Action, float, Mode]],
    query: QueryName | None,
    kinds: set[ActionKind],
    since_s: float | None,
    until_s: float | None,
    after_id: int,
    last: int | None,
) -> None:
    """Whatever the filters, the file and the lists agree with a plain reading of the log."""
    with _sqlite() as file, MemoryStore() as memory:
        log = [memory.append(action, time_s=time_s, mode=mode) for action, time_s, mode in entries]
        for action, time_s, mode in entries:
            file.append(action, time_s=time_s, mode=mode)
        plain = [
            record
            for record in log
            if (query is None or record.action.query == query)
            and (not kinds or record.action.kind in kinds)
            and (since_s is None or record.time_s >= since_s)
            and (until_s is None or record.time_s <= until_s)
            and record.action_id > after_id
        ]
        if last is not None:
            plain = plain[max(len(plain) - last, 0) :]

        for store in (file, memory):
            chosen = store.actions(
                query=query, kinds=kinds, since_s=since_s, until_s=until_s, after_id=after_id, last=last
            )
            assert chosen == plain


@few_examples
@given(
    batches=st.lists(st.lists(points, max_size=6), max_size=6),
    since_s=st.none() | few_times_s,
    until_s=st.none() | few_times_s,
    last=st.none() | st.integers(0, 10),
    before_s=few_times_s,
)
def test_both_stores_keep_the_same_series(
    batches: list[list[SeriesPoint]],
    since_s: float | None,
    until_s: float | None,
    last: int | None,
    before_s: float,
) -> None:
    """Series, names and deletions agree between the file, the lists and a plain reading of the points."""
    with _sqlite() as file, MemoryStore() as memory:
        for store in (file, memory):
            for batch in batches:
                store.append_points(batch)
        everything = [point for batch in batches for point in batch]
        for store in (file, memory):
            for query in store.queries():
                mine = [p for p in everything if p.query == query and p.metric is Metric.LAG_ROWS]
                plain = sorted(
                    (
                        p
                        for p in mine
                        if (since_s is None or p.time_s >= since_s) and (until_s is None or p.time_s <= until_s)
                    ),
                    key=lambda p: p.time_s,
                )
                if last is not None:
                    plain = plain[max(len(plain) - last, 0) :]
                assert store.points(query, Metric.LAG_ROWS, since_s=since_s, until_s=until_s, last=last) == plain
            kept = [p for p in everything if p.time_s >= before_s]
            assert store.queries() == sorted({p.query for p in everything})
            assert store.delete_points(before_s=before_s) == len(everything) - len(kept)
            assert store.queries() == sorted({p.query for p in kept})
