"""What each query keeps of each stream so that the sinks get their accuracies, Eq. 14 and 15."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from penstock.control.fleet.shape import FleetShape, Floats


def keep_ratios(shape: FleetShape, desired_of_task: Floats) -> Floats:
    r"""Keep ratio of each input of each instance.

    .. math:: d(t, t') = desired(t') \quad \text{at a source}, \qquad
              d(t, t') = \frac{desired(t')}{desired(t)} \quad \text{behind task } t

    ``desired`` of a task is the largest of the tasks that read it (Eq. 14, :meth:`FleetShape.of_sinks`), so rows are
    dropped as early as nobody needs them, and the product along a path is the accuracy of its end. Where nothing is
    desired upstream the ratio is undefined as printed; nothing comes, so nothing is kept: zero.

    Examples
    --------
    A source for sinks of 0.4 and 0.6 keeps 0.6; the first sink drops a third of that.

    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> shape = shape_of([
    ...     FleetQuery(QueryName("src"), reads=("topic:in",), writes=("drives",)),
    ...     FleetQuery(QueryName("one"), reads=("drives",)),
    ...     FleetQuery(QueryName("two"), reads=("drives",)),
    ... ])
    >>> keep_ratios(shape, shape.of_sinks(np.array([0.4, 0.6]))).round(3).tolist()
    [0.6, 0.667, 1.0]
    >>> keep_ratios(shape, shape.of_sinks(np.array([0.0, 0.0]))).tolist()
    [0.0, 0.0, 0.0]
    """
    wanted = desired_of_task[shape.task_of[shape.input_instance]]
    inside = shape.input_writer >= 0
    given = np.where(inside, desired_of_task[np.where(inside, shape.input_writer, 0)], 1.0)
    ratio = np.zeros(wanted.size)
    np.divide(wanted, given, out=ratio, where=given > 0)
    return np.clip(ratio, 0.0, 1.0)
