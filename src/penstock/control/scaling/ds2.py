"""DS2: the size at which true rates meet the input rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.control.scaling.base import Scaler
from penstock.control.scaling.capacity import whole_executors
from penstock.model.scaling import ScaleDecision, ScalingSignal, hold, towards


@dataclass(frozen=True, slots=True)
class Ds2State:
    """Wishes of the samples since the last decision."""

    wishes: tuple[int, ...] = ()


class Ds2(Scaler):
    r"""Executors so that the true processing rate just carries the input.

    .. math:: n \leftarrow \Big\lceil \frac{w_t}{o_t / (n_t\,u_t)} \Big\rceil

    with output :math:`o_t` and the useful share of the time :math:`u_t`: the denominator is what one executor does in a
    second in which it does not wait. Of ``activation`` wishes in a row the median counts.

    Reference: Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions for distributed
    streaming dataflows", OSDI 2018. For queries as a whole, not for operators: Spark's stages run on the same cores.

    Examples
    --------
    >>> Ds2(activation=1).decide(ScalingSignal(0.0, 4, 4, 2_000.0, 900.0, 0.75, 0.0, 0.1)).executors
    7
    """

    name: ClassVar[str] = "ds2"

    def __init__(self, *, activation: int = 3) -> None:
        self.activation = activation
        self._state = Ds2State()

    def decide(self, signal: ScalingSignal) -> ScaleDecision:
        """Decide after a sample."""
        rate = signal.true_rate_rows_per_s
        if rate is None or signal.demand_rows_per_s is None:
            return hold(signal, "nothing was processed")
        if signal.executors != signal.requested:
            self._state = Ds2State()
            return hold(signal, "executors are starting")
        wish = max(1, whole_executors(signal.demand_rows_per_s / rate))
        wishes = (*self._state.wishes, wish)
        if len(wishes) < self.activation:
            self._state = Ds2State(wishes)
            return hold(signal, "not enough samples yet")
        self._state = Ds2State()
        target = sorted(wishes)[len(wishes) // 2]
        return towards(signal, target, f"one executor does {rate:.0f} rows/s of {signal.demand_rows_per_s:.0f}")

    def snapshot(self) -> Ds2State:
        """The state, which never changes."""
        return self._state

    def restore(self, snapshot: Ds2State) -> None:
        """Go on from a snapshot."""
        self._state = snapshot
