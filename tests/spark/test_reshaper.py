"""Executors of another shape, on a scheduler that is not there: who comes, who goes, and what if nobody comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from patience import PATIENCE_S
from penstock.model.decision import Resize
from penstock.model.sizing import EngineShape, ResizeOutcome
from penstock.spark import reshaper
from penstock.spark.internals import Ability, ExecutorUsage
from penstock.spark.reshaper import Reshaper

OLD = EngineShape(2, 512, 384, 0, 2)


class Cluster:
    """Executors by profile, as the scheduler would have them; ``room`` is how many more may come."""

    def __init__(self, room: int = 9) -> None:
        self.profiles: dict[str, int] = {"0": 0, "1": 0}
        self.shapes: dict[int, EngineShape] = {0: OLD}
        self.room, self.released, self.asked = room, [], []  # type: ignore[var-annotated]
        self.steps: list[str] = []
        self.cpus, self.is_spark_allocating = 1, False

    def executor_usage(self, _: object) -> list[ExecutorUsage]:
        """All that are there."""
        return [ExecutorUsage(key, profile, 2, 0.0, 0.0, is_active=True) for key, profile in self.profiles.items()]

    def add_profile(self, _: object, shape: EngineShape) -> int:
        """A new one."""
        self.shapes[max(self.shapes) + 1] = shape
        return max(self.shapes)

    def request_profiles(self, _: object, executors: Mapping[int, int]) -> bool:
        """As many come as there is room for."""
        self.asked.append(dict(executors))
        for profile, count in executors.items():
            missing = count - sum(each == profile for each in self.profiles.values())
            for _number in range(min(missing, self.room)):
                self.profiles[str(len(self.profiles) + len(self.released))] = profile
        return True

    def release_executor(self, _: object, executor_id: str) -> bool:
        """Gone at once."""
        self.released.append(executor_id)
        self.steps.append(f"release {executor_id}")
        return self.profiles.pop(executor_id, None) is not None

    def move_to_profile(self, _: object, profile: int) -> None:
        """Jobs go to other executors."""
        self.steps.append(f"jobs to {profile}")

    def set_task_cpus(self, _: object, cpus: int) -> None:
        """Cores a task."""
        self.cpus = cpus

    def is_allocated_by_spark(self, _: object) -> bool:
        """Whether Spark has its hand on the executors."""
        return self.is_spark_allocating

    def rehearse(self, _: object, profile: int, *, within_s: float) -> list[str]:
        """What the queries would run there."""
        assert within_s > 0
        self.steps.append(f"rehearsal on {profile}")
        return ["clicks: ValueError: not today"]

    def engine_shape(self, _: object) -> EngineShape | None:
        """Of all, where they are alike."""
        kinds = set(self.profiles.values())
        if len(kinds) != 1:
            return None
        shape = self.shapes[kinds.pop()]
        return EngineShape(
            len(self.profiles), shape.heap_mb, shape.overhead_mb, shape.python_mb, shape.cores, self.cpus
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A scheduler in memory."""
    fake = Cluster()
    names = (
        "executor_usage", "add_profile", "request_profiles", "release_executor", "move_to_profile", "set_task_cpus",
        "is_allocated_by_spark",
    )  # fmt: skip
    members: dict[str, Callable[..., Any]] = {name: getattr(fake, name) for name in names}
    monkeypatch.setattr(reshaper, "internals", SimpleNamespace(**members))
    monkeypatch.setattr(reshaper, "rehearse", fake.rehearse)
    monkeypatch.setattr(reshaper, "engine_shape", fake.engine_shape)
    return fake


def change(to: EngineShape, *, missing: tuple[Ability, ...] = (), start_within_s: float = 0.2) -> ResizeOutcome:
    """Carry out one change and wait for its end."""
    resize = Resize(
        cause="P1", reason="", policy="P1", resource="heap", shape=to.to_dict(), previous_shape=OLD.to_dict(), number=1
    )
    changing = Reshaper(None, missing, start_within_s=start_within_s, release_within_s=PATIENCE_S)  # type: ignore[arg-type]
    changing.begin(resize)
    changing.begin(resize)
    deadline_s = time.monotonic() + PATIENCE_S
    while not (outcomes := changing.take_outcomes()) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    (outcome,) = outcomes
    assert changing.number == 1
    return outcome


def test_new_executors_come_before_old_ones_leave(cluster: Cluster) -> None:
    """Both are asked for beside each other; then only the new ones; then the old ones are let go."""
    larger = EngineShape(2, 1536, 384, 0, 2)
    outcome = change(larger)
    assert (outcome.is_done, outcome.shape, outcome.way) == (True, larger, "reshape")
    assert cluster.asked == [{0: 2, 1: 2}, {0: 0, 1: 2}]
    assert sorted(cluster.released) == ["0", "1"]


