"""How far an allocation can be from the best: a bound that needs no solver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.model.graph import ElementGraph, Inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.control.allocation_problem import AllocationProblem
    from penstock.control.utility import Utility


def upper_bound(problem: AllocationProblem, utility: Utility, prices: NDArray[np.float64]) -> float:
    r"""A value that no allocation can exceed, from any prices :math:`\lambda \ge 0` of the constraints.

    The Lagrangian's maximum falls apart into one small problem for each element, solved in closed form:

    .. math:: \bar v(\lambda) = \lambda^T d + \sum_j \max_{l_j \le x_j \le u_j}
              \big[ w_j U(m_j x_j) - (A^T \lambda)_j x_j \big]

    At the prices of the optimum the bound is the optimum itself, so yesterday's prices tell whether yesterday's
    allocation still serves today.
    """
    cost = problem.matrix.T @ prices
    best = utility.best_rate(cost / problem.selectivity, problem.weights) / problem.selectivity
    rates = np.clip(best, problem.lower, problem.upper)
    worth = problem.weights * utility.of(problem.selectivity * rates)
    return float(prices @ problem.limits + np.sum(worth - cost * rates))


def shrink_to_fit(
    graph: ElementGraph, problem: AllocationProblem, rates: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """Lower rates until every constraint holds, engine by engine, then from the inputs on; None below a minimum."""
    fitted = np.clip(rates, 0.0, problem.upper)
    used = problem.matrix[: problem.engines] @ fitted
    factor = np.minimum(1.0, problem.limits[: problem.engines] / np.maximum(used, 1e-300))
    fitted *= factor[[graph.engine_index[element.engine] for element in graph.elements]]
    for index in graph.order:
        element = graph.elements[index]
        brought = [problem.selectivity[feeder] * fitted[feeder] for feeder in graph.feeders[index]]
        if element.inputs is Inputs.PROPORTIONAL and brought:
            whole = [rows / part for rows, part in zip(brought, graph.feeder_parts[index], strict=True) if part > 0]
            most = min(whole, default=problem.upper[index]) + sum(graph.stream_rows_per_s[index])
        else:
            brought.extend(graph.stream_rows_per_s[index])
            most = min(brought) if element.inputs is Inputs.JOIN else sum(brought)
        fitted[index] = min(fitted[index], most + element.waiting_rows_per_s)
    return None if np.any(fitted < problem.lower * (1.0 - 1e-6)) else fitted
