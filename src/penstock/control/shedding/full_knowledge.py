"""Full Knowledge: the queue shedder that is told the exact execution time of every row; the bar for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.control.shedding.queue import QueueShedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.control.shedding.base import Rows


class FullKnowledge(QueueShedder):
    """Exact costs, no estimates: keeps every row that the promise allows.

    Theorem 4.1 of the paper calls this optimal among online shedders. It is greedy: its proof takes for granted that
    keeping a row now never costs two later, and aiming a little below tau can keep a few rows more. It is still the bar
    for shedders that have to learn the costs.

    Examples
    --------
    Rows of 4 ms arrive every 2 ms, and no row may wait longer than 3 ms; every second one has to go.

    >>> import numpy as np
    >>> from penstock.control.shedding.base import Rows
    >>> from penstock.control.shedding.check import Constraint
    >>> rows = Rows(
    ...     keys=np.zeros(6, np.uint64), arrival_s=0.002 * np.arange(6), uniforms=np.zeros(6), costs_s=np.full(6, 0.004)
    ... )
    >>> FullKnowledge(0.003, constraint=Constraint.ABSOLUTE).decide(rows).keep.tolist()
    [True, True, False, True, False, True]
    """

    name: ClassVar[str] = "full_knowledge"

    def estimated_costs_s(self, rows: Rows) -> NDArray[np.float64]:
        """Give the exact execution times that came with the rows."""
        return rows.required("costs_s", self.name)
