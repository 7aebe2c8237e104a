"""The sizing tier inside the one logic: decisions, outcomes, roll-backs, the operator."""

from __future__ import annotations

from pathlib import Path

from penstock.control.application import ApplicationLogic
from penstock.control.events import ResizeEnded, UsageSeen
from penstock.control.sizing.replay import replayed_shape
from penstock.model import APPLICATION, ActionKind, Application, Mode
from penstock.model.decision import Decision, Hold, Infeasible, Resize, ResizeDone, from_action, to_action
from penstock.model.sizing import Capacity, EngineShape, ResizeOutcome, UsageSignal
from penstock.settings import Settings
from penstock.store import SqliteStore

SMALL = EngineShape(1, 512, 384, 0, 2)


def logic(mode: str = "apply", **more: object) -> ApplicationLogic:
    values = {"sizing.mode": mode} | {f"sizing.{key}": value for key, value in more.items()}
    return ApplicationLogic(Application(), Settings().with_values(values))


class Engine:
    """Feeds windows to a logic, and keeps its log."""

    def __init__(self, tier: ApplicationLogic, shape: EngineShape = SMALL) -> None:
        self.logic, self.shape, self.time_s = tier, shape, 0.0
        self.log: list[Decision] = []

    def window(
        self,
        *,
        gc_fraction: float = 0.3,
        jvm_rss_mb: float | None = None,
        capacity: Capacity | None = None,
        asked: bool = False,
    ) -> list[Decision]:
        """One window, with what is decided in it."""
        self.time_s += 15.0
        seen = UsageSignal(
            self.time_s,
            gc_fraction=gc_fraction,
            heap_used_mb=0.95 * self.shape.heap_mb,
            cpu_fraction=0.5,
            jvm_rss_mb=jvm_rss_mb,
        )
        return self._keep(UsageSeen(seen, self.shape, capacity, asked))

    def ended(self, resize: Resize, *, is_done: bool, reason: str = "") -> list[Decision]:
        """The end of a change."""
        if is_done:
            self.shape = EngineShape.from_dict(resize.shape)
        return self._keep(ResizeEnded(ResizeOutcome(resize.number, self.shape, is_done, "reshape", 11.0, reason)))

    def _keep(self, event: UsageSeen | ResizeEnded) -> list[Decision]:
        found = self.logic.on_event(event, self.time_s)
        self.log += found
        return found


def thrash(engine: Engine) -> Resize:
    """Two windows of garbage collection, and the decision that they lead to."""
    engine.window()
    # The effect of the change before it may be told first.
    *_, resize = engine.window()
    assert isinstance(resize, Resize)
    return resize


def test_a_decision_is_recorded_with_its_figures_and_waits_for_its_end() -> None:
    """Heap pressure gives one decision; until it has ended nothing else is decided."""
    engine = Engine(logic())
    resize = thrash(engine)
    assert (resize.policy, resize.resource, resize.number) == ("P1", "heap", 1)
    assert EngineShape.from_dict(resize.shape).heap_mb == 1024
    assert resize.figures["gc_fraction"] == 0.3
    assert resize.expected == {"gc_fraction": 0.1}
    assert from_action(to_action(resize)) == resize
    assert engine.window() == []
    assert engine.window() == []


def test_what_came_of_it_is_compared_with_what_was_expected() -> None:
    """After the change its effect is on record, and the log replays to the new shape."""
    engine = Engine(logic())
    resize = thrash(engine)
    (done,) = engine.ended(resize, is_done=True)
    assert isinstance(done, ResizeDone)
    assert (done.number, done.is_done, done.took_s) == (1, True, 11.0)
    engine.window(gc_fraction=0.02)
    (effect,) = engine.window(gc_fraction=0.02)
    assert isinstance(effect, ResizeDone)
    assert (effect.way, effect.seen) == ("effect", {"gc_fraction": 0.02})
    assert effect.reason == "as expected after P1: gc_fraction 0.02 (expected 0.1)"
    assert replayed_shape(engine.log) == engine.shape


def test_recommend_says_the_same_once_and_does_nothing() -> None:
    """In recommend mode the decision is on record once and is not marked as applied."""
    engine = Engine(logic("recommend"))
    resize = thrash(engine)
    assert not resize.is_applied
    assert [engine.window() for _ in range(5)] == [[]] * 5


def test_what_is_recommended_is_applied_when_the_operator_asks() -> None:
    """One window with the operator's word makes the decision one that is applied."""
    engine = Engine(logic("recommend"))
    thrash(engine)
    (asked,) = engine.window(asked=True)
    assert isinstance(asked, Resize)
    assert asked.is_applied
    assert asked.number == 2


