"""The operator's state machine: when a sketch is stable, what is sent, and what starts afresh."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidSettingError
from penstock.estimate.hashing import draw_hashes
from penstock.estimate.sketch_state import OperatorModel, SyncReply, SyncRequest


def _operator(window_rows: int = 8, tolerance: float = 0.05) -> OperatorModel:
    hashes = draw_hashes(np.random.default_rng(1), 2)
    return OperatorModel(hashes, 16, window_rows=window_rows, tolerance=tolerance)


def _execute(operator: OperatorModel, costs: list[float], key: int = 3) -> np.ndarray | None:
    return operator.execute(np.full(len(costs), key, np.uint64), np.array(costs))


def test_steady_costs_are_sent_after_two_windows() -> None:
    """START lasts one window, STABILIZING one more; the row that completes it already counts for the next sketch."""
    operator = _operator()
    assert _execute(operator, [0.002] * 15) is None
    sent = _execute(operator, [0.002])
    assert sent is not None
    assert sent[0, :, 0].sum() == 15
    assert operator.cells[0, :, 0].sum() == 1


def test_changing_costs_are_held_back() -> None:
    """A sketch whose ratios move by more than mu takes a new snapshot and waits another window."""
    operator = _operator()
    assert _execute(operator, [0.002] * 8 + [0.004] * 8) is None
    assert _execute(operator, [0.0028] * 8) is not None


def test_sending_needs_two_new_windows_each_time() -> None:
    """After a send the state machine is back in START: the next sketch comes two windows later, not one."""
    operator = _operator()
    sends = [_execute(operator, [0.002] * 8) is not None for _ in range(6)]
    assert sends == [False, True, False, True, False, True]


def test_restored_operator_goes_on_alike() -> None:
    """A snapshot in the middle of a window carries cells, ratios, count and phase."""
    operator, other = _operator(), _operator()
    _execute(operator, [0.002] * 11)
    other.restore(operator.snapshot())
    left, right = _execute(operator, [0.002] * 7), _execute(other, [0.002] * 7)
    assert left is not None
    assert right is not None
    np.testing.assert_array_equal(left, right)


def test_answer_tells_how_late_the_row_was() -> None:
    """Delta is the operator's own finishing time less the one that the shedder expected."""
    reply = _operator().answer(SyncRequest(row=4, expected_end_s=1.5), finished_s=1.75)
    assert reply == SyncReply(late_s=0.25)


def test_times_must_match_keys() -> None:
    """Rows without an execution time are an error, not a read past the end of an array."""
    with pytest.raises(ValueError, match="2 keys but 1 execution times"):
        _operator().execute(np.zeros(2, np.uint64), np.zeros(1))


def test_window_without_rows_is_an_error() -> None:
    """A window of zero rows would divide by zero."""
    with pytest.raises(InvalidSettingError, match="window rows"):
        _operator(window_rows=0)
