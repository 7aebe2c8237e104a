"""Executors under the hold on a session, without Spark: who decides, what is applied, and what is known beforehand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from executor_fakes import Wish
from penstock import Application, ExecutorBounds, ExecutorsDeclaration, Goal, Penstock, attach
from penstock.control.events import BatchFinished, QueryStarted
from penstock.errors import InvalidSettingError
from penstock.model import (
    APPLICATION,
    ActionKind,
    BatchSignal,
    EngineView,
    Executor,
    LimitUnit,
    Metric,
    QueryName,
    QuerySpec,
    SeriesPoint,
    SourceSignal,
    SourceSpec,
)
from penstock.model.decision import Executors
from penstock.spark import attach as attaching
from penstock.spark import internals
from penstock.store import MemoryStore

CLICKS = QueryName("clicks")
APP = Application(executors=ExecutorsDeclaration(ExecutorBounds(1, 4)))
SETTINGS = {
    "scaling.every_s": 3600,
    "scaling.interval_s": 0.1,
    "scaling.warm_up_s": 0,
    "directives.enabled": False,
}


class FakePlant:
    """Executors that are always there, and what was asked for."""

    def __init__(self) -> None:
        self.applied: list[tuple[int, EngineView]] = []
        self.serving = 1
        self.fails = False

    def observe(self) -> EngineView:
        """As many as serve."""
        return EngineView(tuple(Executor(str(each)) for each in range(self.serving)), 4)

    def apply(self, decision: Executors, view: EngineView) -> None:
        """Written down."""
        self.applied.append((decision.executors, view))
        if self.fails:
            raise RuntimeError("the driver is busy")


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> FakePlant:
    found = FakePlant()
    monkeypatch.setattr(internals, "probe", lambda _: {internals.Ability.TEXT_REPORTS: "no Spark here"})
    monkeypatch.setattr(internals, "require_classic_session", lambda _: None)
    monkeypatch.setattr(attaching, "why_not", lambda *_: None)
    monkeypatch.setattr(attaching, "ExecutorPlant", lambda _: found)
    return found


@pytest.fixture
def hold(plant: FakePlant) -> Iterator[Callable[..., Penstock]]:
    holds: list[Penstock] = []

    def call(application: Application = APP, **options: Any) -> Penstock:
        streams = SimpleNamespace(active=[], addListener=lambda _: None, removeListener=lambda _: None)
        context = SimpleNamespace(getConf=dict)
        session = cast("Any", SimpleNamespace(version="4.2.0", _jvm=None, streams=streams, sparkContext=context))
        holds.append(attach(session, application, **{"settings": SETTINGS, "store": MemoryStore(), **options}))
        return holds[-1]

    yield call
    for pen in holds:
        pen.detach()


def started(pen: Penstock) -> None:
    """A query that has had two batches of which everything is known."""
    pen.loop.handle(
        QueryStarted(QuerySpec(CLICKS, (SourceSpec(0, "numbers", LimitUnit.ROWS),)), Goal(latency=60), "id-1")
    )
    now_s = time.time()
    for batch_id in range(3):
        source = SourceSignal(0, 1_000, 1_000.0, 0.0)
        signal = BatchSignal(CLICKS, batch_id, now_s - 6.0 + 2.0 * batch_id, 1.0, 1_000, (source,))
        pen.loop.handle(BatchFinished(signal))


def sizes(pen: Penstock) -> list[float | None]:
    return [record.action.value for record in pen.store.actions(kinds=[ActionKind.EXECUTORS])]


def test_a_policy_of_ones_own_decides(
    hold: Callable[..., Penstock], plant: FakePlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wants is recorded under its name, held to the declared bounds, and applied."""
    wish = Wish(9)
    pen = hold(policy=wish)
    started(pen)
    pen.loop.cycle()
    assert sizes(pen) == [1]
    monkeypatch.setattr(pen.loop, "_clock", lambda: time.time() + 1.0)
    pen.loop.cycle()
    assert sizes(pen) == [1, 4]
    assert pen.store.actions(kinds=[ActionKind.EXECUTORS])[-1].action.cause == "wish"
    assert [executors for executors, _ in plant.applied] == [1, 4]


def test_a_decision_is_applied_once_to_every_view(hold: Callable[..., Penstock], plant: FakePlant) -> None:
    """What is there is compared with what is asked for in every cycle, once; a call that failed is made again."""
    pen = hold(policy=Wish(1))
    started(pen)
    for _ in range(3):
        pen.loop.cycle()
    views = [view for _, view in plant.applied]
    assert len(views) == 3
    assert len({id(view) for view in views}) == 3
    assert pen.plant.view is views[-1]
    plant.fails = True
    with pytest.raises(RuntimeError):
        pen.loop.cycle()
    plant.fails = False
    pen.loop.cycle()
    assert len(plant.applied) == 5


def test_times_on_record_are_known_from_the_start(hold: Callable[..., Penstock]) -> None:
    """How long executors took in earlier runs is what the tier begins with."""
    store = MemoryStore()
    store.append_points([SeriesPoint(1.0, APPLICATION, Metric.EXECUTOR_START_S, 7.0, subject="0")])
    pen = hold(store=store)
    started(pen)
    assert pen.loop.logic.scaling is not None
    assert pen.loop.logic.scaling.starts.snapshot().observed_s == (7.0,)


def test_a_policy_without_executors_is_refused(hold: Callable[..., Penstock]) -> None:
    """It would decide about nothing, and nobody would notice."""
    with pytest.raises(InvalidSettingError, match="no executors are declared"):
        hold(Application(), policy=Wish(1))


def test_executors_that_cannot_be_scaled_are_not_decided_about(
    hold: Callable[..., Penstock], plant: FakePlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says why, and of no size that nobody can bring about."""
    monkeypatch.setattr(attaching, "why_not", lambda *_: "it runs in the driver alone")
    pen = hold()
    started(pen)
    pen.loop.cycle()
    assert pen.loop.logic.scaling is None
    assert sizes(pen) == []
    [record] = [
        each for each in pen.store.actions(kinds=[ActionKind.ACTUATOR_OFF]) if "executors" in each.action.reason
    ]
    assert record.action.reason == "executors are not scaled: it runs in the driver alone"


def test_state_that_stays_on_old_executors_is_told_once(hold: Callable[..., Penstock]) -> None:
    """A session whose tasks wait for the executor that has their state says so at attach, with the remedy."""
    pen = hold()
    told = [record.action.reason for record in pen.store.actions() if record.action.kind is ActionKind.ACTUATOR_OFF]
    assert sum("set spark.locality.wait to 0s" in reason for reason in told) == 1
