"""Minimum accuracies that do not fit, lowered as little as is fair."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from penstock.control.allocation_problem import AllocationProblem, build_problem
from penstock.control.allocation_remedy import explain_infeasible
from penstock.model.graph import ElementGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.errors import InfeasibleError

# Lowered minima leave this much room, lest rounding call them infeasible again.
_ROOM = 1e-6


def fit_minima(graph: ElementGraph) -> tuple[ElementGraph, InfeasibleError | None]:
    r"""The graph with minima that fit, and what did not fit before; None where all did.

    From the highest priority on, every level gets the largest part of its minima that leaves those above it theirs:

    .. math:: \max \theta \le 1 \quad\text{with}\quad A x \le d, \quad x_j \ge \theta l_j \;(j \in \text{level}),
              \quad x_j \ge \theta_k l_j \;(j \in \text{level } k \text{ above})

    so nobody's minimum is given up for another of the same priority.

    Examples
    --------
    One core for two readers of 50 rows/s each, which are to take all of 40 rows/s:

    >>> from penstock.model.graph import Element, Engine, InputStream
    >>> readers = [Element(name, "east", ("s",), 50.0, weight=1.0, minimum_accuracy=1.0) for name in ("a", "b")]
    >>> graph = ElementGraph((Engine("east"),), (InputStream("s", 40.0),), tuple(readers))
    >>> fitted, error = fit_minima(graph)
    >>> [round(element.minimum_accuracy, 3) for element in fitted.elements], len(error.remedies)
    ([0.625, 0.625], 2)
    >>> fit_minima(fitted)[1] is None
    True
    """
    problem = build_problem(graph)
    asked = problem.lower > 0
    lower = np.zeros(problem.lower.size)
    parts: dict[int, float] = {}
    for level in sorted(set(problem.priorities[asked].tolist()), reverse=True):
        own = asked & (problem.priorities == level)
        parts[level] = _largest_part(problem, own, lower)
        lower[own] = parts[level] * problem.lower[own]
    if all(part >= 1.0 for part in parts.values()):
        return graph, None
    elements = tuple(
        replace(each, minimum_accuracy=each.minimum_accuracy * parts.get(each.priority, 1.0)) for each in graph.elements
    )
    return ElementGraph(graph.engines, graph.streams, elements), explain_infeasible(graph, problem)


def _largest_part(problem: AllocationProblem, own: NDArray[np.bool_], lower: NDArray[np.float64]) -> float:
    places = np.flatnonzero(own)
    count, rows = problem.upper.size, places.size
    minima = csr_array((-np.ones(rows), (np.arange(rows), places)), shape=(rows, count))
    matrix = vstack(
        [
            hstack([problem.matrix, csr_array((problem.matrix.shape[0], 1))]),
            hstack([minima, csr_array(problem.lower[places][:, np.newaxis])]),
        ],
        format="csr",
    )
    answer = linprog(
        np.append(np.zeros(count), -1.0),
        A_ub=matrix,
        b_ub=np.append(problem.limits, np.zeros(rows)),
        bounds=[*zip(np.minimum(lower, problem.upper), problem.upper, strict=True), (0.0, 1.0)],
        method="highs",
    )
    if answer.x is None:
        return 0.0
    part = float(answer.x[-1])
    return 1.0 if part >= 1.0 - _ROOM else max(0.0, part - _ROOM)
