"""Reports wait for the next batch, not for ever, and never out of order."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from penstock.model import PlannedBatch
from penstock.spark.lookout import HeldReport, Lookout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOON_S = 5.0


@pytest.fixture
def lookout() -> Iterator[Lookout]:
    """One that ends with the test."""
    made = Lookout()
    yield made
    made.close()


class Taken:
    """What was handed on, in order."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, PlannedBatch | None]] = []
        self._came = threading.Condition()

    def of(self, name: str) -> Callable[[PlannedBatch | None], None]:
        """What to do with the report of that name."""

        def take(planned: PlannedBatch | None) -> None:
            with self._came:
                self.reports.append((name, planned))
                self._came.notify_all()

        return take

    def wait_for(self, count: int) -> None:
        """Until so many have come."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.reports) >= count, SOON_S), f"only {self.reports}"


def batch(batch_id: int) -> PlannedBatch:
    """A batch without sources."""
    return PlannedBatch(batch_id, 0.0, ())


def within(seconds: float) -> float:
    """A deadline."""
    return time.monotonic() + seconds


def test_a_report_comes_with_the_next_batch_as_soon_as_that_is_planned(lookout: Lookout) -> None:
    """It is looked for again and again."""
    taken, looks = Taken(), iter([None, None, batch(8)])
    lookout.hold("a", HeldReport(lambda: next(looks), taken.of("seventh"), within(SOON_S)))
    taken.wait_for(1)
    assert taken.reports == [("seventh", batch(8))]


def test_a_report_does_not_wait_longer_than_it_may(lookout: Lookout) -> None:
    """A query that waits for rows plans nothing, and its report is handled all the same."""
    taken = Taken()
    began_s = time.monotonic()
    lookout.hold("a", HeldReport(lambda: None, taken.of("seventh"), within(0.1)))
    taken.wait_for(1)
    assert taken.reports == [("seventh", None)]
    assert 0.1 <= time.monotonic() - began_s < SOON_S


def test_one_query_does_not_wait_for_another(lookout: Lookout) -> None:
    """What one waits for is no matter of the other's."""
    taken = Taken()
    lookout.hold("slow", HeldReport(lambda: None, taken.of("slow"), within(60.0)))
    lookout.hold("quick", HeldReport(lambda: batch(3), taken.of("quick"), within(60.0)))
    taken.wait_for(1)
    assert taken.reports == [("quick", batch(3))]


def test_reports_of_a_query_stay_in_order(lookout: Lookout) -> None:
    """A later report ends the wait of the one before it: that batch is over."""
    taken = Taken()
    lookout.hold("a", HeldReport(lambda: None, taken.of("seventh"), within(60.0)))
    lookout.hold("a", HeldReport(lambda: batch(9), taken.of("eighth"), within(60.0)))
    taken.wait_for(2)
    assert taken.reports == [("seventh", None), ("eighth", batch(9))]


def test_a_query_that_ends_has_its_report_handled_first(lookout: Lookout) -> None:
    """On the thread that tells of the end, so that nothing comes after it."""
    taken = Taken()
    lookout.hold("a", HeldReport(lambda: None, taken.of("last"), within(60.0)))
    lookout.release("a")
    lookout.release("a")
    assert taken.reports == [("last", None)]


def test_a_look_that_fails_costs_no_report(lookout: Lookout) -> None:
    """The report is worth as much as without a lookout."""

    def broken() -> PlannedBatch | None:
        raise ConnectionError("the session is gone")

    taken = Taken()
    lookout.hold("a", HeldReport(broken, taken.of("seventh"), within(0.05)))
    taken.wait_for(1)
    assert taken.reports == [("seventh", None)]


def test_nothing_is_handed_on_after_the_end() -> None:
    """What a session that was let go of reports is nobody's business."""
    lookout, taken = Lookout(), Taken()
    lookout.hold("a", HeldReport(lambda: None, taken.of("seventh"), within(0.05)))
    lookout.close()
    time.sleep(0.1)
    assert taken.reports == []
    assert not any(thread.name == "penstock-lookout" for thread in threading.enumerate())
