"""Hysteresis with two gains: quickly up, slowly down."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.control.scaling.capacity import whole_executors
from penstock.errors import InvalidSettingError


@dataclass(frozen=True, slots=True)
class Gains:
    r"""How much of the way to the target is gone at once.

    .. math:: n \leftarrow n + \alpha\,(target - n) \text{ upwards, } n + \beta\,(target - n) \text{ downwards}

    The thesis has :math:`\alpha = 0.9, \beta = 0.4` and says nothing of fractions. A step is rounded away from where it
    starts: rounded to the nearest, 0.4 of one executor would be none, and the size would stall one short of the target.

    Examples
    --------
    >>> gains = Gains(up=0.9, down=0.4)
    >>> gains.step(2, 12), gains.step(12, 2), gains.step(3, 2), gains.step(3, 4), gains.step(5, 5)
    (11, 8, 2, 4, 5)
    """

    up: float = 0.9
    down: float = 0.4

    def __post_init__(self) -> None:
        for name, value in (("gain up", self.up), ("gain down", self.down)):
            if not 0 < value <= 1:
                raise InvalidSettingError(name, value, "a number above 0 and up to 1")

    def step(self, current: int, target: int) -> int:
        """The next size on the way."""
        if target >= current:
            return current + whole_executors(self.up * (target - current))
        return current - whole_executors(self.down * (current - target))
