"""What a graph can do under reliable delivery: everybody takes all that is produced, so all have one pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.model.graph import ElementGraph


def min_flow_rates(graph: ElementGraph) -> dict[str, float]:
    r"""Rows that each element takes in where no reader may lose any: one share of what is offered, as large as fits.

    .. math:: \theta = \min_i \frac{C_i - \sum_{j \in N_i} b_j / a_j}{\sum_{j \in N_i} o_j / a_j} \le 1

    over engines :math:`i` with :math:`C_i` cores, with :math:`o_j` the rows offered to element :math:`j` were nothing
    dropped. The targets of tier one would be none for such a graph: they let a slow reader fall behind, and under
    *min-flow* that reader's small target is everybody's.

    Examples
    --------
    A core for a parser of 100 rows/s and readers of 100 and 20 rows/s: all of them at 1 / (0.01 + 0.01 + 0.05).

    >>> from penstock.model.graph import Element, ElementGraph, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("east"),),
    ...     (InputStream("clicks", 50.0),),
    ...     (
    ...         Element("parse", "east", ("clicks",), 100.0),
    ...         Element("fast", "east", ("parse",), 100.0, weight=5.0),
    ...         Element("slow", "east", ("parse",), 20.0, weight=1.0),
    ...     ),
    ... )
    >>> {name: round(rate, 2) for name, rate in min_flow_rates(graph).items()}
    {'parse': 14.29, 'fast': 14.29, 'slow': 14.29}
    """
    offered = graph.available_rows_per_s
    free = [engine.cores for engine in graph.engines]
    needed = [0.0] * len(graph.engines)
    share = 1.0
    for element, rows_per_s in zip(graph.elements, offered, strict=True):
        place = graph.engine_index[element.engine]
        free[place] -= element.idle_rows_per_s / element.rows_per_core_s
        needed[place] += rows_per_s / element.rows_per_core_s
        if element.max_cores is not None and rows_per_s > 0:
            most = element.max_cores * element.rows_per_core_s - element.idle_rows_per_s
            share = min(share, max(0.0, most) / rows_per_s)
    share = min([share, *(max(0.0, free[place]) / cores for place, cores in enumerate(needed) if cores > 0)])
    return {element.name: share * rate for element, rate in zip(graph.elements, offered, strict=True)}
