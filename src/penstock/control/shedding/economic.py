"""Economic shedding: dear rows go first, by lot, and the survivors carry weights that keep every sum unbiased.

When rows differ in cost, dropping the dear ones frees more time for each row lost. A row of utility ``u`` stays with

    p = min(1, s * u / sqrt(x)),    never below a small floor,

the law that makes the variance of a weighted sum (Horvitz and Thompson, weights ``1 / p``) smallest for the time spent.
What a row costs others is the growth it brings to the squared queue,

    x = max(q + c - g, 0)**2 - max(q - g, 0)**2

with ``q`` the present wait, ``c`` the row's execution time and ``g`` the time to the next arrival. In a long queue that
is proportional to ``c``, so ``p`` goes with ``u / sqrt(c)``; in a short one a row that is done before the next arrives
costs nobody anything and is free. (It is the drift of a quadratic Lyapunov function; the law is drift plus penalty.)

``s`` follows the load and the promise: ``s = min(1, g / c_mean) * sqrt(theta * x_mean)``, where ``x_mean`` is the price
of an average row at a wait of tau, and ``theta`` rises while kept rows wait less than tau and falls while they wait
longer. All of it is known before the row's number is looked at, which is what keeps the weights unbiased.

``thrift`` (k) trades variance for fewer drops: minimising ``1 / p + k * (1 - p) + p * x / s**2`` over p gives
``p = u / sqrt(x / s**2 - k * u**2)``; 0 is the plain square-root law.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from penstock.control.shedding.accuracy import KEPT, OFFERED, count_row, must_keep
from penstock.control.shedding.base import Decision, Rows, Shedder, Snapshot
from penstock.errors import InvalidSettingError
from penstock.estimate.compiled import compiled
from penstock.estimate.sketch import CostSketch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.estimate.sketch_state import SyncReply

BUSY_UNTIL, THETA, GAP, MEAN_COST, MEAN_SQUARE_UTILITY, LAST_ARRIVAL, MEASURED = 2, 3, 4, 5, 6, 7, 8
ECONOMIC_STATE_SIZE = 9

FIRST_THETA, SMALLEST_THETA, LARGEST_THETA = 0.5, 1.0 / 64.0, 16.0
"""Theta starts on the safe side of tau; its bounds keep a long quiet or busy spell from winding it up."""

LARGEST_DEFICIT, LARGEST_GAIN = 8.0, 0.1
"""No single wait counts as more than so many times tau too long; with the largest gain theta stays above zero."""

AVERAGING_ROWS = 1024.0
"""Rows over which gap, cost and utility are averaged."""
ARRIVAL_SHARE = 1.0 / AVERAGING_ROWS


@compiled
def delay_price(wait: float, cost: float, gap: float) -> float:
    """Growth of the squared queue by a row, compared with not letting it in."""
    after = max(wait + cost - gap, 0.0)
    without = max(wait - gap, 0.0)
    return after * after - without * without


@compiled
def see_arrival(arrival: float, cost: float, utility: float, state: NDArray[np.float64]) -> None:
    """Take an offered row into the averages of gap, cost and squared utility."""
    seen = state[OFFERED]
    share = ARRIVAL_SHARE if seen >= AVERAGING_ROWS else 1.0 / (seen + 1.0)
    gap_share = ARRIVAL_SHARE if seen >= AVERAGING_ROWS else 1.0 / max(seen, 1.0)
    gap = max(arrival - state[LAST_ARRIVAL], 0.0)
    state[GAP] += gap_share * (gap - state[GAP]) if seen > 0.0 else 0.0
    state[MEAN_COST] += share * (cost - state[MEAN_COST])
    state[MEAN_SQUARE_UTILITY] += share * (utility * utility - state[MEAN_SQUARE_UTILITY])
    state[LAST_ARRIVAL] = arrival


@compiled
def keep_probability(
    wait: float,
    cost: float,
    utility: float,
    threshold: float,
    thrift: float,
    smallest: float,
    state: NDArray[np.float64],
) -> float:
    """Probability with which a row stays, from what is known before its number is looked at."""
    gap, mean = state[GAP], state[MEAN_COST]
    fits = min(gap, mean)
    # s**2 * u**2 and x, both times c_mean**2 * u_mean**2: one division a row instead of four.
    worth = state[THETA] * delay_price(threshold, mean, gap) * fits * fits * utility * utility
    price = delay_price(wait, cost, gap) * mean * mean * state[MEAN_SQUARE_UTILITY]
    if price <= 0.0 or price <= worth * (1.0 + thrift):
        return 1.0
    return max(smallest, math.sqrt(worth / (price - thrift * worth)))


@compiled
def learn_wait(wait: float, threshold: float, gain: float, state: NDArray[np.float64]) -> None:
    """Raise theta after a wait below tau, lower it after one above."""
    surplus = max((threshold - wait) / threshold, -LARGEST_DEFICIT)
    theta = state[THETA] * (1.0 + gain * surplus)
    state[THETA] = min(max(theta, SMALLEST_THETA), LARGEST_THETA)


@compiled
def learn_waits(waits: NDArray[np.float64], threshold: float, gain: float, state: NDArray[np.float64]) -> None:
    """Take in measured waits; from then on the estimated ones no longer move theta."""
    state[MEASURED] = 1.0
    for wait in waits:
        learn_wait(wait, threshold, gain, state)


@compiled
def economic_row(
    arrival: float,
    cost: float,
    utility: float,
    uniform: float,
    threshold: float,
    thrift: float,
    gain: float,
    smallest: float,
    minimum: float,
    state: NDArray[np.float64],
) -> float:
    """Decide on one row: gives its probability, negative if the row is dropped."""
    see_arrival(arrival, cost, utility, state)
    wait = max(state[BUSY_UNTIL] - arrival, 0.0)
    probability = keep_probability(wait, cost, utility, threshold, thrift, smallest, state)
    if must_keep(state, minimum):
        probability = 1.0
    keep = uniform < probability
    state[BUSY_UNTIL] = max(state[BUSY_UNTIL], arrival) + cost if keep else state[BUSY_UNTIL]
    learn_wait(wait, threshold, gain if keep and state[MEASURED] == 0.0 else 0.0, state)
    count_row(state, keep)
    return probability if keep else -probability


@compiled
def economic_rows(
    arrivals: NDArray[np.float64],
    costs: NDArray[np.float64],
    utilities: NDArray[np.float64],
    uniforms: NDArray[np.float64],
    threshold: float,
    thrift: float,
    gain: float,
    smallest: float,
    minimum: float,
    state: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Decide on many rows."""
    keep = np.empty(arrivals.size, np.bool_)
    probability = np.empty(arrivals.size)
    for index in range(arrivals.size):
        signed = economic_row(
            arrivals[index], costs[index], utilities[index], uniforms[index],
            threshold, thrift, gain, smallest, minimum, state,
        )  # fmt: skip
        keep[index] = signed > 0.0
        probability[index] = abs(signed)
    return keep, probability


