"""Change detectors: silent on what stays the same, awake to steps and drifts, the same after a restart."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.estimate.change import Adwin, AnyOf, ChangeDetector, FixedThreshold, PageHinkley
from penstock.estimate.two_lines import TwoLines
from penstock.research.change_scores import alarms_of

MAKERS = {
    "page_hinkley": lambda: PageHinkley(threshold=20.0, delta=0.3),
    "adwin": Adwin,
    "two_lines": TwoLines,
    "any": lambda: AnyOf([PageHinkley(threshold=20.0, delta=0.3), Adwin()]),
}
every_kind = pytest.mark.parametrize("name", sorted(MAKERS))


def _noise(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 1.0, count)


@every_kind
def test_noise_is_no_change(name: str) -> None:
    """A thousand values of the same noise raise no alarm."""
    assert alarms_of(MAKERS[name](), _noise(1_000)) == []


@every_kind
def test_a_step_is_found(name: str) -> None:
    """A step of four deviations is found within a hundred values, and placed near where it was."""
    values = _noise(600) + 4.0 * (np.arange(600) >= 300)
    first = alarms_of(MAKERS[name](), values)[0]
    assert 300 <= first.raised < 400
    assert abs(first.changed - 300) < 100


@pytest.mark.parametrize("name", sorted(set(MAKERS) - {"two_lines"}))
def test_a_drift_is_found(name: str) -> None:
    """A change by and by, which no single value shows, is found before it is over."""
    values = _noise(1_200) + np.clip((np.arange(1_200) - 400) / 150.0, 0.0, 5.0)
    alarms = alarms_of(MAKERS[name](), values)
    assert alarms
    assert 400 <= alarms[0].raised < 1_150


def test_two_lines_do_not_mind_a_slope() -> None:
    """A series that grows all the time has not changed; where it begins to is told within ten values."""
    slope = 0.05 * np.arange(400)
    assert alarms_of(TwoLines(), _noise(400) + slope) == []
    kink = 0.1 * np.maximum(np.arange(400) - 200.0, 0.0)
    alarms = alarms_of(TwoLines(), 0.3 * _noise(400) + kink)
    assert len(alarms) == 1
    assert abs(alarms[0].changed - 200) <= 10


def test_fixed_threshold_is_the_thesis() -> None:
    """Every value above 0.08 is an alarm, whatever came before."""
    assert [alarm.raised for alarm in alarms_of(FixedThreshold(), np.array([0.0, 0.081, -0.2, 0.08]))] == [1, 2]


@every_kind
def test_restored_detector_goes_on(name: str) -> None:
    """A snapshot carries all there is, and is not changed by going on."""
    values = _noise(800) + 3.0 * (np.arange(800) >= 450)

    def feed(detector: ChangeDetector, begin: int, end: int) -> list[int | None]:
        return [detector.update(float(value)) for value in values[begin:end]]

    first, second, third = (MAKERS[name]() for _ in range(3))
    feed(first, 0, 440)
    snapshot = first.snapshot()
    expected = feed(first, 440, 800)
    second.restore(snapshot)
    third.restore(snapshot)
    assert any(alarm is not None for alarm in expected)
    assert feed(second, 440, 800) == expected == feed(third, 440, 800)


@every_kind
def test_reset_forgets(name: str) -> None:
    """After a reset a detector is as new."""
    used, fresh = MAKERS[name](), MAKERS[name]()
    alarms_of(used, _noise(300) + 5.0)
    used.reset()
    values = _noise(400, seed=3)
    assert alarms_of(used, values) == alarms_of(fresh, values)
