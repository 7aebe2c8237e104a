"""The two state machines of load-aware shedding and the messages between them.

The operator counts the rows it executes. Every ``N`` rows it compares its sketch with a snapshot of it; once the two
agree (Eq. 1 at most ``mu``) the sketch goes to the shedder and counting starts afresh::

    operator:  START --N rows, snapshot--> STABILIZING --N rows, eta <= mu: send, reset--> START
                                           STABILIZING --N rows, eta >  mu: new snapshot--> STABILIZING
    shedder:   NOP --sketch--> SEND --first kept row carries C--> RUN --sketch--> SEND

The shedder then asks how far its estimate of the operator's finishing time is off, by sending it along with the first
row it keeps; the operator answers with the difference when it has executed that row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidSettingError
from penstock.estimate.compiled import compiled
from penstock.estimate.sketch import add_row, relative_change, write_ratios

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXECUTED, PHASE, OPERATOR_STATE_SIZE = 0, 1, 2
START, STABILIZING = 0, 1
NOP, SEND, RUN = 0, 1, 2


class ShedderPhase(IntEnum):
    """Where the shedder stands; the numbers are those that the compiled loops use."""

    NOP = NOP
    SEND = SEND
    RUN = RUN


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """When the shedder thinks that the operator will be done with the row that carries this."""

    row: int
    expected_end_s: float


@dataclass(frozen=True, slots=True)
class SyncReply:
    """How much later than expected the operator was done with that row."""

    late_s: float


@compiled
def operator_row(
    cells: NDArray[np.float64],
    hashes: NDArray[np.uint64],
    snapshot: NDArray[np.float64],
    outbox: NDArray[np.float64],
    state: NDArray[np.int64],
    window_rows: int,
    tolerance: float,
    key: np.uint64,
    cost: float,
) -> bool:
    """Listing III.1: count one executed row; true when ``outbox`` holds a sketch to send."""
    state[EXECUTED] += 1
    sends = False
    if state[EXECUTED] % window_rows == 0:
        if state[PHASE] == START:
            write_ratios(cells, snapshot)
            state[PHASE] = STABILIZING
        elif relative_change(cells, snapshot) <= tolerance:
            outbox[:] = cells
            cells[:] = 0.0
            state[PHASE] = START
            sends = True
        else:
            write_ratios(cells, snapshot)
    add_row(cells, hashes, key, cost)
    return sends


@compiled
def operator_rows(
    cells: NDArray[np.float64],
    hashes: NDArray[np.uint64],
    snapshot: NDArray[np.float64],
    outbox: NDArray[np.float64],
    state: NDArray[np.int64],
    window_rows: int,
    tolerance: float,
    keys: NDArray[np.uint64],
    costs: NDArray[np.float64],
) -> bool:
    """Count many executed rows; true when ``outbox`` holds the newest sketch to send."""
    sends = False
    for index in range(keys.size):
        sends |= operator_row(cells, hashes, snapshot, outbox, state, window_rows, tolerance, keys[index], costs[index])
    return sends


class OperatorModel:
    """The operator's side: learns costs from executed rows and says when they are worth sending.

    Parameters
    ----------
    hashes, columns
        The sketch, shared with the shedder.
    window_rows
        ``N``: rows between two looks at the sketch.
    tolerance
        ``mu``: largest relative change between two looks at which the sketch counts as stable.

    Examples
    --------
    >>> from penstock.estimate.hashing import draw_hashes
    >>> operator = OperatorModel(draw_hashes(np.random.default_rng(1), 2), 8, window_rows=4, tolerance=0.05)
    >>> keys, costs = np.full(9, 5, dtype=np.uint64), np.full(9, 0.002)
    >>> operator.execute(keys[:7], costs[:7]) is None
    True
    >>> operator.execute(keys[7:], costs[7:]).sum(axis=1).tolist()
    [[7.0, 0.014], [7.0, 0.014]]
    """

    def __init__(
        self, hashes: NDArray[np.uint64], columns: int, *, window_rows: int = 1024, tolerance: float = 0.05
    ) -> None:
        if window_rows < 1:
            raise InvalidSettingError("window rows", window_rows, "at least one row")
        self.hashes = hashes
        self.window_rows = window_rows
        self.tolerance = tolerance
        self.cells = np.zeros((hashes.shape[0], columns, 2))
        self._ratios = np.zeros((hashes.shape[0], columns))
        self._outbox = np.zeros_like(self.cells)
        self._state = np.zeros(OPERATOR_STATE_SIZE, np.int64)

    def execute(self, keys: NDArray[np.uint64], costs_s: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Count executed rows; gives the newest stable sketch if one became ready on the way."""
        if keys.shape != costs_s.shape:
            raise ValueError(f"{keys.size} keys but {costs_s.size} execution times: give one time for each key")
        ready = operator_rows(
            self.cells, self.hashes, self._ratios, self._outbox, self._state,
            self.window_rows, self.tolerance, keys, costs_s,
        )  # fmt: skip
        return self._outbox.copy() if ready else None

    def answer(self, request: SyncRequest, *, finished_s: float) -> SyncReply:
        """Answer the shedder's question once the row that carried it is done."""
        return SyncReply(late_s=finished_s - request.expected_end_s)

    def snapshot(self) -> dict[str, NDArray[np.float64]]:
        """Give all that is needed to go on from here."""
        parts = {"cells": self.cells, "ratios": self._ratios, "state": self._state.astype(np.float64)}
        return {name: part.copy() for name, part in parts.items()}

    def restore(self, snapshot: dict[str, NDArray[np.float64]]) -> None:
        """Go on from a snapshot."""
        self.cells = snapshot["cells"].copy()
        self._ratios = snapshot["ratios"].copy()
        self._state = snapshot["state"].astype(np.int64)
