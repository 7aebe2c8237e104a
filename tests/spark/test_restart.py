"""A restart for another shape: downtime, and the way back."""

from __future__ import annotations

import pytest

from penstock.errors import ClusterError
from penstock.model.sizing import EngineShape
from penstock.spark.restart import restart_with

OLD, NEW = EngineShape(1, 512, 384), EngineShape(1, 1024, 384)


class Driver:
    """A driver that does not come up with some shapes, on a clock that it moves."""

    def __init__(self, *, fails_with: EngineShape | None = None) -> None:
        self.now_s, self.log = 0.0, []  # type: ignore[var-annotated]
        self._fails_with = fails_with

    def stop(self) -> None:
        """Takes two seconds."""
        self.now_s += 2.0
        self.log.append("stop")

    def start(self, shape: EngineShape) -> None:
        """Takes ten seconds, to no avail for one shape."""
        self.now_s += 10.0
        self.log.append(shape.heap_mb)
        if shape == self._fails_with:
            raise ClusterError("no executor came")

    def restart(self) -> object:
        """From the old to the new shape."""
        return restart_with(3, OLD, NEW, stop=self.stop, start=self.start, clock=lambda: self.now_s)


def test_a_restart_is_measured() -> None:
    """The downtime is from the stop to the first batch of the new engine."""
    driver = Driver()
    outcome = driver.restart()
    assert (outcome.is_done, outcome.shape, outcome.downtime_s) == (True, NEW, 12.0)  # type: ignore[attr-defined]
    assert driver.log == ["stop", 1024]


def test_a_restart_that_fails_twice_goes_back_to_the_last_good_shape() -> None:
    """The engine runs with the old shape again, and the outcome says why."""
    driver = Driver(fails_with=NEW)
    outcome = driver.restart()
    assert (outcome.is_done, outcome.shape, outcome.downtime_s) == (False, OLD, 32.0)  # type: ignore[attr-defined]
    assert driver.log == ["stop", 1024, 1024, 512]
    assert "ClusterError: no executor came" in outcome.reason  # type: ignore[attr-defined]


def test_an_old_shape_that_does_not_come_up_is_an_error() -> None:
    """When nothing runs any more whoever asked for it has to know."""
    driver = Driver(fails_with=NEW)
    with pytest.raises(ClusterError):
        restart_with(1, NEW, NEW, stop=driver.stop, start=driver.start, clock=lambda: driver.now_s)
