"""The executors of an application through Spark's own calls, which are written down here instead of made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model import ExecutorBounds
from penstock.model.decision import Executors
from penstock.spark import executor_plant, standalone_master
from penstock.spark.executor_plant import ExecutorPlant, why_not
from penstock.spark.internals import Ability, LiveExecutor
from penstock.spark.standalone_master import MasterAnswer, WorkerRoom, find_master_page


class FakeSpark:
    """A session, its executors, and the calls that were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, master: str = "spark://one:7077") -> None:
        self.found: list[LiveExecutor] = []
        self.waiting: set[str] = set()
        self.calls: list[tuple[Any, ...]] = []
        self.missing: dict[Ability, str] = {}
        self.is_allocated, self.is_graceful = False, True
        self.conf = {"spark.executor.cores": "2"}
        self.sparkContext = SimpleNamespace(master=master, applicationId="app-1", getConf=lambda: self.conf)
        fakes: dict[str, Any] = {
            "require_classic_session": lambda _: None,
            "probe": lambda _: self.missing,
            "live_executors": lambda _: self.found,
            "is_on_standby": lambda _, one: one in self.waiting,
            "is_allocated_by_spark": lambda _: self.is_allocated,
            "is_graceful": lambda _: self.is_graceful,
            "executor_heap_max_bytes": lambda _: 512 * 1024 * 1024,
        }
        for name in ("request_executors", "call_from_standby", "put_on_standby", "release_executor"):
            fakes[name] = lambda _, value, name=name: self.calls.append((name, value))
        for name, fake in fakes.items():
            monkeypatch.setattr(executor_plant.internals, name, fake)
        monkeypatch.setattr(executor_plant, "find_master_page", lambda _: None)

    def executor(self, executor_id: str, *, is_active: bool = True, task_s: float = 0.0) -> None:
        """One more that is registered."""
        self.found.append(LiveExecutor(executor_id, 5.0, 0, 0, 0, task_s, is_active))


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    return FakeSpark(monkeypatch)


def decision(executors: int, standby: int = 0) -> Executors:
    return Executors(cause="test", reason="test", executors=executors, standby=standby)


def test_what_cannot_be_scaled_says_why(monkeypatch: pytest.MonkeyPatch, spark: FakeSpark) -> None:
    """In one sentence with the remedy, before anything is tried."""
    assert why_not(spark) is None  # type: ignore[arg-type]
    spark.missing = {Ability.STANDBY: "Spark 9 has no x"}
    assert why_not(spark, ExecutorBounds(1, 4)) is None  # type: ignore[arg-type]
    assert why_not(spark, ExecutorBounds(1, 4, standby=1)) == (  # type: ignore[arg-type]
        "executors cannot be kept on standby: Spark 9 has no x; set standby to 0"
    )
    spark.is_graceful = False
    assert "spark.decommission.enabled and spark.storage.decommission.enabled" in str(why_not(spark))  # type: ignore[arg-type]
    spark.is_allocated = True
    assert "set spark.dynamicAllocation.enabled to false" in str(why_not(spark))  # type: ignore[arg-type]
    spark.missing = {Ability.SCALING: "Spark 9 has no y"}
    assert why_not(spark) == "Spark 9 has no y"  # type: ignore[arg-type]
    local = FakeSpark(monkeypatch, master="local[2]")
    assert why_not(local) == (  # type: ignore[arg-type]
        "the application runs in the driver alone (local mode): start it on a cluster to scale it"
    )


def test_executors_are_told_apart(spark: FakeSpark) -> None:
    """Those that serve, wait on standby and leave; cores are those that serve, busy is since the last time."""
    plant = ExecutorPlant(spark)  # type: ignore[arg-type]
    for executor_id, is_active in (("0", True), ("1", False), ("2", False)):
        spark.executor(executor_id, is_active=is_active)
    spark.waiting = {"1"}
    view = plant.observe()
    assert (view.serving, view.standby, view.leaving) == (("0",), ("1",), ("2",))
    assert (view.cores, view.available, view.busy_fraction) == (2.0, None, None)
    spark.found = []
    spark.executor("0", task_s=3.0)
    view = plant.observe()
    assert view.executors[0].recent_task_s == 3.0
    assert view.busy_fraction is not None


def test_a_decision_is_applied_once(spark: FakeSpark) -> None:
    """The number first, then who goes; applied again to what it led to, nothing is called."""
    plant = ExecutorPlant(spark)  # type: ignore[arg-type]
    for executor_id in ("0", "1", "2"):
        spark.executor(executor_id)
    plant.apply(decision(1, standby=1), plant.observe())
    assert spark.calls == [("request_executors", 2), ("put_on_standby", "2"), ("release_executor", "1")]
    spark.found, spark.waiting, spark.calls = [], {"2"}, []
    spark.executor("0")
    spark.executor("1", is_active=False)
    spark.executor("2", is_active=False)
    plant.apply(decision(1, standby=1), plant.observe())
    assert spark.calls == []
    plant.apply(decision(2, standby=1), plant.observe())
    assert spark.calls == [("request_executors", 3), ("call_from_standby", "2")]
    spark.calls = []
    plant.apply(decision(1), plant.observe())
    assert spark.calls == [("request_executors", 1), ("call_from_standby", "2"), ("release_executor", "2")]


def test_room_is_what_the_master_tells(monkeypatch: pytest.MonkeyPatch, spark: FakeSpark) -> None:
    """Own executors by the master's count, and those that fit beside them; unknown where nobody answers."""
    worker = WorkerRoom("one", True, 8, 4, 8192, 1024)
    answers = [MasterAnswer((worker,), {"app-1": 4}), None]
    monkeypatch.setattr(executor_plant, "ask_master", lambda _: answers.pop(0))
    plant = ExecutorPlant(spark, ui_url="http://one:9090")  # type: ignore[arg-type]
    assert (plant.observe().available, plant.observe().available) == (4, None)


def test_the_page_of_a_master_is_what_was_said_of_it(monkeypatch: pytest.MonkeyPatch, spark: FakeSpark) -> None:
    """By the argument, else by the session's setting, else it is looked for."""
    asked: list[str] = []
    monkeypatch.setattr(executor_plant, "ask_master", asked.append)
    monkeypatch.setattr(executor_plant, "find_master_page", lambda _: "http://found:8080")
    ExecutorPlant(spark).observe()  # type: ignore[arg-type]
    spark.conf["spark.penstock.master.page"] = "http://set:8080"
    ExecutorPlant(spark).observe()  # type: ignore[arg-type]
    ExecutorPlant(spark, ui_url="http://given:8080").observe()  # type: ignore[arg-type]
    assert asked == ["http://found:8080", "http://set:8080", "http://given:8080"]


def test_the_page_of_a_master_is_found_at_its_usual_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that very master answers, and no other; of several, the one that leads."""
    worker = WorkerRoom("one", True, 8, 4, 8192, 1024)
    pages = {"http://two:8080": MasterAnswer((worker,), {}, "spark://two:7077")}
    monkeypatch.setattr(standalone_master, "ask_master", pages.get)
    assert find_master_page("spark://one:7077,two:7077") == "http://two:8080"
    assert find_master_page("spark://one:7077") is None
    assert find_master_page("spark://two:7078") is None
    assert find_master_page("local[2]") is None
