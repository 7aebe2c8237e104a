"""An application that is started again for another shape: when, with what, and the way back."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from patience import PATIENCE_S, wait_for
from penstock.control.sizing.replay import replayed_shape
from penstock.errors import ClusterError
from penstock.model.decision import Decision, Infeasible, Resize, ResizeDone
from penstock.model.sizing import EngineShape, Resource
from penstock.settings import SizingSettings
from penstock.spark import resizable
from penstock.spark.resizable import ResizableApplication

if TYPE_CHECKING:
    from collections.abc import Mapping

OLD, NEW = EngineShape(1, 512, 384), EngineShape(1, 1536, 384)
GROW = Resize(
    cause="P1", reason="", policy="P1", resource="heap", shape=NEW.to_dict(), previous_shape=OLD.to_dict(), number=4
)


class Query:
    """A query that has had a batch, and runs until it is stopped."""

    def __init__(self, *, comes_up: bool) -> None:
        self.name, self.is_active = "clicks", True
        operators = [{"numShufflePartitions": 1}]
        self.lastProgress = {"batchId": 1, "stateOperators": operators} if comes_up else None
        self.status = {"isTriggerActive": False}

    def exception(self) -> None:
        """None."""

    def stop(self) -> None:
        """At once."""
        self.is_active = False


class World:
    """Starts applications; what comes up, what is on record, and what ended."""

    def __init__(self, hours: str = "any time", *, fails_with: int | None = None) -> None:
        self.starts: list[Mapping[str, str]] = []
        self.log: list[Decision] = [GROW]
        self.left: list[Resource] = []
        self.restart: Any = None
        self.ended = 0
        self.repartitioned: list[tuple[str, int]] = []
        self._hours, self._fails_with = hours, fails_with

    def start(self, settings: Mapping[str, str]) -> Any:
        """An application on Standalone."""
        self.starts.append(dict(settings))
        query = Query(comes_up=settings.get("spark.executor.memory") != f"{self._fails_with}m")
        context = SimpleNamespace(master="spark://host:7077")
        streams = _Streams(query)
        return SimpleNamespace(
            spark=SimpleNamespace(streams=streams, sparkContext=context),
            settings=SimpleNamespace(sizing=SizingSettings(restart=self._hours)),
            plant=SimpleNamespace(sizing=SimpleNamespace(restart_by=self._by)),
            loop=SimpleNamespace(
                record=self.log.extend,
                logic=SimpleNamespace(leave_resource=lambda resource, _: self.left.append(resource)),
            ),
            detach=lambda: None,
        )

    def _by(self, ask: object) -> None:
        self.restart = ask

    def end(self, _: object) -> None:
        """A session ends."""
        self.ended += 1

    def internals(self) -> SimpleNamespace:
        """What the module calls of Spark."""
        return SimpleNamespace(
            end_session=self.end,
            open_session=lambda: None,
            execution_of=lambda query: query,
            checkpoint_root=lambda query: f"/checkpoints/{query.name}",
            repartition_state=lambda _, root, partitions: self.repartitioned.append((root, partitions)),
        )


class _Streams:
    def __init__(self, query: Query) -> None:
        self._query = query

    @property
    def active(self) -> list[Query]:
        return [self._query] if self._query.is_active else []


NEVER_UP_S = 0.05
"""After how long one that has no batch did not come up; one that has is not waited for, however late it is asked."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look all the time."""
    monkeypatch.setattr(resizable, "_LOOK_EVERY_S", 0.01)


def run(
    world: World, monkeypatch: pytest.MonkeyPatch, *, until_starts: int, **options: float
) -> tuple[ResizableApplication, bool]:
    """Run an application, ask for a larger heap, and stop after so many starts; gives whether that was taken on."""
    monkeypatch.setattr(resizable, "internals", world.internals())
    application = ResizableApplication(
        world.start, up_within_s=NEVER_UP_S, settings={"spark.app.name": "clicks"}, **options
    )
    stop = threading.Event()
    thread = threading.Thread(target=application.run, args=(stop,))
    thread.start()
    assert wait_for(lambda: world.restart is not None)
    taken = world.restart(GROW, "no room beside the old executors")
    assert wait_for(
        lambda: (
            len(world.starts) >= until_starts
            and (until_starts == 1 or any(isinstance(each, ResizeDone) for each in world.log))
        )
    )
    stop.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    return application, taken


def test_a_due_restart_starts_with_the_new_shape_and_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start has the settings of the shape above its own; the log replays to it, with the downtime."""
    world = World()
    application, taken = run(world, monkeypatch, until_starts=2)
    assert taken
    assert application.due is None
    assert world.starts[1]["spark.executor.memory"] == "1536m"
    assert world.starts[1]["spark.cores.max"] == "1"
    assert world.starts[1]["spark.app.name"] == "clicks"
    (done,) = [each for each in world.log if isinstance(each, ResizeDone)]
    assert (done.is_done, done.way, done.number) == (True, "restart", 4)
    assert done.downtime_s is not None
    assert "no room beside the old executors" in done.reason
    assert replayed_shape(world.log) == NEW
    assert world.ended == 2


def test_an_engine_that_does_not_come_up_twice_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application runs with what it had, the heap is left alone, and the reason is on record."""
    world = World(fails_with=1536)
    run(world, monkeypatch, until_starts=4)
    assert [each.get("spark.executor.memory") for each in world.starts] == [None, "1536m", "1536m", None]
    done, refused = world.log[1:]
    assert isinstance(done, ResizeDone)
    assert not done.is_done
    assert "no batch of clicks was over within" in done.reason
    assert isinstance(refused, Infeasible)
    assert world.left == [Resource.HEAP]
    assert replayed_shape(world.log) == OLD
    # Every session that was started has ended, those that did not come up too.
    assert world.ended == 4


def test_a_restart_waits_for_its_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside the hours the change stays due, and nothing is started again."""
    monkeypatch.setattr(resizable, "_minute_now", lambda: 12 * 60)
    world = World("02:00-04:00")
    application, taken = run(world, monkeypatch, until_starts=1)
    assert taken
    assert application.due == GROW
    assert len(world.starts) == 1


def test_never_means_that_the_change_is_not_taken_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hours whoever asks is told no, and says so in the outcome."""
    _, taken = run(World("never"), monkeypatch, until_starts=1)
    assert not taken


@pytest.mark.parametrize(("per_slot", "given"), [(0.0, []), (3.0, [("/checkpoints/clicks", 3)]), (1.0, [])])
def test_state_is_given_partitions_by_the_slots_of_the_new_shape(
    monkeypatch: pytest.MonkeyPatch, per_slot: float, given: list[tuple[str, int]]
) -> None:
    """Between the end of the query and that of its session; not where there are as many, and not unless asked for."""
    world = World()
    run(world, monkeypatch, until_starts=2, partitions_per_slot=per_slot)
    assert world.repartitioned == given


def test_a_first_start_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to go back to: whoever started it has to know, and no session is left behind."""
    world = World(fails_with=512)
    monkeypatch.setattr(resizable, "internals", world.internals())
    application = ResizableApplication(world.start, up_within_s=NEVER_UP_S, settings={"spark.executor.memory": "512m"})
    with pytest.raises(ClusterError, match="no batch of clicks"):
        application.run()
    assert world.ended == 1
