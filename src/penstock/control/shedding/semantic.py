"""Semantic shedding: the economic law with the user's own utility for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.control.shedding.economic import Economic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.control.shedding.base import Rows


class Semantic(Economic):
    """Keeps rows with a probability proportional to what they are worth and what they cost: ``utility / sqrt(cost)``.

    Only the ratio of utilities counts; one of zero is dropped as far as the smallest probability allows.

    Examples
    --------
    Rows cost the same, one every 4 ms, and the operator takes 5 ms: every second row is worth three times as much.

    >>> import numpy as np
    >>> from penstock.control.shedding.base import Rows
    >>> rows = Rows(
    ...     np.zeros(4000, np.uint64), 0.004 * np.arange(4000), np.random.default_rng(5).random(4000),
    ...     costs_s=np.full(4000, 0.005), utility=np.tile([1.0, 3.0], 2000),
    ... )
    >>> decision = Semantic(0.010, exact_costs=True).decide(rows)
    >>> [round(float(decision.keep[start::2].mean()), 2) for start in (0, 1)]
    [0.6, 1.0]
    """

    name: ClassVar[str] = "semantic"

    def utilities(self, rows: Rows) -> NDArray[np.float64]:
        """Give the utilities that came with the rows."""
        utility = rows.required("utility", self.name)
        if utility.size and not utility.min() >= 0:
            raise ValueError(f"utility {utility.min()!r} is not allowed: a row is worth zero or more")
        return utility
