"""Micro-batches on a changing number of executors, in virtual time.

One compiled loop runs from one decision to the next. Batches are events; arrivals are known as a cumulative count on a
grid of seconds. A batch takes the rows that have arrived (no more than fit into half of the latency goal) and lasts

    overhead + rows / (executors * rows_per_s),

times a little noise. No more executors work than there are partitions, and rows may become cheaper or more expensive
with time. Executors that become ready serve from the next batch on; those that go are gone at the next batch. A row
is late if it is not done within the goal after its arrival; it is counted in the second in which it was due, so that a
query which does nothing at all is late, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.estimate.compiled import compiled
from penstock.model.scaling import ScalingSignal
from penstock.sim.reports import Reports

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.sim.calibration import Calibration

    FloatArray = NDArray[np.float64]

_MOST_PENDING = 1_024
_NOISE_LENGTH = 8_192
_MOST_REPORTS = 4_096

# Places in the state of the loop.
_NOW, _SERVING, _TAKEN, _DONE, _BATCH_END, _BATCH_START, _BATCH_ROWS, _NEXT_TRIGGER, _BATCHES, _PAUSED, _LAG = range(11)
_STATE_SIZE = 11
# Places in what a stretch of time gives.
ARRIVED, PROCESSED, BUSY_S, QUEUE_ROWS_S, LATE, DUE, BATCH_COUNT, BATCH_SUM_S, PAID_S, BATCH_ROWS = range(10)
_SUMS_SIZE = 10


@compiled
def _arrived(cumulative: FloatArray, time_s: float) -> float:
    if time_s <= 0.0:
        return 0.0
    second = int(time_s)
    last = cumulative.size - 1
    if second >= last:
        return float(cumulative[last])
    return float(cumulative[second] + (time_s - second) * (cumulative[second + 1] - cumulative[second]))


@compiled
def _advance(  # noqa: C901, PLR0915 - one loop over events; compiled calls between its parts would double its time
    state: FloatArray,
    pending: FloatArray,
    cumulative: FloatArray,
    noise: FloatArray,
    speeds: FloatArray,
    numbers: FloatArray,
    reports: FloatArray,
    until_s: float,
) -> FloatArray:
    """Run until a moment; changes ``state``, ``pending`` and ``reports`` and gives sums over the stretch."""
    start_overhead, rate, trigger, goal, partitions = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    sums = np.zeros(_SUMS_SIZE)
    while state[_NOW] < until_s:
        now = state[_NOW]
        stop = min(until_s, float(int(now) + 1))
        # 1. executors that are ready by now
        for place in range(pending.size):
            if 0.0 <= pending[place] <= now:
                pending[place] = -1.0
                state[_SERVING] += 1.0
        # 2. a batch that ends, or begins, before the second is over
        if state[_BATCH_END] >= 0.0 and state[_BATCH_END] <= now:
            state[_DONE] = state[_TAKEN]
            place = int(sums[BATCH_COUNT])
            reports[place, 0] = state[_BATCH_START]
            reports[place, 1] = state[_BATCH_END]
            reports[place, 2] = state[_BATCH_ROWS]
            reports[place, 3] = state[_LAG]
            sums[BATCH_ROWS] += state[_BATCH_ROWS]
            sums[BATCH_COUNT] += 1.0
            sums[BATCH_SUM_S] += state[_BATCH_END] - state[_BATCH_START]
            state[_BATCH_END] = -1.0
        if state[_BATCH_END] < 0.0:
            begin = max(state[_NEXT_TRIGGER], state[_PAUSED])
            if begin <= now:
                waiting = _arrived(cumulative, now) - state[_TAKEN]
                work = min(state[_SERVING], partitions) * rate * speeds[min(int(now), speeds.size - 1)]
                rows = min(waiting, max(0.0, goal / 2.0 - start_overhead) * work)
                state[_BATCHES] += 1.0
                factor = noise[int(state[_BATCHES]) % noise.size]
                state[_BATCH_START] = now
                state[_BATCH_ROWS] = rows
                state[_BATCH_END] = now + factor * (start_overhead + rows / work)
                state[_TAKEN] += rows
                state[_LAG] = waiting - rows
                # A trigger that was missed is made up for at once; the next ones are on the grid again.
                state[_NEXT_TRIGGER] = (int(now / trigger) + 1) * trigger if trigger > 0.0 else now
            elif begin < stop:
                stop = begin
        if state[_BATCH_END] >= 0.0 and state[_BATCH_END] < stop:
            stop = state[_BATCH_END]
        # 3. what happens from now to the stop
        span = stop - now
        if state[_BATCH_END] >= 0.0:
            sums[BUSY_S] += span
            length = state[_BATCH_END] - state[_BATCH_START]
            sums[PROCESSED] += state[_BATCH_ROWS] * span / length
        middle = _arrived(cumulative, now + span / 2.0)
        sums[QUEUE_ROWS_S] += (middle - state[_DONE]) * span
        due_before, due_after = _arrived(cumulative, now - goal), _arrived(cumulative, stop - goal)
        sums[DUE] += due_after - due_before
        sums[LATE] += max(0.0, due_after - max(state[_DONE], due_before))
        starting = 0
        for place in range(pending.size):
            if pending[place] >= 0.0:
                starting += 1
        sums[PAID_S] += (state[_SERVING] + starting) * span
        sums[ARRIVED] += _arrived(cumulative, stop) - _arrived(cumulative, now)
        state[_NOW] = stop
    return sums


@dataclass(frozen=True, slots=True)
class Sample:
    """One stretch of simulated time: what a scaler sees of it, and what it does not.

    ``signal`` is exact; ``reported`` is what the reports of finished batches tell by then, as a live scaler sees it.
    """

    signal: ScalingSignal
    reported: ScalingSignal
    late_rows: float
    due_rows: float
    paid_executor_s: float

    @property
    def late_share(self) -> float:
        """Share of the rows due in the sample that were late."""
        return self.late_rows / self.due_rows if self.due_rows > 0 else 0.0


class ExecutorPlant:
    """A query on executors that can be asked for and sent away.

    Parameters
    ----------
    rates
        Rows that arrive in each second, shed rows included.
    calibration
        The engine.
    executors
        How many serve at the start.
    seed
        Of the noise of batch times.
    speeds
        Factor of what an executor does, second by second; the last one holds. Rows that become more expensive are a
        factor below one.

    Examples
    --------
    >>> from penstock.sim.calibration import Calibration
    >>> plant = ExecutorPlant(np.full(600, 1_500.0), Calibration(noise=0.0), executors=1)
    >>> overloaded = plant.run(60.0)
    >>> round(overloaded.signal.busy_share, 2), round(overloaded.late_share, 2)
    (0.93, 0.09)
    >>> plant.ask_for(3)
    >>> plant.run(200.0).signal.executors, round(plant.run(400.0).late_share, 2)
    (3, 0.0)
    """

    def __init__(
        self,
        rates: FloatArray,
        calibration: Calibration,
        *,
        executors: int = 1,
        seed: int = 0,
        speeds: FloatArray | None = None,
    ) -> None:
        self.calibration = calibration
        self._cumulative = np.concatenate(([0.0], np.cumsum(rates)))
        self._numbers = np.array(
            [
                calibration.overhead_s,
                calibration.rows_per_s,
                calibration.trigger_s,
                calibration.goal_s,
                calibration.partitions or np.inf,
            ]
        )
        self._speeds = np.ones(1) if speeds is None else np.asarray(speeds, dtype=np.float64)
        self._batches = np.zeros((_MOST_REPORTS, 4))
        self._reports = Reports(calibration.goal_s)
        self._first_ready_s = float("inf")
        self.finished: list[list[float]] = []
        """Batches that ended in the last stretch: start, end, rows, and rows left waiting."""
        draws = np.random.default_rng(seed).normal(0.0, calibration.noise, _NOISE_LENGTH)
        self._noise = np.exp(draws)
        self._pending = np.full(64, -1.0)
        self._state = np.zeros(_STATE_SIZE)
        self._state[_SERVING] = executors
        self._state[_BATCH_END] = -1.0

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return float(self._state[_NOW])

    @property
    def duration_s(self) -> float:
        """Where the arrivals end."""
        return float(self._cumulative.size - 1)

    @property
    def serving(self) -> int:
        """Executors that serve."""
        return int(self._state[_SERVING])

    @property
    def requested(self) -> int:
        """Executors that serve or start."""
        return self.serving + int(np.count_nonzero(self._pending >= 0.0))

    def ask_for(self, executors: int) -> None:
        """Change the number of executors, as a cluster manager does: new ones start, surplus ones go.

        Those that are still starting go first, the youngest of them before the older ones.
        """
        if executors < 1:
            raise ValueError(f"{executors} executors cannot run a query: ask for at least one")
        missing = executors - self.requested
        if missing == 0:
            return
        if missing > 0:
            self._start(missing)
        else:
            self._remove(-missing)
        if self.calibration.pause_s > 0:
            self._state[_PAUSED] = max(self._state[_PAUSED], self.now_s + self.calibration.pause_s)

    def run(self, until_s: float) -> Sample:
        """Go on until a moment and tell what was seen."""
        span_s = until_s - self.now_s
        began_s = self.now_s
        sums = _advance(
            self._state,
            self._pending,
            self._cumulative,
            self._noise,
            self._speeds,
            self._numbers,
            self._batches,
            until_s,
        )
        demand = sums[ARRIVED] / span_s
        backlog = _arrived(self._cumulative, until_s) - self._state[_DONE]
        queue = sums[QUEUE_ROWS_S] / span_s
        signal = ScalingSignal(
            time_s=until_s,
            executors=self.serving,
            requested=self.requested,
            demand_rows_per_s=float(demand),
            age_s=span_s / 2.0,
            processed_rows_per_s=float(sums[PROCESSED] / span_s),
            busy_share=float(sums[BUSY_S] / span_s),
            backlog_rows=float(max(0.0, backlog)),
            backlog_ratio=_backlog_ratio(queue, demand, self.calibration.goal_s),
            batch_s=float(sums[BATCH_SUM_S] / sums[BATCH_COUNT]) if sums[BATCH_COUNT] else None,
            trigger_s=self.calibration.trigger_s or None,
            batch_rows=float(sums[BATCH_ROWS] / sums[BATCH_COUNT]) if sums[BATCH_COUNT] else None,
            goal_s=self.calibration.goal_s,
            start_s=self.calibration.start_s if until_s >= self._first_ready_s else None,
            useful_executors=self.calibration.partitions or None,
        )
        self.finished = self._batches[: int(sums[BATCH_COUNT])].tolist()
        reported = self._reports.sample(self.finished, began_s, signal)
        return Sample(signal, reported, float(sums[LATE]), float(sums[DUE]), float(sums[PAID_S]))

    def _start(self, count: int) -> None:
        free = np.flatnonzero(self._pending < 0.0)
        if free.size < count:
            if self._pending.size + count > _MOST_PENDING:
                raise ValueError(f"{count} more executors are too many to start at once")
            self._pending = np.concatenate((self._pending, np.full(count, -1.0)))
            free = np.flatnonzero(self._pending < 0.0)
        self._pending[free[:count]] = self.now_s + self.calibration.start_s
        self._first_ready_s = min(self._first_ready_s, self.now_s + self.calibration.start_s)

    def _remove(self, count: int) -> None:
        starting = np.flatnonzero(self._pending >= 0.0)
        youngest = starting[np.argsort(-self._pending[starting], kind="stable")][:count]
        self._pending[youngest] = -1.0
        self._state[_SERVING] -= count - youngest.size


def _backlog_ratio(queue_rows: float, demand_rows_per_s: float, goal_s: float) -> float:
    # Where nothing arrives but rows wait, the query is as far behind as can be told.
    if demand_rows_per_s <= 0:
        return 1.0 if queue_rows > 0 else 0.0
    return float(max(0.0, queue_rows) / (demand_rows_per_s * goal_s))
