r"""Which rows an operator runs, given the part of the work that fits.

All strategies take the same number: :math:`f`, the part of the *work* of the offered rows that there is time for. What
differs is who pays. With :math:`c_i` the learned cost of a row and :math:`u_i` what it is worth:

- ``uniform``: every row stays with probability :math:`f`.
- ``economic``: :math:`p_i = \min(1, s\,u_i / \sqrt{c_i})`, with :math:`s` such that the expected work is what fits,
  :math:`\sum p_i c_i = f \sum c_i`. For the same work the variance of a weighted sum is smallest.
- ``semantic``: the same law; the utility is not optional.
- ``las``: the queue shedder of the load-aware shedding paper (:class:`~penstock.control.shedding.las.LoadAware`). A
  partition has all its rows at once, and a queue that began full would keep the first rows and drop the rest. So rows
  are taken to arrive evenly over the time that they may use, row :math:`i` of :math:`n` at :math:`(i / n) f \sum c`,
  and a row goes when the estimated queue before it is longer than one hundredth of that time, or one mean row. Their
  order is that of their draws and not of the source: whether a row goes then depends on neither its cost nor its place,
  and every kept row has the weight offered over kept. In the source's order the floor kept every twentieth row of a
  topic that twenty regions write in turn: all of one region.

Rows that are too old to be out in time go first: they stay with the keep floor, or an eighth of the ratio where that is
more, and the strategy decides on all others.

Until costs are known all rows cost the same, and every strategy but ``semantic`` is ``uniform``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.control.shedding import Constraint, Decision, LoadAware, Rows
from penstock.estimate.compiled import compiled
from penstock.estimate.hashing import draw_hashes
from penstock.estimate.sketch import CostSketch
from penstock.model.directive import LATE_PART, SMALLEST_RATIO

if TYPE_CHECKING:
    from numpy.typing import NDArray

STRATEGIES = ("uniform", "economic", "semantic", "las")
SKETCH_ROWS, SKETCH_COLUMNS = 4, 256
SMALLEST_PROBABILITY = 0.01
"""No row is left without a chance, and no weight exceeds one hundred times that of a row that is always kept."""

_HASH_SEED = 20_016
_PRIOR_ROWS = 0.1
_QUEUE_PART = 0.01
_HALVINGS = 40
_DOUBLINGS = 64
_ROUNDING = 1e-9


def empty_sketch() -> CostSketch:
    """A sketch whose hash functions are the same in every process, today and after a restart."""
    return CostSketch(draw_hashes(np.random.default_rng(_HASH_SEED), SKETCH_ROWS), SKETCH_COLUMNS)


@compiled
def clipped_sum(worth: NDArray[np.float64], amounts: NDArray[np.float64], scale: float, smallest: float) -> float:
    """Sum of ``amounts``, each times its probability at a scale."""
    total = 0.0
    for index in range(worth.size):
        total += amounts[index] * min(1.0, max(smallest, scale * worth[index]))
    return total


@compiled
def scale_for(worth: NDArray[np.float64], amounts: NDArray[np.float64], target: float, smallest: float) -> float:
    """The smallest scale at which :func:`clipped_sum` reaches the target, by bisection."""
    high = 1.0
    for _ in range(_DOUBLINGS):
        if clipped_sum(worth, amounts, high, smallest) >= target:
            break
        high *= 2.0
    low = 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if clipped_sum(worth, amounts, middle, smallest) >= target:
            high = middle
        else:
            low = middle
    return high


def economic_probabilities(
    costs_s: NDArray[np.float64], utility: NDArray[np.float64], *, keep_ratio: float, keep_floor: float = 0.0
) -> NDArray[np.float64]:
    """Probabilities by utility and cost whose expected work is the keep ratio times all work.

    The expected part of the rows is never below the keep floor: where useful rows are dear, more work is kept.

    Examples
    --------
    Half of the work of rows of 1 and 9 ms: 72 % of the rows stay.

    >>> costs = np.tile([0.001, 0.009], 2)
    >>> probabilities = economic_probabilities(costs, np.ones(4), keep_ratio=0.5)
    >>> probabilities.round(3).tolist(), round(float(costs @ probabilities / costs.sum()), 3)
    ([1.0, 0.444, 1.0, 0.444], 0.5)
    >>> economic_probabilities(np.ones(4), np.array([1.0, 1.0, 3.0, 0.0]), keep_ratio=0.5).round(2).tolist()
    [0.49, 0.49, 1.0, 0.01]
    """
    # Costs and utilities of any size become numbers about one, so that the bisection begins near its goal.
    costs = costs_s / costs_s.mean()
    largest = utility.max()
    worth = (utility / largest if largest > 0 else np.ones(utility.size)) / np.sqrt(costs)
    smallest = min(SMALLEST_PROBABILITY, keep_ratio)
    scale = scale_for(worth, costs, keep_ratio * costs.sum() * (1.0 - _ROUNDING), smallest)
    rows_target = keep_floor * costs.size * (1.0 - _ROUNDING)
    if clipped_sum(worth, np.ones(costs.size), scale, smallest) < rows_target:
        scale = scale_for(worth, np.ones(costs.size), rows_target, smallest)
    return np.asarray(np.clip(scale * worth, smallest, 1.0))


def decide(
    strategy: str,
    rows: Rows,
    sketch: CostSketch | None,
    *,
    keep_ratio: float,
    keep_floor: float = 0.0,
    late: NDArray[np.bool_] | None = None,
) -> Decision:
    """Decide on the rows of one Arrow batch; their costs must be filled in where the strategy asks for them.

    While rows must go, late ones stay with the keep floor; the strategy decides on all others.
    """
    count = rows.keys.size
    if late is None or not late.any():
        return _on_time(strategy, rows, sketch, keep_ratio, keep_floor)
    least = max(keep_floor, LATE_PART * keep_ratio, SMALLEST_RATIO)
    keep, probability = rows.uniforms < least, np.full(count, least)
    decision = _on_time(strategy, _chosen(rows, ~late), sketch, keep_ratio, keep_floor)
    keep[~late], probability[~late] = decision.keep, decision.probability
    return Decision(keep, probability, drawn=decision.drawn)


def _on_time(strategy: str, rows: Rows, sketch: CostSketch | None, keep_ratio: float, keep_floor: float) -> Decision:
    count = rows.keys.size
    if count == 0 or keep_ratio >= 1.0:
        return Decision(np.ones(count, np.bool_), np.ones(count), drawn=True)
    if strategy == "las" and sketch is not None:
        return _by_queue(rows, sketch, keep_ratio, keep_floor)
    if strategy in ("economic", "semantic"):
        utility = np.ones(count) if rows.utility is None else rows.utility
        costs_s = rows.required("costs_s", strategy)
        probability = economic_probabilities(costs_s, utility, keep_ratio=keep_ratio, keep_floor=keep_floor)
    else:
        probability = np.full(count, keep_ratio)
    return Decision(rows.uniforms < probability, probability, drawn=True)


def _chosen(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    columns = {name: getattr(rows, name) for name in ("costs_s", "utility", "age_s")}
    parts = {name: None if column is None else column[chosen] for name, column in columns.items()}
    return Rows(rows.keys[chosen], rows.arrival_s[chosen], rows.uniforms[chosen], **parts)


def _by_queue(rows: Rows, sketch: CostSketch, keep_ratio: float, keep_floor: float) -> Decision:
    epsilon = np.e / SKETCH_COLUMNS
    costs_s = (1.0 + epsilon) * rows.required("costs_s", "las")
    budget_s = keep_ratio * float(costs_s.sum())
    shedder = LoadAware(
        max(_QUEUE_PART * budget_s, float(costs_s.mean())),
        hashes=sketch.hashes,
        epsilon=epsilon,
        prior_rows=_PRIOR_ROWS,
        constraint=Constraint.ABSOLUTE,
        minimum_accuracy=keep_floor,
    )
    shedder.learn(sketch.cells)
    arrival_s = np.linspace(0.0, budget_s, costs_s.size, endpoint=False)
    order = np.argsort(rows.uniforms, kind="stable")
    decision = shedder.decide(Rows(rows.keys[order], arrival_s, rows.uniforms[order]))
    keep = np.empty(costs_s.size, np.bool_)
    keep[order] = decision.keep
    return Decision(keep, decision.probability, drawn=False)


def costs_of(keys: NDArray[np.uint64], sketch: CostSketch | None) -> NDArray[np.float64]:
    """Learned costs of rows in seconds; ones before anything is learned.

    Examples
    --------
    >>> costs_of(np.array([1, 2], np.uint64), None).tolist()
    [1.0, 1.0]
    """
    if sketch is None:
        return np.ones(keys.size)
    return np.maximum(sketch.costs_s(keys, prior_rows=_PRIOR_ROWS), 1e-9)
