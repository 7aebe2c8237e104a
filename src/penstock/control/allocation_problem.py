"""The allocation problem as matrices: Eq. 4 to 6 of ACES with the CPU eliminated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from penstock.errors import InfeasibleError
from penstock.model.graph import ElementGraph, Inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class AllocationProblem:
    r"""Rates :math:`x` with :math:`A x \le d`, :math:`l \le x \le u`.

    Eq. 6 gives the cores that a rate needs, :math:`c_j = (x_j + b_j) / a_j`, so Eq. 4 becomes, for engine :math:`i`
    with :math:`C_i` cores,

    .. math:: \sum_{j \in N_i} x_j / a_j \le C_i - \sum_{j \in N_i} b_j / a_j,

    which is the first block of :math:`A`. The second is Eq. 5: :math:`x_j \le \sum_i m_i x_i + s_j` for an element that
    merges its inputs, one row for each input for one that joins them, with :math:`m_i` the selectivity and :math:`s_j`
    what it reads from outside and what waits. An element that takes of each feeder its part :math:`p_i` has one row for
    each as well, :math:`p_i (x_j - s_j) \le m_i x_i`: what comes from outside is taken first. As printed, Eq. 5 is the
    join: an element that merges three streams would be held to the rate of the slowest of them.

    Elements that are switched off have :math:`u_j = 0` and pay no :math:`b_j`.
    """

    matrix: csr_array
    limits: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    engines: int
    selectivity: NDArray[np.float64]
    weights: NDArray[np.float64]
    priorities: NDArray[np.int64]
    cores_per_row_s: NDArray[np.float64]


def build_problem(graph: ElementGraph, off: frozenset[int] = frozenset()) -> AllocationProblem:
    """State the problem for a graph with some of its elements switched off."""
    elements = graph.elements
    rows_per_core_s = np.array([element.rows_per_core_s for element in elements])
    idle = np.array([0.0 if index in off else element.idle_rows_per_s for index, element in enumerate(elements)])
    matrix, limits = _constraints(graph, rows_per_core_s, idle)
    offered = np.array(graph.offered_rows_per_s)
    most = np.array(graph.available_rows_per_s)
    for index, element in enumerate(elements):
        if element.max_cores is not None:
            most[index] = min(most[index], max(0.0, element.max_cores * rows_per_core_s[index] - idle[index]))
        if index in off:
            most[index] = 0.0
    return AllocationProblem(
        matrix=matrix,
        limits=limits,
        lower=offered * np.array([element.minimum_accuracy for element in elements]),
        upper=most,
        engines=len(graph.engines),
        selectivity=np.array([element.selectivity for element in elements]),
        weights=np.array([element.weight or 0.0 for element in elements]),
        priorities=np.array([element.priority for element in elements]),
        cores_per_row_s=1.0 / rows_per_core_s,
    )


def _constraints(
    graph: ElementGraph, rows_per_core_s: NDArray[np.float64], idle: NDArray[np.float64]
) -> tuple[csr_array, NDArray[np.float64]]:
    limits = [engine.cores for engine in graph.engines]
    entries: list[tuple[int, int, float]] = []
    for index, element in enumerate(graph.elements):
        engine = graph.engine_index[element.engine]
        limits[engine] -= idle[index] / rows_per_core_s[index]
        entries.append((engine, index, 1.0 / rows_per_core_s[index]))
    for place, each in enumerate(graph.engines):
        if limits[place] < 0:
            raise InfeasibleError(
                f"the elements on engine {each.name!r} need {each.cores - limits[place]:.3g} cores before they "
                f"take in a row, and it has {each.cores:.3g}",
                ("give it more cores", "move some of its elements"),
            )
    for index in range(len(graph.elements)):
        _add_inputs(graph, index, entries, limits)
    rows, columns, values = zip(*entries, strict=True)
    shape = (len(limits), len(graph.elements))
    return csr_array((values, (rows, columns)), shape=shape), np.array(limits)


def _add_inputs(graph: ElementGraph, index: int, entries: list[tuple[int, int, float]], limits: list[float]) -> None:
    feeders, outside = graph.feeders[index], graph.stream_rows_per_s[index]
    waiting = graph.elements[index].waiting_rows_per_s
    if graph.elements[index].inputs is Inputs.PROPORTIONAL and feeders:
        for feeder, part in zip(feeders, graph.feeder_parts[index], strict=True):
            entries.extend([(len(limits), index, part), (len(limits), feeder, -graph.elements[feeder].selectivity)])
            limits.append(part * (waiting + sum(outside)))
        return
    if graph.elements[index].inputs is Inputs.JOIN:
        for feeder in feeders:
            entries.extend([(len(limits), index, 1.0), (len(limits), feeder, -graph.elements[feeder].selectivity)])
            limits.append(waiting)
        for rate_rows_per_s in outside:
            entries.append((len(limits), index, 1.0))
            limits.append(rate_rows_per_s + waiting)
        return
    entries.append((len(limits), index, 1.0))
    entries.extend((len(limits), feeder, -graph.elements[feeder].selectivity) for feeder in feeders)
    limits.append(sum(outside) + waiting)