def test_a_failure_leaves_the_shape_and_two_leave_the_resource() -> None:
    """A change that fails is tried once more; then the resource stays, the reason and the last good shape are told."""
    engine = Engine(logic())
    first = thrash(engine)
    (done,) = engine.ended(first, is_done=False, reason="no executor came")
    assert isinstance(done, ResizeDone)
    assert not done.is_done
    second = thrash(engine)
    assert second.number == 2
    _, refused = engine.ended(second, is_done=False, reason="no executor came")
    assert isinstance(refused, Infeasible)
    assert refused.reason == f"heap failed 2 times and stays: no executor came; the last good shape is {SMALL}"
    assert engine.window() == []
    assert engine.window() == []
    assert replayed_shape(engine.log) == SMALL


def test_a_change_by_hand_is_taken_over_and_shown() -> None:
    """Somebody restarts the engine with another heap: that is on record, and heap is left to them."""
    engine = Engine(logic())
    engine.window(gc_fraction=0.02)
    engine.shape = EngineShape(1, 700, 384, 0, 2)
    (found,) = engine.window(gc_fraction=0.02)
    assert isinstance(found, Resize)
    assert found.policy == "operator"
    assert "somebody changed heap" in found.reason
    assert replayed_shape(engine.log) == engine.shape
    assert engine.window() == []
    assert engine.window() == []


def test_what_is_sized_by_hand_stays_under_pressure_and_the_rest_is_sized() -> None:
    """A heap that the operator chose stays even where it thrashes, which P1 says; memory is given more all the same."""
    engine = Engine(logic())
    engine.window(gc_fraction=0.02)
    engine.shape = EngineShape(1, 400, 384, 0, 2)
    engine.window(gc_fraction=0.3)
    assert [engine.window(gc_fraction=0.3) for _ in range(4)] == [[]] * 4
    assert engine.logic.sizing is not None
    assert engine.logic.sizing.last_round is not None
    said = {each.policy: each.reason for each in engine.logic.sizing.last_round.verdicts}
    assert said["P1"] == said["P5"] == "heap is sized by the operator"
    (resize,) = engine.window(gc_fraction=0.02, jvm_rss_mb=780.0)
    assert isinstance(resize, Resize)
    assert (resize.policy, EngineShape.from_dict(resize.shape).heap_mb) == ("P2", 400)


def test_what_is_sized_by_hand_is_told_with_every_window() -> None:
    """The series of windows says which resources are the operator's, from the window on in which they became so."""
    engine = Engine(logic(hands_off="cpu"))
    engine.window(gc_fraction=0.02)
    assert [point.subject for point in engine.logic.take_points()] == ["by_hand.cpu"]
    engine.shape = EngineShape(1, 700, 384, 0, 2)
    engine.window(gc_fraction=0.02)
    points = engine.logic.take_points()
    assert [(point.time_s, point.subject) for point in points] == [(30.0, "by_hand.cpu"), (30.0, "by_hand.heap")]


def test_the_log_of_all_that_may_happen_replays_to_the_size_that_is_there(tmp_path: Path) -> None:
    """A change, one that failed, one by hand and one after it: the log as a store has it leads to the last shape."""
    engine = Engine(logic())
    engine.ended(thrash(engine), is_done=True)
    engine.ended(thrash(engine), is_done=False, reason="no executor came")
    assert replayed_shape(engine.log) == engine.shape == EngineShape(1, 1024, 384, 0, 2)
    engine.shape = EngineShape(1, 1024, 500, 0, 2)
    engine.window(gc_fraction=0.02)
    engine.ended(thrash(engine), is_done=True)
    assert engine.shape == EngineShape(1, 2048, 500, 0, 2)
    with SqliteStore(tmp_path / "log.db") as store:
        for time_s, decision in enumerate(engine.log):
            store.append(to_action(decision), time_s=float(time_s), mode=Mode.ACT)
        kinds = (ActionKind.RESIZE, ActionKind.RESIZE_DONE)
        kept = [from_action(entry.action) for entry in store.actions(query=APPLICATION, kinds=kinds)]
    assert replayed_shape(kept) == engine.shape
    assert replayed_shape(kept[:-2]) == EngineShape(1, 1024, 500, 0, 2)


def test_a_full_cluster_is_told_once() -> None:
    """What has no room is infeasible, with what is free, and not repeated in every window."""
    engine = Engine(logic())
    full = Capacity(quota_memory_mb=1000)
    engine.window(capacity=full)
    (refused,) = engine.window(capacity=full)
    assert isinstance(refused, Infeasible)
    assert "the quota of 1,000 MB allows 0 of 1 executors" in refused.reason
    assert engine.window(capacity=full) == []
    engine.window(gc_fraction=0.01, capacity=full)
    assert any(isinstance(each, Hold) for each in engine.log)


def test_off_means_that_nothing_is_looked_at() -> None:
    """Without a mode there is no tier."""
    engine = Engine(logic("off"))
    assert [engine.window() for _ in range(4)] == [[]] * 4
    assert engine.logic.sizing is None
