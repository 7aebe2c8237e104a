"""CPU targets for the elements of a graph: the first tier of ACES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.allocation_certificate import shrink_to_fit, upper_bound
from penstock.control.allocation_lp import solve_linear
from penstock.control.allocation_problem import AllocationProblem, build_problem
from penstock.control.allocation_remedy import explain_infeasible
from penstock.control.utility import Utility, UtilityKind
from penstock.model.graph import ElementGraph, Inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# An allocation this close to the best is kept rather than computed anew.
KEPT_WITHIN = 1e-3
_ROUNDS = 5
_IDLE = 1e-9


@dataclass(frozen=True)
class Allocation:
    """Targets for every element, by name, and what they are worth.

    Parameters
    ----------
    cores, input_rows_per_s, output_rows_per_s
        CPU target and the average rates that it makes possible.
    utility, utility_bound
        Sum of weighted utilities, and a value that no allocation of this graph can exceed; None with several
        priorities, where the sum is not what is maximised.
    weighted_rows_per_s
        Weighted throughput, whatever the utility.
    off
        Elements that get nothing, because what they cost before the first row serves more elsewhere.
    was_kept
        Whether the allocation before it was good enough to stay.
    """

    cores: Mapping[str, float]
    input_rows_per_s: Mapping[str, float]
    output_rows_per_s: Mapping[str, float]
    utility: float
    utility_bound: float | None
    weighted_rows_per_s: float
    off: tuple[str, ...]
    was_kept: bool
    prices: NDArray[np.float64]


def allocate(
    graph: ElementGraph, utility: Utility | None = None, *, before: Allocation | None = None, use_cvxpy: bool = False
) -> Allocation:
    r"""Cores for each element such that the weighted utility of the outputs is largest.

    .. math:: \max \sum_j w_j U(r_{out,j}) \quad\text{with}\quad \sum_{j \in N_i} c_j \le C_i, \quad
              r_{in,j} \le \text{what its inputs bring}, \quad r_{in,j} = \max(0, a_j c_j - b_j)

    Eq. 3 to 6 of "Adaptive control of extreme-scale stream processing systems", for engines of several cores. Linear
    utility is a linear programme, the others go through cvxpy (``use_cvxpy`` sends the linear one there too).

    ``before`` is a warm start: where the bound from its prices shows that it is still within one in a thousand of the
    best, it is kept and no targets move. Elements that come out with no rows lose their fixed cost ``b`` and the rest
    is solved again; this is a heuristic, since ``max(0, a c - b)`` is not concave.

    Raises
    ------
    InfeasibleError
        Where minimum accuracies do not fit, with the minima to lower or the engines to grow.

    Examples
    --------
    One producer at 30 rows/s and two readers on a slow engine, the second worth twice as much:

    >>> from penstock.model.graph import Element, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("east"), Engine("west")),
    ...     (InputStream("clicks", 30.0),),
    ...     (
    ...         Element("parse", "east", ("clicks",), 100.0),
    ...         Element("count", "west", ("parse",), 40.0, weight=1.0),
    ...         Element("fraud", "west", ("parse",), 40.0, weight=2.0),
    ...     ),
    ... )
    >>> found = allocate(graph)
    >>> {name: round(cores, 3) for name, cores in found.cores.items()}
    {'parse': 0.3, 'count': 0.25, 'fraud': 0.75}
    >>> round(found.weighted_rows_per_s, 3)
    70.0
    >>> allocate(graph, before=found).was_kept
    True
    """
    utility = utility or Utility()
    names = [element.name for element in graph.elements]
    off = frozenset[int]()
    if before is not None:
        off = frozenset(index for index, name in enumerate(names) if name in before.off)
        problem = build_problem(graph, off)
        kept = _keep(graph, problem, utility, before, off)
        if kept is not None:
            return kept
        off = frozenset()
    for _ in range(_ROUNDS):
        problem = build_problem(graph, off)
        solved = _solve(problem, utility, use_cvxpy=use_cvxpy)
        if solved is None:
            raise explain_infeasible(graph, problem)
        rates, prices = solved
        idle = frozenset(
            index
            for index, element in enumerate(graph.elements)
            if element.idle_rows_per_s > 0 and rates[index] <= _IDLE * max(1.0, problem.upper[index])
        )
        if idle <= off:
            break
        off |= idle
    return _describe(graph, problem, utility, _trim(graph, problem, rates), prices, off)


def _solve(
    problem: AllocationProblem, utility: Utility, *, use_cvxpy: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    if utility.kind is UtilityKind.LINEAR and not use_cvxpy:
        return solve_linear(problem, utility)
    # cvxpy takes a second to import, which a graph with linear utility need not wait for.
    from penstock.control.allocation_convex import solve_concave  # noqa: PLC0415 - see above

    return solve_concave(problem, utility)


def _keep(
    graph: ElementGraph, problem: AllocationProblem, utility: Utility, before: Allocation, off: frozenset[int]
) -> Allocation | None:
    names = [element.name for element in graph.elements]
    several_levels = len(set(problem.priorities[problem.weights > 0].tolist())) > 1
    if several_levels or before.prices.size != problem.limits.size or set(before.cores) != set(names):
        return None
    rates = shrink_to_fit(graph, problem, np.array([before.input_rows_per_s[name] for name in names]))
    if rates is None:
        return None
    bound = upper_bound(problem, utility, before.prices)
    value = float(np.sum(problem.weights * utility.of(problem.selectivity * rates)))
    if bound - value > KEPT_WITHIN * abs(bound):
        return None
    return _describe(graph, problem, utility, rates, before.prices, off, was_kept=True)


def _trim(graph: ElementGraph, problem: AllocationProblem, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cut what nobody reads: a solver is free to let an element produce more than all of its readers take."""
    trimmed = rates.copy()
    outputs = problem.selectivity * rates
    needed = np.zeros(rates.size)
    for index in reversed(graph.order):
        element = graph.elements[index]
        if element.weight is None:
            trimmed[index] = min(rates[index], max(problem.lower[index], needed[index] / element.selectivity))
        feeders = graph.feeders[index]
        brought = sum(outputs[feeder] for feeder in feeders) + sum(graph.stream_rows_per_s[index])
        for place, feeder in enumerate(feeders):
            if element.inputs is Inputs.PROPORTIONAL:
                # What waits and what comes from outside is taken in beside what feeders bring.
                outside = element.waiting_rows_per_s + sum(graph.stream_rows_per_s[index])
                rows = (trimmed[index] - outside) * graph.feeder_parts[index][place]
            elif element.inputs is Inputs.JOIN:
                rows = trimmed[index] - element.waiting_rows_per_s
            else:
                rows = trimmed[index] * outputs[feeder] / max(brought + element.waiting_rows_per_s, _IDLE)
            needed[feeder] = max(needed[feeder], rows)
    return trimmed


def _describe(
    graph: ElementGraph,
    problem: AllocationProblem,
    utility: Utility,
    rates: NDArray[np.float64],
    prices: NDArray[np.float64],
    off: frozenset[int],
    *,
    was_kept: bool = False,
) -> Allocation:
    outputs = problem.selectivity * rates
    several_levels = len(set(problem.priorities[problem.weights > 0].tolist())) > 1
    elements = graph.elements
    return Allocation(
        cores={
            element.name: 0.0
            if index in off
            else float((rates[index] + element.idle_rows_per_s) / element.rows_per_core_s)
            for index, element in enumerate(elements)
        },
        input_rows_per_s={element.name: float(rate) for element, rate in zip(elements, rates, strict=True)},
        output_rows_per_s={element.name: float(rate) for element, rate in zip(elements, outputs, strict=True)},
        utility=float(np.sum(problem.weights * utility.of(outputs))),
        utility_bound=None if several_levels else upper_bound(problem, utility, prices),
        weighted_rows_per_s=float(np.sum(problem.weights * outputs)),
        off=tuple(elements[index].name for index in sorted(off)),
        was_kept=was_kept,
        prices=prices,
    )
