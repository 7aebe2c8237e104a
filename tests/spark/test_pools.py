"""Bringing the threads of queries into the pools of their priorities, without Spark."""

from __future__ import annotations

import pytest

from penstock.model.goal import MAX_PRIORITY, MIN_PRIORITY
from penstock.spark import internals
from penstock.spark.pools import PriorityPools, pool_of


class Thread:
    """The JVM's side of a thread: the pool that it is in, and how often it was asked for."""

    def __init__(self, pool: str | None = None) -> None:
        self.pool, self.calls = pool, 0

    def join(self, name: str, weight: int, *, leaving: str | None) -> bool:
        """As :func:`penstock.spark.internals.join_pool`, of a fair scheduler."""
        self.calls += 1
        assert pool_of(weight) == name
        if self.pool != leaving:
            return False
        self.pool = name
        return True

    def leave(self, name: str) -> None:
        """As :func:`penstock.spark.internals.leave_pool`."""
        assert self.pool == name
        self.pool = None


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Thread:
    made = Thread()
    monkeypatch.setattr(internals, "join_pool", made.join)
    monkeypatch.setattr(internals, "leave_pool", made.leave)
    return made


def test_names_sort_from_the_highest_priority_down() -> None:
    """Spark takes the first by name of equal pools."""
    names = [pool_of(priority) for priority in range(MIN_PRIORITY, MAX_PRIORITY + 1)]
    assert sorted(names, reverse=True) == names


def test_a_run_joins_once_and_again_when_its_priority_changes(thread: Thread) -> None:
    """A batch that finds everything as it is to be asks Spark for nothing."""
    pools = PriorityPools()
    pools.join("run")
    assert thread.calls == 0, "nobody governs it"
    for priority in (3, 3, 7, 7):
        pools.ask_for("run", priority)
        pools.join("run")
        assert thread.pool == pool_of(priority)
    assert thread.calls == 2
    pools.ask_for("run", None)
    for _ in range(2):
        pools.join("run")
    assert (thread.pool, thread.calls) == (None, 2), "nobody governs it any more, and it is where it was"


def test_a_pool_that_somebody_has_chosen_stays(thread: Thread) -> None:
    """It is asked about once, and never again."""
    thread.pool = "own"
    pools = PriorityPools()
    for priority in (3, 7):
        pools.ask_for("run", priority)
        pools.join("run")
    assert (thread.pool, thread.calls) == ("own", 1)


def test_a_failure_costs_the_batch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark without such pools runs the query as it would without Penstock."""

    def broken(*_: object, **__: object) -> bool:
        raise RuntimeError("no such member")

    monkeypatch.setattr(internals, "join_pool", broken)
    pools = PriorityPools()
    pools.ask_for("run", 3)
    pools.join("run")
    pools.forget("run")
