"""Base Line: told by how much the operator is under-provisioned, it drops that share of the rows by lot."""

from __future__ import annotations

from typing import ClassVar

from penstock.control.shedding.uniform import Uniform


class BaseLine(Uniform):
    """Uniform shedding of the exact excess: input rate is capacity / (1 - u), so a share u has to go.

    The load then just fits on average, which is not enough: a queue fed at exactly its capacity grows without bound.

    Examples
    --------
    >>> BaseLine(0.25).keep_fraction
    0.75
    >>> BaseLine(-0.1).keep_fraction
    1.0
    """

    name: ClassVar[str] = "base_line"

    def __init__(self, underprovision: float, *, minimum_accuracy: float = 0.0) -> None:
        super().__init__(min(1.0, 1.0 - underprovision), minimum_accuracy=minimum_accuracy)
        self.underprovision = underprovision