def test_new_executors_rehearse_before_jobs_go_there(cluster: Cluster) -> None:
    """The old executors serve until the new ones have run the queries' batches, whether that worked or not."""
    assert change(EngineShape(2, 1536, 384, 0, 2)).is_done
    assert cluster.steps == ["rehearsal on 1", "jobs to 1", "release 0", "release 1"]


def test_an_executor_that_replaced_a_lost_one_meanwhile_leaves_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one of the old shape left the engine would have two shapes, and nobody could size it any more."""

    def lose_one(*_: object, **__: object) -> list[str]:
        del cluster.profiles["0"]
        cluster.profiles["13"] = 0
        return []

    monkeypatch.setattr(reshaper, "rehearse", lose_one)
    larger = EngineShape(2, 1536, 384, 0, 2)
    outcome = change(larger)
    assert (outcome.is_done, outcome.shape) == (True, larger)
    assert sorted(cluster.released) == ["1", "13"]


def test_a_spark_that_cannot_rehearse_still_changes_its_shape(cluster: Cluster) -> None:
    """Without private members for it the first batch is a cold one, and nothing else is different."""
    assert change(EngineShape(2, 1536, 384, 0, 2), missing=(Ability.REHEARSAL,)).is_done
    assert cluster.steps == ["jobs to 1", "release 0", "release 1"]


def test_executors_that_spark_allocates_are_left_to_it(cluster: Cluster) -> None:
    """With dynamic allocation a second shape would be taken away again: the outcome says what to set."""
    cluster.is_spark_allocating = True
    outcome = change(EngineShape(2, 1536, 384, 0, 2))
    assert not outcome.is_done
    assert "spark.dynamicAllocation.enabled" in outcome.reason
    assert cluster.asked == []


def test_executors_that_do_not_come_leave_the_old_shape(cluster: Cluster) -> None:
    """With room for one of two the request is taken back, the one is let go, and the outcome says what to do."""
    cluster.room = 1
    outcome = change(EngineShape(2, 1536, 384, 0, 2))
    assert not outcome.is_done
    assert outcome.shape == OLD
    assert cluster.asked[-1] == {0: 2, 1: 0}
    assert cluster.steps == ["release 2"]
    assert "1 of 2 executors of 1,920 MB and 2 cores came" in outcome.reason
    assert "spark.executor.memory=1536m" in outcome.reason


def test_task_slots_change_at_once(cluster: Cluster) -> None:
    """Another number of cores for each task needs no other executor."""
    outcome = change(EngineShape(2, 512, 384, 0, 2, task_cpus=2))
    assert (outcome.is_done, outcome.way, cluster.cpus) == (True, "task slots", 2)
    assert cluster.asked == []


@pytest.mark.parametrize(("executors", "released"), [(3, []), (1, ["1"])])
def test_the_number_of_executors_changes_alone(cluster: Cluster, executors: int, released: list[str]) -> None:
    """More are asked for under the same profile; of too many the newest go."""
    outcome = change(EngineShape(executors, 512, 384, 0, 2))
    assert (outcome.is_done, outcome.shape.executors, outcome.way) == (True, executors, "executors")
    assert cluster.released == released


@pytest.mark.parametrize("ability", [Ability.RESHAPE, Ability.SCALING])
def test_without_the_ability_the_outcome_names_the_settings_for_a_restart(cluster: Cluster, ability: Ability) -> None:
    """A Spark that lacks a member keeps its shape and says how to get the other one."""
    outcome = change(EngineShape(2, 1536, 384, 0, 2), missing=(ability,))
    assert not outcome.is_done
    assert "start it again with" in outcome.reason
    assert cluster.asked == []


def test_an_error_on_the_way_is_an_outcome(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong ends the change, and not the thread's owner."""
    monkeypatch.setattr(reshaper.internals, "add_profile", lambda *_: 1 / 0)
    outcome = change(EngineShape(2, 1536, 384, 0, 2))
    assert (outcome.is_done, outcome.shape) == (False, OLD)
    assert outcome.reason == "ZeroDivisionError: division by zero"


def test_what_needs_a_restart_is_handed_to_whoever_can_do_it(cluster: Cluster) -> None:
    """A change that is taken on has no outcome yet: its end is told by the one who restarts."""
    asked: list[str] = []

    def ask(_: Resize, reason: str) -> bool:
        asked.append(reason)
        return True

    larger = EngineShape(2, 1536, 384, 0, 2)
    resize = Resize(
        cause="P1", reason="", policy="P1", resource="heap", shape=larger.to_dict(), previous_shape=OLD.to_dict(),
        number=1,
    )  # fmt: skip
    changing = Reshaper(None, (Ability.RESHAPE,))  # type: ignore[arg-type]
    changing.restart = ask
    changing.begin(resize)
    deadline_s = time.monotonic() + PATIENCE_S
    while (changing.is_busy or not asked) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert asked == ["this Spark has no second shape of executors"]
    assert changing.take_outcomes() == []
    assert cluster.asked == []
