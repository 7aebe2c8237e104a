"""Tier one with concave utility: log and exponential."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.control.allocation_lp import LEVEL_TOLERANCE
from penstock.control.utility import Utility, UtilityKind
from penstock.extras import require

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.control.allocation_problem import AllocationProblem

require("research", "concave utility", "cvxpy")
import cvxpy  # noqa: E402 - whoever lacks it is first told what to install

cp: Any = cvxpy  # its functions carry no types
_SOLVED = (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)


def solve_concave(
    problem: AllocationProblem, utility: Utility
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    r"""Rates and prices of :math:`\max \sum_j w_j U(m_j x_j / s)` subject to the problem's constraints, by Clarabel.

    Eq. 3 to 6 of "Adaptive control of extreme-scale stream processing systems". Priorities as in
    :func:`~penstock.control.allocation_lp.solve_linear`. None where the minima do not fit.

    The solver works on rates as shares of what each element is offered: rates of a graph differ by orders of magnitude,
    and an interior point method loses digits on unscaled ones.

    Examples
    --------
    Two elements of weights 1 and 3 share a core; log utility with a small scale splits it nearly 1 to 3:

    >>> from penstock.control.allocation_problem import build_problem
    >>> from penstock.model.graph import Element, ElementGraph, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("e"),),
    ...     (InputStream("s", 100.0),),
    ...     (Element("a", "e", ("s",), 100.0, weight=1.0), Element("b", "e", ("s",), 100.0, weight=3.0)),
    ... )
    >>> rates, _ = solve_concave(build_problem(graph), Utility(UtilityKind.LOG, 0.01))
    >>> [round(float(rate), 1) for rate in rates]
    [25.0, 75.0]
    """
    if np.any(problem.lower > problem.upper):
        return None
    scale = np.where(problem.upper > 0, problem.upper, 1.0)
    shares = cp.Variable(problem.upper.size)
    # Each row of the constraints is brought to a largest entry of one; that of an engine without elements is empty.
    scaled = problem.matrix.multiply(scale[np.newaxis, :]).tocsr()
    largest = abs(scaled).max(axis=1).toarray().ravel()
    row_scale = np.where(largest > 0, largest, 1.0)
    main = scaled.multiply(1.0 / row_scale[:, np.newaxis]).tocsr() @ shares <= problem.limits / row_scale
    constraints: list[Any] = [main, shares >= problem.lower / scale, shares <= problem.upper / scale]
    for level in sorted(set(problem.priorities[problem.weights > 0].tolist()), reverse=True):
        own = np.flatnonzero((problem.priorities == level) & (problem.weights > 0))
        value = _value(shares, own, scale, problem, utility)
        programme = cp.Problem(cp.Maximize(value), constraints)
        _solve(programme)
        if programme.status not in _SOLVED:
            return None
        constraints = [*constraints, value >= float(value.value) * (1.0 - LEVEL_TOLERANCE)]
    # An interior point is a hair outside where a constraint binds.
    rates = np.clip(np.asarray(shares.value) * scale, problem.lower, problem.upper)
    return rates, np.maximum(0.0, np.asarray(main.dual_value)) / row_scale


def _value(
    shares: Any,  # noqa: ANN401 - cvxpy has no types
    own: NDArray[np.int64],
    scale: NDArray[np.float64],
    problem: AllocationProblem,
    utility: Utility,
) -> Any:  # noqa: ANN401 - as above
    factor = scale[own] * problem.selectivity[own] / utility.scale_rows_per_s
    outputs = cp.multiply(factor, shares[own])
    if utility.kind is UtilityKind.LOG:
        return problem.weights[own] @ cp.log1p(outputs)
    if utility.kind is UtilityKind.EXPONENTIAL:
        return problem.weights[own] @ (1.0 - cp.exp(-outputs))
    return problem.weights[own] @ outputs


def _solve(programme: Any) -> None:  # noqa: ANN401 - as above
    with warnings.catch_warnings():
        # An inaccurate answer is accepted here and judged by its duality gap afterwards.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        try:
            programme.solve(solver=cp.CLARABEL)
        except cp.error.SolverError:
            programme.solve(solver=cp.SCS, eps=1e-7, max_iters=100_000)
