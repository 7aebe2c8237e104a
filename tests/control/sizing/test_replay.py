"""The action log of sizing replays to the same size."""

from __future__ import annotations

import pytest

from penstock.control.sizing.replay import replayed_shape
from penstock.model.decision import Resize, ResizeDone, from_action, to_action
from penstock.model.sizing import EngineShape
from penstock.research.sage import size_application

SMALL, LARGE = EngineShape(1, 512, 384), EngineShape(1, 1024, 384)


def resized(number: int, policy: str = "P1") -> Resize:
    return Resize(
        cause=policy, reason="", policy=policy, resource="heap", shape=LARGE.to_dict(),
        previous_shape=SMALL.to_dict(), number=number,
    )  # fmt: skip


@pytest.mark.parametrize("number", range(6))
def test_the_log_of_a_run_leads_to_its_last_size(number: int) -> None:
    """Whatever was decided in a simulated hour, its log, read back from its records, gives the size at the end."""
    run = size_application(number)
    log = [from_action(to_action(decision)) for decision in run.log]
    assert list(run.log) == log
    assert (replayed_shape(log) or run.first) == run.last


def test_a_change_that_failed_leaves_the_last_good_shape() -> None:
    """What did not come about is not replayed."""
    failed = ResizeDone(cause="", reason="no executor came", number=1, is_done=False)
    assert replayed_shape([resized(1), failed]) == SMALL


def test_a_change_by_hand_holds_at_once() -> None:
    """What the operator did is there already when it is recorded."""
    assert replayed_shape([resized(1, "operator")]) == LARGE
