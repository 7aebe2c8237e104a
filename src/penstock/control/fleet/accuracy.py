"""How much of an application's input each task processes now, Eq. 3 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from penstock.control.fleet.shape import FleetShape, Floats


def local_accuracy(shape: FleetShape, taken_rows_per_s: Floats, offered_rows_per_s: Floats) -> Floats:
    r"""Part of what is offered to each task that its slowest instance takes (Eq. 4), at most one.

    .. math:: lAc(t) = \min_{i \in instances(t)} \frac{inRate(i)}{offered(i)}

    The paper divides what all producers send by the number of instances, as if it were spread evenly; here each
    instance tells what its own partitions were offered, which is the same where they are alike. As printed the ratio
    exceeds 100 % while a backlog drains; a task cannot process more than all of its input, so it is cut off at one.
    Where nothing is offered, all of it is taken.

    Examples
    --------
    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> shape = shape_of([FleetQuery(QueryName(name), task="count") for name in ("count-0", "count-1")])
    >>> local_accuracy(shape, np.array([60.0, 90.0]), np.array([100.0, 100.0])).tolist()
    [0.6]
    >>> local_accuracy(shape, np.array([150.0, 120.0]), np.array([100.0, 0.0])).tolist()
    [1.0]
    """
    ratio = np.ones(taken_rows_per_s.size)
    np.divide(taken_rows_per_s, offered_rows_per_s, out=ratio, where=offered_rows_per_s > 0)
    least = np.ones(len(shape.tasks))
    np.minimum.at(least, shape.task_of, np.minimum(ratio, 1.0))
    return least


def current_accuracy(shape: FleetShape, local: Floats) -> Floats:
    r"""Part of the application's input that each task processes (Eq. 3).

    .. math:: cAc(t) = lAc(t) \times \min_{t' \in upstream(t)} cAc(t')

    One step for each level of the graph.

    Examples
    --------
    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> shape = shape_of([
    ...     FleetQuery(QueryName("left"), writes=("l",)),
    ...     FleetQuery(QueryName("right"), writes=("r",)),
    ...     FleetQuery(QueryName("join"), reads=("l", "r")),
    ... ])
    >>> current_accuracy(shape, np.array([0.5, 0.8, 0.9])).tolist()
    [0.5, 0.8, 0.45]
    """
    current = local.copy()
    for depth in range(1, shape.depth + 1):
        edges = shape.edge_level == depth
        readers = shape.edge_to[edges]
        least = np.full(local.size, np.inf)
        np.minimum.at(least, readers, current[shape.edge_from[edges]])
        current[readers] = local[readers] * least[readers]
    return current
