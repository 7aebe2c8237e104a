"""How long a batch takes, as a function of the rows it reads and the rows it keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.estimate.rls import RecursiveLeastSquares, RlsState
from penstock.model.evolve import evolve

_PRIOR_OVERHEAD_STD_S = 2.0
_PRIOR_WORK_STD_S = 1e-2
_READ_PER_WORK_STD = 0.3
_PRIOR_READ_STD_S = _READ_PER_WORK_STD * _PRIOR_WORK_STD_S
_USUAL_READ_SHARE = 0.1
_SPLIT_STD = 0.15
_NEARLY_ALL = 0.98
_FIRST_RELATIVE_NOISE = 0.10
_LEAST_RELATIVE_NOISE, _MOST_RELATIVE_NOISE = 0.05, 0.30
_NOISE_WEIGHT = 0.1
_STD_PER_MEAN_DEVIATION = math.sqrt(math.pi / 2.0)
_ABSOLUTE_NOISE_S = 0.02
_SURPRISE_RATIO = 0.30
_SURPRISE_DEVIATIONS = 2.5
_SURPRISES_TO_RELEARN = 2
_SAME_SIDE_TO_DRIFT = 4
_DRIFT_RATIO = 0.04
_DRIFT_FORGETTING = 0.5
_SIGNIFICANT = 4.0
_EARLY_FORGETTING = 0.85
_EARLY_BATCHES = 15
_LEAST_SHARE_OF_TIME = 0.01
_SURE_ERRORS = 2.0
_BISECTIONS = 20
_RECALLED_BATCHES = 4
_DOUBT, _LEAST_DOUBTED = 2.0, 0.1
_NO_COST_S = 1e-12
_RESCALED_DOUBT = 0.5


@dataclass(frozen=True, slots=True)
class BatchTimeState:
    """Snapshot of a :class:`BatchTimeModel`."""

    rls: RlsState
    batches: int = 0
    relative_noise: float = _FIRST_RELATIVE_NOISE
    surprises: int = 0
    same_side: int = 0
    has_dropped: bool = False


class BatchTimeModel:
    r"""Batch time as fixed overhead, plus a cost for each row read, plus a cost for each row kept.

    .. math:: d = o + a\,n + c\,k

    for :math:`n` rows read of which :math:`k` are processed in full, by recursive least squares. Without shedding
    :math:`k = n` and only :math:`a + c` can be told; as soon as the share :math:`p = k / n` moves, so can each of them.
    They must not be lumped together: at a small share nearly all of the time goes into reading, and a model in kept
    rows alone would find them dearer the fewer are kept, and keep ever fewer.

    The noise of a batch time is a share of it, learned from how far off the predictions were. A single batch that is
    far from its prediction (a garbage collection, a neighbour on the machine) is cut to the edge of what is plausible.
    Two in a row on the same side are a change of the query itself: the model keeps its estimate but gives up its
    certainty, and follows within a batch or two, not dozens. Four in a row that are all a little longer, or shorter,
    than predicted are a drift: older batches are forgotten faster until the model has caught up.

    Examples
    --------
    >>> model = BatchTimeModel(forgetting=0.97)
    >>> for rows in (1_000, 4_000, 16_000, 64_000):
    ...     model.update(rows, rows, 0.2 + rows * 20e-6)
    >>> round(model.overhead_s, 2), round(model.cost_per_kept_row_s(1.0) * 1e6, 1)
    (0.2, 20.0)
    >>> round(model.kept_rows_within(2.5, 1.0), -3)
    115000.0
    """

    def __init__(self, forgetting: float, state: BatchTimeState | None = None) -> None:
        self._rls = RecursiveLeastSquares(
            prior=(0.0, 0.0, 0.0),
            prior_variance=(_PRIOR_OVERHEAD_STD_S**2, _PRIOR_READ_STD_S**2, _PRIOR_WORK_STD_S**2),
            state=state.rls if state else None,
        )
        self._forgetting = forgetting
        self._state = state or BatchTimeState(self._rls.snapshot())

    @classmethod
    def recalled(cls, *, overhead_s: float, read_cost_s: float, work_cost_s: float, doubt: float) -> BatchTimeState:
        """The state of a model that knows the costs of an earlier time, each to within a share of it.

        Examples
        --------
        >>> state = BatchTimeModel.recalled(overhead_s=0.2, read_cost_s=1e-6, work_cost_s=9e-6, doubt=0.25)
        >>> model = BatchTimeModel(0.97, state)
        >>> round(model.predict_s(100_000, 100_000), 2), model.is_certain(100_000, 1.0, within=0.15)
        (1.2, False)
        >>> for _ in range(3):
        ...     model.update(100_000, 100_000, 1.2)
        >>> model.is_certain(100_000, 1.0, within=0.15)
        True
        """
        theta = (overhead_s, read_cost_s, work_cost_s)
        floors = (0.01, 0.02 * (read_cost_s + work_cost_s), 0.02 * (read_cost_s + work_cost_s))
        variance = tuple((doubt * max(value, floor)) ** 2 for value, floor in zip(theta, floors, strict=True))
        rls = RecursiveLeastSquares(prior=theta, prior_variance=variance)
        # The split of read and work cost was learned then: it must not be assumed anew.
        return BatchTimeState(rls.snapshot(), _RECALLED_BATCHES, has_dropped=True)

    @property
    def batches(self) -> int:
        """How many batches were learned from; what was recalled counts as a few."""
        return self._state.batches

    @property
    def relative_noise(self) -> float:
        """Standard deviation of batches from what was predicted, as a share of that.

        What is learned is the mean absolute deviation; of a normal distribution that is the root of two over pi times
        the standard deviation.
        """
        return self._state.relative_noise * _STD_PER_MEAN_DEVIATION

    @property
    def overhead_s(self) -> float:
        """Seconds that a batch takes whatever its size."""
        return self._costs()[0]

    @property
    def read_cost_s(self) -> float:
        """Seconds that each row read adds, kept or not."""
        return self._costs()[1]

    @property
    def work_cost_s(self) -> float:
        """Seconds that each kept row adds to that."""
        return self._costs()[2]

    def cost_per_kept_row_s(self, share: float) -> float:
        """Seconds that each kept row adds, with the reading of those that are dropped for it."""
        return self.read_cost_s / share + self.work_cost_s

    def predict_s(self, read_rows: float, kept_rows: float) -> float:
        """Expected duration of a batch."""
        overhead_s, read_s, work_s = self._costs()
        return overhead_s + read_s * read_rows + work_s * kept_rows

    def kept_rows_within(self, duration_s: float, share: float) -> float:
        """Kept rows of a batch that takes so long at a share; 0 where the overhead alone takes longer."""
        return max(0.0, duration_s - self.overhead_s) / self.cost_per_kept_row_s(share)

    def keep_ratio_within(self, duration_s: float, read_rows: float) -> float:
        """Share of so many rows that can be kept if they are to take so long; 0 where reading alone takes longer."""
        overhead_s, read_s, work_s = self._costs()
        return max(0.0, duration_s - overhead_s - read_s * read_rows) / (work_s * read_rows)

    def surely_within(self, duration_s: float, share: float, *, at_most_rows: float) -> float:
        """Kept rows of a batch that takes no longer than that even if the model errs by two standard errors."""
        low, high = 0.0, at_most_rows
        for _ in range(_BISECTIONS):
            kept_rows = (low + high) / 2
            regressor = (1.0, kept_rows / share, kept_rows)
            worst_s = self.predict_s(*regressor[1:]) + _SURE_ERRORS * self._rls.prediction_std(regressor)
            low, high = (kept_rows, high) if worst_s <= duration_s else (low, kept_rows)
        return low

    def is_certain(self, kept_rows: float, share: float, *, within: float) -> bool:
        """Whether the duration of a batch is known to within that part of it."""
        read_rows = kept_rows / share
        error_s = self._rls.prediction_std((1.0, read_rows, kept_rows))
        return error_s <= within * self.predict_s(read_rows, kept_rows)

    def is_cost_significant(self, share: float) -> bool:
        """Whether the cost of a row stands out from the noise.

        Small batches are little but overhead. Among them a slow moment looks like a dear row, and a model that
        believes it would keep batches small and never find out.
        """
        error_s = self._rls.prediction_std((0.0, 1.0 / share, 1.0))
        _, read_s, work_s = self._rls.theta
        return read_s / share + work_s >= _SIGNIFICANT * error_s

    def update(self, read_rows: int, kept_rows: int, duration_s: float) -> None:
        """Learn from a finished batch; batches without rows tell nothing of the cost of rows."""
        if kept_rows <= 0 or duration_s <= 0:
            return
        observed_s = self._plausible_s(read_rows, kept_rows, duration_s)
        noise_s = _ABSOLUTE_NOISE_S + self._state.relative_noise * observed_s
        # The first batches run on code that is still being compiled: what they tell is soon out of date.
        early = self._state.batches < _EARLY_BATCHES
        forgetting = min(self._forgetting, _EARLY_FORGETTING) if early else self._forgetting
        if abs(self._state.same_side) >= _SAME_SIDE_TO_DRIFT:
            forgetting = _DRIFT_FORGETTING
        regressor = (1.0, float(read_rows), float(kept_rows))
        self._rls.update(regressor, observed_s, noise_variance=noise_s**2, forgetting=forgetting)
        # A cost of nothing would mean that a batch of any size fits: assume a hundredth of the batch is spent on rows.
        self._rls.hold_above((0.0, 0.0, _LEAST_SHARE_OF_TIME * observed_s / kept_rows))
        drops = kept_rows < _NEARLY_ALL * read_rows
        has_dropped = self._state.has_dropped or drops
        overhead_s, read_s, work_s = self._rls.theta
        total_s = read_s + work_s
        if not has_dropped:
            # Nothing tells reading from keeping yet: without this, noise would drift into a guess that is believed.
            self._rls.place((overhead_s, _USUAL_READ_SHARE * total_s, (1.0 - _USUAL_READ_SHARE) * total_s))
        elif drops:
            self._anchor_split(total_s, observed_s / kept_rows)
        self._state = evolve(
            self._state, rls=self._rls.snapshot(), batches=self._state.batches + 1, has_dropped=has_dropped
        )

    def _anchor_split(self, total_s: float, row_s: float) -> None:
        """Let every batch that drops rows say weakly that reading is the usual part of a row's cost.

        A batch that keeps nearly all it reads says next to nothing of the split; without an anchor its noise would
        throw the two costs apart, and the next batch at a small keep ratio would be many times too long or too short. A
        batch that really drops rows says so dozens of times more strongly.
        """
        regressor = (0.0, 1.0 - _USUAL_READ_SHARE, -_USUAL_READ_SHARE)
        self._rls.update(regressor, 0.0, noise_variance=(_SPLIT_STD * total_s) ** 2, forgetting=self._forgetting)
        self._rls.hold_above((0.0, 0.0, _LEAST_SHARE_OF_TIME * row_s))

    def rescale(self, factor: float) -> None:
        """Rows cost so many times as much from now on, for the engine has more or fewer cores; overhead stays.

        What was learned of the parts stays as well, but is trusted no more than to a half: cores do not always add
        up.

        Examples
        --------
        >>> model = BatchTimeModel(forgetting=0.97)
        >>> for rows in (1_000, 4_000, 16_000, 64_000):
        ...     model.update(rows, rows, 0.2 + rows * 20e-6)
        >>> model.rescale(0.5)
        >>> round(model.predict_s(100_000, 100_000), 1)
        1.2
        """
        if not self._state.batches:
            return
        self._rls.scale((1.0, factor, factor))
        overhead_s, read_s, work_s = self._rls.theta
        total_s = read_s + work_s
        self._rls.doubt((_RESCALED_DOUBT * max(overhead_s, 0.1), _RESCALED_DOUBT * total_s, _RESCALED_DOUBT * total_s))
        self._state = evolve(self._state, rls=self._rls.snapshot(), surprises=0, same_side=0)

    def snapshot(self) -> BatchTimeState:
        """The whole state, to build an equal model from."""
        return self._state

    def _plausible_s(self, read_rows: int, kept_rows: int, duration_s: float) -> float:
        if self._state.batches < _SURPRISES_TO_RELEARN:
            return duration_s
        predicted_s = self.predict_s(read_rows, kept_rows)
        deviation_s = duration_s - predicted_s
        noise = self._noise_with(min(abs(deviation_s) / predicted_s, _MOST_RELATIVE_NOISE))
        tolerance_s = _ABSOLUTE_NOISE_S + max(_SURPRISE_RATIO, _SURPRISE_DEVIATIONS * noise) * predicted_s
        side = 0 if abs(deviation_s) <= tolerance_s else (1 if deviation_s > 0 else -1)
        known = self._state.surprises
        surprises = (known + side if known * side >= 0 else side) if side else 0
        relearn = abs(surprises) >= _SURPRISES_TO_RELEARN
        off = (
            0 if abs(deviation_s) <= _ABSOLUTE_NOISE_S + _DRIFT_RATIO * predicted_s else (1 if deviation_s > 0 else -1)
        )
        same_side = (self._state.same_side + off if self._state.same_side * off >= 0 else off) if off else 0
        if relearn:
            overhead_s, read_s, work_s = self._costs()
            total_s = read_s + work_s
            parts = (max(overhead_s, _LEAST_DOUBTED * predicted_s), _READ_PER_WORK_STD * total_s, total_s)
            self._rls.doubt(tuple(_DOUBT * part for part in parts))
        self._state = evolve(self._state, relative_noise=noise, surprises=surprises, same_side=same_side)
        return duration_s if relearn or not side else predicted_s + side * tolerance_s

    def _noise_with(self, share: float) -> float:
        noise = self._state.relative_noise + _NOISE_WEIGHT * (share - self._state.relative_noise)
        return min(max(noise, _LEAST_RELATIVE_NOISE), _MOST_RELATIVE_NOISE)

    def _costs(self) -> tuple[float, float, float]:
        """Overhead, read cost and work cost; the last is never nothing, or a batch of any size would fit."""
        overhead_s, read_s, work_s = self._rls.theta
        return overhead_s, read_s, max(work_s, _NO_COST_S)
