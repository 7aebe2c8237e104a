"""What every registered scaler must do, whatever its policy."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import pytest

from penstock.control.scaling import (
    SCALERS,
    Autoscaler,
    AutoscalerSettings,
    BatchRatio,
    Ds2,
    DynamicAllocation,
    FlinkAutoscaler,
    Guarded,
    GuardSettings,
    HorizontalPod,
    KafkaLag,
    Reactive,
    Scaler,
    Schedule,
    StaticPeak,
)
from penstock.model.executors import ExecutorBounds
from penstock.model.scaling import ScaleDecision, ScalingSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAKERS: dict[str, Callable[[], Scaler]] = {
    "proactive": lambda: Autoscaler(AutoscalerSettings()),
    "reactive": lambda: Reactive(limit=0.4, quiet_samples=3),
    "hpa": HorizontalPod,
    "keda": lambda: KafkaLag(5_000.0),
    "dstreams": lambda: BatchRatio(every_s=30.0),
    "ds2": Ds2,
    "flink": lambda: FlinkAutoscaler(restart_s=30.0, window_s=120.0, stabilisation_s=60.0, down_s=120.0),
    "spark": DynamicAllocation,
    "static": lambda: StaticPeak(7),
    "clairvoyant": lambda: Schedule([3, 5, 2, 8] * 60, step_s=30.0),
}

every_scaler = pytest.mark.parametrize("name", sorted(SCALERS))
SETTINGS = GuardSettings(ExecutorBounds(2, 9))


def _signals(count: int, *, seed: int = 4, begin: int = 0) -> list[ScalingSignal]:
    """A load that swings between one and eight executors' worth, on a size that lags behind; the same every time."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(1.0, 0.03, begin + count)
    signals = []
    for step in range(begin, begin + count):
        demand = 1_000.0 * (4.5 + 3.5 * np.sin(step / 25.0)) * noise[step]
        executors = int(2 + 6 * (1 + np.sin((step - 4) / 25.0)) / 2)
        load = min(demand / (1_000.0 * executors), 1.2)
        share = 0.02 / (1.0 - load) if load < 0.98 else 1.0 + load
        signals.append(
            ScalingSignal(
                time_s=15.0 * (step + 1),
                executors=executors,
                requested=executors,
                demand_rows_per_s=float(demand),
                processed_rows_per_s=float(min(demand, 1_000.0 * executors)),
                busy_share=float(min(load, 1.0)),
                backlog_rows=float(share * demand * 30.0),
                backlog_ratio=float(share),
                batch_s=float(0.5 + 5.0 * load),
                trigger_s=5.0,
                batch_rows=float(5.0 * min(demand, 1_000.0 * executors)),
                goal_s=30.0,
            )
        )
    return signals


def _answers(scaler: Scaler, signals: Sequence[ScalingSignal]) -> list[ScaleDecision]:
    return [scaler.decide(signal) for signal in signals]


def test_every_registered_scaler_is_under_contract() -> None:
    """A scaler added to the registry without a maker here would not be checked."""
    assert set(MAKERS) == set(SCALERS)


@every_scaler
def test_names_agree_with_the_registry(name: str) -> None:
    """A scaler says the name that users write, inside its guards too."""
    assert MAKERS[name]().name == name == Guarded(MAKERS[name](), SETTINGS).name


@every_scaler
def test_it_scales(name: str) -> None:
    """The load of this contract needs scaling, so that what follows is not true for want of actions."""
    answers = _answers(MAKERS[name](), _signals(300))
    assert any(answer.executors != signal.requested for answer, signal in zip(answers, _signals(300), strict=True))


@every_scaler
def test_same_signals_same_answers(name: str) -> None:
    """No hidden clock, no hidden random number."""
    assert _answers(MAKERS[name](), _signals(300)) == _answers(MAKERS[name](), _signals(300))


@every_scaler
def test_signals_are_left_as_they_were(name: str) -> None:
    """Deciding changes nothing of what came in."""
    signals = _signals(100)
    before = copy.deepcopy(signals)
    _answers(MAKERS[name](), signals)
    assert signals == before


@every_scaler
@pytest.mark.parametrize("guarded", [False, True])
def test_restored_scaler_decides_alike(name: str, guarded: bool) -> None:  # noqa: FBT001 - pytest passes it by name
    """A snapshot carries all there is: a new scaler goes on exactly where the old one stood."""

    def make() -> Scaler:
        return Guarded(MAKERS[name](), SETTINGS) if guarded else MAKERS[name]()

    scaler, other = make(), make()
    _answers(scaler, _signals(260))
    snapshot = scaler.snapshot()
    rest = _signals(120, begin=260)
    expected = _answers(scaler, rest)
    other.restore(snapshot)
    assert _answers(other, rest) == expected


@every_scaler
def test_snapshot_does_not_change(name: str) -> None:
    """Deciding on after a snapshot leaves it as it was: it restores to the same answers later."""
    scaler, other, third = MAKERS[name](), MAKERS[name](), MAKERS[name]()
    _answers(scaler, _signals(150))
    snapshot = scaler.snapshot()
    other.restore(snapshot)
    expected = _answers(other, _signals(60, begin=150))
    third.restore(snapshot)
    assert _answers(third, _signals(60, begin=150)) == expected


@every_scaler
def test_guards_hold_bounds(name: str) -> None:
    """Inside its guards no scaler leaves its bounds, whatever it wishes."""
    answers = _answers(Guarded(MAKERS[name](), SETTINGS), _signals(300))
    assert all(2 <= answer.executors <= 9 for answer in answers)


@every_scaler
def test_unknown_signals_hold(name: str) -> None:
    """Where signals vanish everything stays as it is, with the reason, and deciding goes on when they are back."""
    scaler = Guarded(MAKERS[name](), SETTINGS)
    _answers(scaler, _signals(50))
    blind = scaler.decide(ScalingSignal(765.0, 4, 4, None, None, None, None, None))
    assert (blind.executors, blind.kind.value) == (4, "hold")
    assert "missing" in blind.reason
    assert len(_answers(scaler, _signals(50, begin=52))) == 50


@every_scaler
def test_every_answer_has_a_reason(name: str) -> None:
    """A log without reasons explains nothing."""
    assert all(answer.reason for answer in _answers(Guarded(MAKERS[name](), SETTINGS), _signals(100)))