class Economic(Shedder):
    """Keeps the mean wait at tau by dropping dear rows first, by lot.

    Parameters
    ----------
    threshold_s
        ``tau``: the mean wait that is promised; above zero.
    hashes, columns
        The operator's sketch. Until it has sent one, every row stays.
    exact_costs
        Take the costs that come with the rows instead of learned ones.
    thrift
        How much a lost row counts beside the variance of weighted sums; 0 minimises the variance alone.
    gain
        How much of its relative error theta makes good with every kept row.
    smallest_probability
        Floor under every probability: no weight exceeds its inverse.
    prior_rows
        Rows of mean cost that every cell of the sketch starts with.

    Examples
    --------
    Rows of 1 and 9 ms in turn, one every 4 ms: the cheap ones stay, the dear ones pay.

    >>> costs = np.tile([0.001, 0.009], 2000)
    >>> numbers = np.random.default_rng(5).random(4000)
    >>> rows = Rows(np.zeros(4000, np.uint64), 0.004 * np.arange(4000), numbers, costs_s=costs)
    >>> decision = Economic(0.010, exact_costs=True).decide(rows)
    >>> [round(float(decision.keep[start::2].mean()), 2) for start in (0, 1)]
    [1.0, 0.78]
    >>> round(float(decision.weights.sum()))
    4028
    """

    name: ClassVar[str] = "economic"

    def __init__(
        self,
        threshold_s: float,
        *,
        hashes: NDArray[np.uint64] | None = None,
        columns: int = 55,
        exact_costs: bool = False,
        thrift: float = 0.75,
        gain: float = 0.005,
        smallest_probability: float = 0.01,
        prior_rows: float = 0.1,
        minimum_accuracy: float = 0.0,
    ) -> None:
        if not threshold_s > 0:
            raise InvalidSettingError("threshold", threshold_s, "seconds above zero; to allow no wait at all use las")
        if not 0 <= gain <= LARGEST_GAIN:
            raise InvalidSettingError("gain", gain, f"a share from 0 to {LARGEST_GAIN}")
        if not 0 < smallest_probability <= 1:
            raise InvalidSettingError("smallest probability", smallest_probability, "above 0 and up to 1")
        if not exact_costs and hashes is None:
            raise InvalidSettingError("hashes", None, "the operator's hash functions, or exact_costs=True")
        super().__init__(minimum_accuracy=minimum_accuracy, state_size=ECONOMIC_STATE_SIZE)
        self.threshold_s = threshold_s
        self.thrift = thrift
        self.gain = gain
        self.smallest_probability = smallest_probability
        self.prior_rows = prior_rows
        self._state[THETA] = FIRST_THETA
        self._sketch = None if exact_costs or hashes is None else CostSketch(hashes, columns)
        self._ready = exact_costs

    def decide(self, rows: Rows) -> Decision:
        """Draw for each row with the probability that its price leaves it."""
        if not self._ready:
            return self._keep_all(rows)
        keep, probability = economic_rows(
            rows.arrival_s, self._costs_s(rows), self.utilities(rows), rows.uniforms, self.threshold_s, self.thrift,
            self.gain, self.smallest_probability, self.minimum_accuracy, self._state,
        )  # fmt: skip
        return Decision(keep=keep, probability=probability, drawn=True)

    def utilities(self, rows: Rows) -> NDArray[np.float64]:
        """Give what each row is worth: here all the same."""
        return np.ones(rows.keys.size)

    def learn(self, cells: NDArray[np.float64]) -> None:
        """Take the operator's sketch in place of the one in use."""
        if self._sketch is not None:
            self._sketch.cells = cells.copy()
            self._ready = True

    def correct(self, reply: SyncReply) -> None:
        """Move the moment at which the operator will be done by what it was off."""
        self._state[BUSY_UNTIL] += reply.late_s

    def observe_waits(self, waits_s: NDArray[np.float64]) -> None:
        """Take the waits that kept rows really had; without them the estimated ones stand in."""
        learn_waits(waits_s, self.threshold_s, self.gain, self._state)

    def _costs_s(self, rows: Rows) -> NDArray[np.float64]:
        if self._sketch is None:
            return rows.required("costs_s", self.name)
        return self._sketch.costs_s(rows.keys, prior_rows=self.prior_rows)

    def _keep_all(self, rows: Rows) -> Decision:
        self._state[OFFERED] += rows.keys.size
        self._state[KEPT] += rows.keys.size
        return Decision(np.ones(rows.keys.size, np.bool_), np.ones(rows.keys.size), drawn=True)

    def snapshot(self) -> Snapshot:
        """Give state and sketch."""
        parts = {"ready": np.array([float(self._ready)])}
        if self._sketch is not None:
            parts["cells"] = self._sketch.cells.copy()
        return {**super().snapshot(), **parts}

    def restore(self, snapshot: Snapshot) -> None:
        """Decide on from a snapshot."""
        super().restore(snapshot)
        self._ready = bool(snapshot["ready"][0])
        if self._sketch is not None:
            self._sketch.cells = snapshot["cells"].copy()
