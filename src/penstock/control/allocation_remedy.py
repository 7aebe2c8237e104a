"""What to relax when minima do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from penstock.errors import InfeasibleError

if TYPE_CHECKING:
    from penstock.control.allocation_problem import AllocationProblem
    from penstock.model.graph import ElementGraph

_NOTICEABLE = 1e-6
_NAMED_AT_MOST = 5


def explain_infeasible(graph: ElementGraph, problem: AllocationProblem) -> InfeasibleError:
    r"""Say which minima to lower, and which engines to grow instead.

    Two elastic programmes. The first lowers minima as little as it can, counted in accuracy,
    :math:`\min \sum_j s_j` with :math:`x_j \ge l_j - s_j D_j` and :math:`D_j` the rows offered; the second adds as few
    cores as it can, :math:`\min \sum_i e_i` with :math:`\sum_j x_j / a_j \le C_i + e_i`.
    """
    remedies = tuple(text for text in (_lower_minima(graph, problem), _more_cores(graph, problem)) if text)
    return InfeasibleError("the minimum accuracies do not fit the engines", remedies or ("switch elements off",))


def _lower_minima(graph: ElementGraph, problem: AllocationProblem) -> str:
    count = problem.upper.size
    offered = np.array(graph.offered_rows_per_s)
    asked = np.flatnonzero(problem.lower > 0)
    slack = csr_array((-offered[asked], (np.arange(asked.size), np.arange(asked.size))), shape=(asked.size, asked.size))
    minima = csr_array((-np.ones(asked.size), (np.arange(asked.size), asked)), shape=(asked.size, count))
    empty = csr_array((problem.matrix.shape[0], asked.size))
    answer = linprog(
        np.concatenate([np.zeros(count), np.ones(asked.size)]),
        A_ub=vstack([hstack([problem.matrix, empty]), hstack([minima, slack])], format="csr"),
        b_ub=np.concatenate([problem.limits, -problem.lower[asked]]),
        bounds=[*((0.0, high) for high in problem.upper), *((0.0, 1.0) for _ in asked)],
        method="highs",
    )
    if answer.x is None:
        return ""
    lowered = [(asked[place], float(part)) for place, part in enumerate(answer.x[count:]) if part > _NOTICEABLE]
    return _listing(
        "lower the minimum accuracy",
        [
            f"of {graph.elements[index].name!r} from {graph.elements[index].minimum_accuracy:.3g} "
            f"to {max(0.0, graph.elements[index].minimum_accuracy - part):.3g}"
            for index, part in lowered
        ],
    )


def _more_cores(graph: ElementGraph, problem: AllocationProblem) -> str:
    count, engines = problem.upper.size, problem.engines
    rows = problem.matrix.shape[0]
    extra = csr_array((-np.ones(engines), (np.arange(engines), np.arange(engines))), shape=(rows, engines))
    if np.any(problem.lower > problem.upper):
        return ""
    answer = linprog(
        np.concatenate([np.zeros(count), np.ones(engines)]),
        A_ub=hstack([problem.matrix, extra], format="csr"),
        b_ub=problem.limits,
        bounds=[*zip(problem.lower, problem.upper, strict=True), *((0.0, None) for _ in range(engines))],
        method="highs",
    )
    if answer.x is None:
        return ""
    grown = [(place, float(cores)) for place, cores in enumerate(answer.x[count:]) if cores > _NOTICEABLE]
    return _listing("give", [f"engine {graph.engines[place].name!r} {cores:.3g} cores more" for place, cores in grown])


def _listing(verb: str, parts: list[str]) -> str:
    if not parts:
        return ""
    shown = parts[:_NAMED_AT_MOST]
    rest = f" and {len(parts) - len(shown)} others" if len(parts) > len(shown) else ""
    return f"{verb} {', '.join(shown)}{rest}"
