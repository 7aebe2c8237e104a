"""Rehearsals of an application's queries: which batch, how often, and what is left behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from patience import PATIENCE_S
from penstock.spark import rehearsal

PROFILE = 7


class Query:
    """A query whose newest batch is over after some looks."""

    def __init__(self, name: str, *, looks: int = 0, kind: str = "micro-batch", fails: str = "") -> None:
        self.name, self.id, self.kind, self.fails = name, f"id of {name}", kind, fails
        self.looks = looks
        self.status = {"isTriggerActive": True}
        self.rounds: list[int] = []
        self.is_closed = False


class World:
    """Spark's side of it."""

    def __init__(self, *queries: Query) -> None:
        self.deleted: list[str] = []
        context = SimpleNamespace(setJobGroup=lambda *_, **__: None, cancelJobGroup=lambda _: None)
        self.spark: Any = SimpleNamespace(streams=SimpleNamespace(active=list(queries)), sparkContext=context)

    def internals(self) -> SimpleNamespace:
        """What the module calls."""

        def is_over(query: Query, _: object) -> bool:
            query.looks -= 1
            return query.looks < 0

        return SimpleNamespace(
            execution_of=lambda query: query,
            is_micro_batch=lambda query: query.kind == "micro-batch",
            newest_batch=lambda query: query,
            is_batch_over=is_over,
            checkpoint_root=lambda query: f"/checkpoints/{query.name}/",
            checkpoint_files=lambda _, folder: folder,
            delete_file=lambda _, manager, __: self.deleted.append(manager),
            BatchRehearsal=Rehearsal,
        )


class Rehearsal:
    """Counts rounds; the batch is the query itself."""

    def __init__(self, _: object, query: Query, folder: str) -> None:
        assert folder.startswith(f"/checkpoints/{query.name}/penstock-rehearsal-")
        self._query = query

    def run(self, profile: int) -> int:
        """One round."""
        if self._query.fails:
            raise RuntimeError(self._query.fails)
        self._query.rounds.append(profile)
        return 1

    def close(self) -> None:
        """The end."""
        self._query.is_closed = True


def run(monkeypatch: pytest.MonkeyPatch, *queries: Query, within_s: float = PATIENCE_S) -> tuple[list[str], World]:
    """Rehearse; gives what could not be, and the world afterwards."""
    world = World(*queries)
    monkeypatch.setattr(rehearsal, "internals", world.internals())
    monkeypatch.setattr(rehearsal, "_LOOK_EVERY_S", 0.001)
    return rehearsal.rehearse(world.spark, PROFILE, within_s=within_s), world


def test_every_query_is_rehearsed_after_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a batch under way would be counted twice, so it is waited for; what was written is deleted."""
    queries = [Query("clicks", looks=3), Query("views")]
    found, world = run(monkeypatch, *queries)
    assert found == []
    assert [query.rounds for query in queries] == [[PROFILE] * rehearsal.ROUNDS] * 2
    assert all(query.is_closed for query in queries)
    assert len(world.deleted) == 2


def test_a_query_that_waits_for_rows_is_rehearsed_with_its_last_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other batch may come for hours: it is enough that none runs."""
    query = Query("clicks", looks=10**9)
    query.status["isTriggerActive"] = False
    assert run(monkeypatch, query)[0] == []
    assert query.rounds


def test_one_that_fails_does_not_keep_the_others_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is one line, and the folder of what failed is deleted too."""
    queries = [Query("clicks", fails="no such plan\nand more"), Query("views")]
    found, world = run(monkeypatch, *queries)
    assert found == ["clicks: RuntimeError: no such plan"]
    assert queries[1].rounds
    assert len(world.deleted) == 2


def test_a_batch_that_does_not_end_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old executors are to leave some time."""
    query = Query("clicks", looks=10**9)
    assert run(monkeypatch, query, within_s=0.05)[0] == ["clicks: no batch was over in time"]
    assert not query.rounds


def test_continuous_queries_have_no_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run for them, and nothing is told."""
    query = Query("clicks", kind="continuous")
    assert run(monkeypatch, query)[0] == []
    assert not query.rounds
