"""Load-aware shedding: the queue shedder that learns the execution time of every key in sketches.

``w(t)`` is read from the sketch and raised by ``1 + epsilon`` against under-estimates; everything else is
:mod:`penstock.control.shedding.queue` ("Load-aware shedding in stream processing systems", section III, Listing III.2).
The listing's lines 18 and 31 are corrected there and in :mod:`penstock.control.shedding.check`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from penstock.control.shedding.accuracy import KEPT, OFFERED
from penstock.control.shedding.base import Decision, Rows, Snapshot, kept_share
from penstock.control.shedding.check import Constraint
from penstock.control.shedding.queue import BUSY_UNTIL, QueueShedder
from penstock.estimate.sketch import CostSketch
from penstock.estimate.sketch_state import ShedderPhase, SyncRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LoadAware(QueueShedder):
    """Drops rows so that the mean wait stays at tau, from costs that the operator sends.

    Until the first sketch arrives nothing is known and nothing is dropped (phase NOP).

    Parameters
    ----------
    threshold_s
        ``tau``.
    hashes
        The operator's hash functions.
    epsilon
        Error share that sizes the sketch and by which estimates are raised.
    prior_rows
        Rows of mean cost that every cell starts with; 0 is the paper's plain estimate.

    Examples
    --------
    >>> from penstock.estimate.hashing import draw_hashes
    >>> hashes = draw_hashes(np.random.default_rng(3), 4)
    >>> learned = CostSketch(hashes, 55)
    >>> learned.update(np.array([1, 2], np.uint64), np.array([0.001, 0.006]))
    >>> shedder = LoadAware(0.003, hashes=hashes, constraint=Constraint.ABSOLUTE)
    >>> rows = Rows(np.array([2, 1, 1, 1], np.uint64), 0.002 * np.arange(4), np.zeros(4))
    >>> shedder.decide(rows).keep.tolist()
    [True, True, True, True]
    >>> shedder.learn(learned.cells)
    >>> decision = shedder.decide(Rows(rows.keys, rows.arrival_s + 1.0, rows.uniforms))
    >>> decision.keep.tolist(), decision.sync.row, round(decision.sync.expected_end_s, 4)
    ([True, False, True, True], 0, 1.0063)
    """

    name: ClassVar[str] = "las"

    def __init__(
        self,
        threshold_s: float,
        *,
        hashes: NDArray[np.uint64],
        epsilon: float = 0.05,
        prior_rows: float = 0.0,
        constraint: Constraint = Constraint.AVERAGE,
        window_rows: int = 1024,
        minimum_accuracy: float = 0.0,
    ) -> None:
        super().__init__(threshold_s, constraint=constraint, window_rows=window_rows, minimum_accuracy=minimum_accuracy)
        self.epsilon = epsilon
        self.prior_rows = prior_rows
        self.phase = ShedderPhase.NOP
        self._sketch = CostSketch(hashes, int(np.ceil(np.e / epsilon)))

    def learn(self, cells: NDArray[np.float64]) -> None:
        """Take the operator's sketch in place of the one in use, and ask how far off the queue is."""
        self._sketch.cells = cells.copy()
        self.phase = ShedderPhase.SEND

    def estimated_costs_s(self, rows: Rows) -> NDArray[np.float64]:
        """Give the learned execution times, raised by epsilon."""
        costs_s = self._sketch.costs_s(rows.keys, prior_rows=self.prior_rows)
        costs_s *= 1.0 + self.epsilon
        return costs_s

    def decide(self, rows: Rows) -> Decision:
        """Keep rows as long as the promise holds; the first one kept after new costs carries the question."""
        if self.phase is ShedderPhase.NOP:
            return self._decide_untrained(rows)
        if self.phase is ShedderPhase.RUN:
            return super().decide(rows)
        return self._decide_and_ask(rows)

    def _decide_and_ask(self, rows: Rows) -> Decision:
        busy_until_s = self._state[BUSY_UNTIL]
        decision = super().decide(rows)
        if not decision.keep.any():
            return decision
        first = int(decision.keep.argmax())
        cost_s = self.estimated_costs_s(rows)[first]
        # Nothing was let through before the first kept row, so the queue it met is the one from before the batch.
        expected_end_s = float(max(busy_until_s, rows.arrival_s[first]) + cost_s)
        self.phase = ShedderPhase.RUN
        return replace(decision, sync=SyncRequest(row=first, expected_end_s=expected_end_s))

    def _decide_untrained(self, rows: Rows) -> Decision:
        keep = np.ones(rows.keys.size, np.bool_)
        self._state[OFFERED] += keep.size
        self._state[KEPT] += keep.size
        return Decision(keep=keep, probability=kept_share(keep), drawn=False)

    def snapshot(self) -> Snapshot:
        """Give state, window, sketch and phase."""
        parts = {"cells": self._sketch.cells.copy(), "phase": np.array([float(self.phase)])}
        return {**super().snapshot(), **parts}

    def restore(self, snapshot: Snapshot) -> None:
        """Decide on from a snapshot."""
        super().restore(snapshot)
        self._sketch.cells = snapshot["cells"].copy()
        self.phase = ShedderPhase(int(snapshot["phase"][0]))
