"""Tier one with linear utility: a sparse linear programme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.control.allocation_problem import AllocationProblem
    from penstock.control.utility import Utility

# A level of priority keeps all but this part of its value when the next one is served.
LEVEL_TOLERANCE = 1e-6


def solve_linear(
    problem: AllocationProblem, utility: Utility
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    r"""Rates and prices of :math:`\max \sum_j w_j m_j x_j` subject to the problem's constraints, by HiGHS.

    Priorities are served one after the other, from the highest: what a level has reached becomes a constraint of the
    next, :math:`\sum_{j \in level} w_j m_j x_j \ge (1 - 10^{-6}) v_{level}`. The prices are of the last one solved.
    None where the minima do not fit.

    Examples
    --------
    Two elements of weights 1 and 3 share a core, and the second can use 30 rows/s at most:

    >>> from penstock.control.allocation_problem import build_problem
    >>> from penstock.control.utility import Utility
    >>> from penstock.model.graph import Element, ElementGraph, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("e"),),
    ...     (InputStream("s", 80.0), InputStream("t", 30.0)),
    ...     (Element("a", "e", ("s",), 100.0, weight=1.0), Element("b", "e", ("t",), 50.0, weight=3.0)),
    ... )
    >>> rates, _ = solve_linear(build_problem(graph), Utility())
    >>> [round(float(rate), 6) for rate in rates]
    [40.0, 30.0]
    """
    gains = problem.weights * problem.selectivity / utility.scale_rows_per_s
    matrix, limits = problem.matrix, problem.limits
    rates = prices = None
    if np.any(problem.lower > problem.upper):
        return None
    bounds = np.column_stack([problem.lower, problem.upper])
    for level in sorted(set(problem.priorities[problem.weights > 0].tolist()), reverse=True):
        own = np.where(problem.priorities == level, gains, 0.0)
        answer = linprog(-own, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
        if answer.x is None:
            return None
        rates, prices = answer.x, -answer.ineqlin.marginals
        matrix = vstack([matrix, csr_array(-own[np.newaxis, :])], format="csr")
        limits = np.append(limits, -float(own @ rates) * (1.0 - LEVEL_TOLERANCE))
    assert rates is not None
    assert prices is not None
    return rates, prices[: problem.limits.size]
