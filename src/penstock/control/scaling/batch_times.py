"""What samples teach of batch times, and when what was learned no longer holds."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.estimate.change import AnyOf, ChangeDetector, PageHinkley
from penstock.estimate.performance_line import Line, PerformanceLine
from penstock.estimate.two_lines import TwoLines

if TYPE_CHECKING:
    from penstock.model.scaling import ScalingSignal

_TO_REFER_TO = 20
"""Samples of a reference: as many as the detectors were scored with."""
_REMEMBERED = 2_000
"""Residuals that a restart goes through again: far more than a detector looks back."""
_NOT_LEARNED = frozenset({"_line", "_detector"})


def change_detector() -> ChangeDetector:
    """The detectors that win on labelled series, with the parameters that they were scored with.

    Two lines on change points, Page-Hinkley on anomaly windows (``penstock experiment elastic --changes``).
    """
    return AnyOf([TwoLines(), PageHinkley(fewest=10, delta=0.5, threshold=20.0)])


class BatchTimes:
    r"""Batch times learned from settled samples, and unlearned when they change.

    The line that follows the samples is held against a reference: the line as it was when the last change was over.
    Residuals :math:`\ln(y / \hat y)` over the reference's own scatter go through change detectors. On an alarm the
    samples from before the change are dropped, and what is left is the new reference.

    A sample is settled when the executors were the same while its batches ran: since a sample and two cycles. Where
    nothing settles for as many samples as a reference has, mean executors are taken instead: what is not quite right
    unlearns what is all wrong.
    """

    def __init__(self, *, memory_s: float, deviations: float, recent_s: float = 30.0) -> None:
        self._line = PerformanceLine(half_life_s=memory_s, recent_s=recent_s, deviations=deviations)
        self._detector = change_detector()
        self._reference: tuple[Line, float] | None = None
        self._sizes: deque[tuple[float, int]] = deque()
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)
        self._residuals: deque[float] = deque(maxlen=_REMEMBERED)
        self._learned_s: float | None = None
        self._last_s: float | None = None
        self._per_sample = 1.0
        self.changes = 0

    def line(self) -> Line | None:
        """The line as it is believed now."""
        return self._line.fit()

    @property
    def spread(self) -> float:
        """Relative scatter of a single batch: a sample is the mean of several."""
        line = self._line.fit()
        return 0.0 if line is None else line.spread * math.sqrt(self._per_sample)

    def observe(self, signal: ScalingSignal) -> str | None:
        """Learn a sample; gives a sentence where batch times have changed."""
        executors = self._executors(signal)
        before_s, self._last_s = self._last_s, signal.time_s
        if executors is None or not signal.batch_s or not signal.batch_rows:
            return None
        if before_s is not None:
            cycle_s = max(signal.batch_s, signal.trigger_s or 0.0)
            self._per_sample = max(1.0, (signal.time_s - before_s) / cycle_s)
        rows = signal.batch_rows / executors
        self._line.add(signal.time_s, rows, signal.batch_s)
        self._seen.append(signal.time_s)
        self._learned_s = signal.time_s
        return self._watch(signal, rows, signal.batch_s)

    def _executors(self, signal: ScalingSignal) -> float | None:
        """Executors that the sample's batches had; None where they changed meanwhile."""
        sizes = self._sizes
        last_s = self._last_s if self._last_s is not None else signal.time_s
        cycle_s = max(signal.batch_s or 0.0, signal.trigger_s or 0.0)
        window_s = signal.time_s - last_s + 2.0 * cycle_s
        sizes.append((signal.time_s, signal.executors))
        while len(sizes) > 1 and sizes[1][0] <= signal.time_s - window_s:
            sizes.popleft()
        counts = [count for _, count in sizes]
        if min(counts) < 1:
            return None
        if min(counts) == max(counts):
            return float(counts[0])
        waits_s = _TO_REFER_TO * (signal.time_s - last_s)
        is_overdue = self._learned_s is not None and signal.time_s - self._learned_s > waits_s
        return sum(counts) / len(counts) if is_overdue else None

    def _watch(self, signal: ScalingSignal, rows: float, batch_s: float) -> str | None:
        if self._reference is None:
            line = self._line.fit()
            if line is not None and len(self._line) >= _TO_REFER_TO:
                self._reference = (line, max(line.spread, 1e-3))
            return None
        line, spread = self._reference
        residual = math.log(batch_s / max(line.batch_s(rows), 1e-9)) / spread
        self._residuals.append(residual)
        ago = self._detector.update(residual)
        if ago is None:
            return None
        since_s = self._seen[max(0, len(self._seen) - 1 - ago)]
        self._line.forget_before(since_s)
        self._detector.reset()
        self._residuals.clear()
        self._reference = None
        self.changes += 1
        new = self._line.fit()
        ratio = 1.0 if new is None else new.batch_s(rows) / line.batch_s(rows)
        dropped = f"samples older than {signal.time_s - since_s:.0f} s are dropped"
        return f"batches take {ratio:.2f} times as long as they did: {dropped}"

    def remembered(self) -> dict[str, Any]:
        """Plain data for a file; detectors go through it as what they have seen since the last change."""
        state = self.snapshot()
        state.pop("detector")
        return state

    def recall(self, learned: dict[str, Any]) -> None:
        """Go on from what a file held."""
        state = dict(learned)
        if state["_reference"] is not None:
            line, spread = state["_reference"]
            state["_reference"] = (Line(*line), spread)
        state["line"] = tuple(tuple(point) for point in state["line"])
        state["_sizes"] = tuple(tuple(size) for size in state["_sizes"])
        state["_residuals"] = tuple(state["_residuals"])
        detector = change_detector()
        for residual in state["_residuals"]:
            detector.update(residual)
        self.restore({**state, "detector": detector.snapshot()})

    def snapshot(self) -> dict[str, Any]:
        """Samples, reference and detectors."""
        state = {name: value for name, value in self.__dict__.items() if name not in _NOT_LEARNED}
        state |= {"_sizes": tuple(self._sizes), "_seen": tuple(self._seen), "_residuals": tuple(self._residuals)}
        return state | {"line": self._line.snapshot(), "detector": self._detector.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        state = dict(snapshot)
        self._line.restore(state.pop("line"))
        self._detector.restore(state.pop("detector"))
        self.__dict__.update(state)
        self._sizes, self._residuals = deque(state["_sizes"]), deque(state["_residuals"], maxlen=_REMEMBERED)
        self._seen = deque(state["_seen"], maxlen=_REMEMBERED)
