"""How long a batch takes, as a function of its rows."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.estimate.rls import RecursiveLeastSquares, RlsState

_PRIOR_OVERHEAD_STD_S = 2.0
_PRIOR_COST_STD_S = 1e-2
_FIRST_RELATIVE_NOISE = 0.10
_LEAST_RELATIVE_NOISE, _MOST_RELATIVE_NOISE = 0.05, 0.30
_NOISE_WEIGHT = 0.1
_ABSOLUTE_NOISE_S = 0.02
_SURPRISE_RATIO = 0.30
_SURPRISE_DEVIATIONS = 2.5
_SURPRISES_TO_RELEARN = 2
_SIGNIFICANT = 4.0
_EARLY_FORGETTING = 0.85
_EARLY_BATCHES = 15


@dataclass(frozen=True, slots=True)
class BatchTimeState:
    """Snapshot of a :class:`BatchTimeModel`."""

    rls: RlsState
    batches: int
    mean_rows: float
    mean_duration_s: float
    relative_noise: float
    surprises: int


class BatchTimeModel:
    r"""Batch time as fixed overhead plus cost per row, learned while the query runs.

    .. math:: d = o + c\,n, \qquad n(d) = (d - o) / c

    by recursive least squares, where the noise of a batch time is a share of it: long batches are off by more. That
    share is learned too, from how far off the predictions were.

    A single batch that is far from its prediction (a garbage collection, a neighbour on the machine) is cut to the
    edge of what is plausible and hardly moves the model. Two in a row on the same side are a change of the query
    itself: the model keeps its estimate but gives up its certainty, and follows within a batch or two, not dozens.

    Examples
    --------
    >>> model = BatchTimeModel(forgetting=0.97)
    >>> for rows in (1_000, 4_000, 16_000, 64_000):
    ...     model.update(rows, 0.2 + rows * 20e-6)
    >>> round(model.overhead_s, 2), round(model.cost_per_row_s * 1e6, 1)
    (0.2, 20.0)
    >>> round(model.rows_within(2.5))
    114992
    """

    def __init__(self, forgetting: float, state: BatchTimeState | None = None) -> None:
        self._rls = RecursiveLeastSquares(
            prior=(0.0, 0.0),
            prior_variance=(_PRIOR_OVERHEAD_STD_S**2, _PRIOR_COST_STD_S**2),
            state=state.rls if state else None,
        )
        self._forgetting = forgetting
        self._batches = state.batches if state else 0
        self._mean_rows = state.mean_rows if state else 0.0
        self._mean_duration_s = state.mean_duration_s if state else 0.0
        self._relative_noise = state.relative_noise if state else _FIRST_RELATIVE_NOISE
        self._surprises = state.surprises if state else 0

    @property
    def batches(self) -> int:
        """How many batches were learned from."""
        return self._batches

    @property
    def overhead_s(self) -> float:
        """Seconds that a batch takes whatever its size."""
        return self._line()[0]

    @property
    def cost_per_row_s(self) -> float:
        """Seconds that each further row adds."""
        return self._line()[1]

    def predict_s(self, rows: float) -> float:
        """Expected duration of a batch of so many rows."""
        overhead_s, cost_s = self._line()
        return overhead_s + cost_s * rows

    def is_certain(self, rows: float, *, within: float) -> bool:
        """Whether the duration of a batch of so many rows is known to within that share of it."""
        return self._rls.prediction_std((1.0, rows)) <= within * self.predict_s(rows)

    @property
    def is_cost_significant(self) -> bool:
        """Whether the cost of a row stands out from the noise.

        Small batches are little but overhead. Among them a slow moment looks like a dear row, and a model that
        believes it would keep batches small and never find out.
        """
        error_s = self._rls.standard_errors()[1]
        return self._rls.theta[1] >= _SIGNIFICANT * error_s

    def rows_within(self, duration_s: float) -> float:
        """Rows of a batch that takes so long; 0 where the overhead alone takes longer."""
        overhead_s, cost_s = self._line()
        return max(0.0, duration_s - overhead_s) / cost_s

    def update(self, rows: int, duration_s: float) -> None:
        """Learn from a finished batch; batches without rows tell nothing of the cost of rows."""
        if rows <= 0 or duration_s <= 0:
            return
        observed_s = self._plausible_s(rows, duration_s)
        noise_s = _ABSOLUTE_NOISE_S + self._relative_noise * observed_s
        # The first batches run on code that is still being compiled: what they tell is soon out of date.
        early = self._batches < _EARLY_BATCHES
        forgetting = min(self._forgetting, _EARLY_FORGETTING) if early else self._forgetting
        self._rls.update((1.0, float(rows)), observed_s, noise_variance=noise_s**2, forgetting=forgetting)
        self._batches += 1
        weight = max(1.0 - self._forgetting, 1.0 / self._batches)
        self._mean_rows += weight * (rows - self._mean_rows)
        self._mean_duration_s += weight * (observed_s - self._mean_duration_s)

    def snapshot(self) -> BatchTimeState:
        """The whole state, to build an equal model from."""
        return BatchTimeState(
            self._rls.snapshot(),
            self._batches,
            self._mean_rows,
            self._mean_duration_s,
            self._relative_noise,
            self._surprises,
        )

    def _plausible_s(self, rows: int, duration_s: float) -> float:
        if self._batches < _SURPRISES_TO_RELEARN:
            return duration_s
        predicted_s = self.predict_s(rows)
        deviation_s = duration_s - predicted_s
        share = min(abs(deviation_s) / predicted_s, _MOST_RELATIVE_NOISE)
        noise = self._relative_noise + _NOISE_WEIGHT * (share - self._relative_noise)
        self._relative_noise = min(max(noise, _LEAST_RELATIVE_NOISE), _MOST_RELATIVE_NOISE)
        tolerated = max(_SURPRISE_RATIO, _SURPRISE_DEVIATIONS * self._relative_noise)
        tolerance_s = _ABSOLUTE_NOISE_S + tolerated * predicted_s
        if abs(deviation_s) <= tolerance_s:
            self._surprises = 0
            return duration_s
        side = 1 if deviation_s > 0 else -1
        self._surprises = self._surprises + side if self._surprises * side >= 0 else side
        if abs(self._surprises) < _SURPRISES_TO_RELEARN:
            return predicted_s + side * tolerance_s
        self._rls.forget_all()
        return duration_s

    def _line(self) -> tuple[float, float]:
        """Overhead and cost, neither below zero.

        Batches of nearly equal size leave the split between the two open, and noise may push one of them below zero;
        the line through the typical batch is then the best that is physically possible.
        """
        overhead_s, cost_s = self._rls.theta
        typical_rows = max(self._mean_rows, 1.0)
        fitted_s = overhead_s + cost_s * typical_rows
        typical_s = fitted_s if fitted_s > 0.1 * self._mean_duration_s else max(self._mean_duration_s, 1e-6)
        # A cost of nothing would mean that a batch of any size fits: assume a hundredth of the batch is spent on rows.
        least_cost_s = 0.01 * typical_s / typical_rows
        if overhead_s < 0:
            return 0.0, typical_s / typical_rows
        if cost_s < least_cost_s:
            return 0.99 * typical_s, least_cost_s
        return overhead_s, cost_s
