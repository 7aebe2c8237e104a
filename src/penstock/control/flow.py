"""The flow law of ACES: how much a query may take in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.estimate.compiled import compiled_inline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.control.lqr import FlowGains


@dataclass(frozen=True, slots=True)
class FlowState:
    """Past buffer deviations and rate errors, newest first."""

    buffer_deviations: tuple[float, ...] = ()
    rate_errors: tuple[float, ...] = ()


class FlowLaw:
    r"""Maximum intake of a query that keeps its buffer at a target, by linear quadratic control.

    Eq. 7 of "Adaptive control of extreme-scale stream processing systems":

    .. math::

        r_{max}(n) = \Big[\rho(n) - \sum_{k=0}^{K} \lambda_k \{b(n-k) - b_0\}
                     - \sum_{l=1}^{L} \mu_l \{r_{max}(n-l) - \rho(n-l)\}\Big]^+

    with :math:`\rho` the processing rate, :math:`b` the buffer and :math:`b_0` its target, per step. Deviations before
    the first step count as zero.

    What enters the past rate errors is the rate that was really granted (:meth:`granted`), not the one asked for:
    a rate cut by some bound would otherwise be held against every later step, long after the bound is gone.

    Examples
    --------
    >>> from penstock.control.lqr import FlowGains
    >>> law = FlowLaw(FlowGains(lambdas=(0.4,), mus=(0.2,)))
    >>> law.maximum(rate=100.0, buffer=150.0, target=100.0)
    80.0
    >>> law.granted(80.0)
    >>> law.maximum(rate=100.0, buffer=100.0, target=100.0)
    104.0
    """

    def __init__(self, gains: FlowGains, state: FlowState | None = None) -> None:
        self._gains = gains
        self._state = state or FlowState()
        self._rate = 0.0
        self._deviation = 0.0

    def maximum(self, *, rate: float, buffer: float, target: float) -> float:
        """The intake that the law allows in this step."""
        self._rate = rate
        self._deviation = buffer - target
        deviations = (self._deviation, *self._state.buffer_deviations)
        correction = sum(gain * value for gain, value in zip(self._gains.lambdas, deviations, strict=False))
        correction += sum(gain * value for gain, value in zip(self._gains.mus, self._state.rate_errors, strict=False))
        return max(0.0, rate - correction)

    def granted(self, maximum: float) -> None:
        """End the step with the intake that was granted."""
        deviations = (self._deviation, *self._state.buffer_deviations)
        errors = (maximum - self._rate, *self._state.rate_errors)
        self._state = FlowState(deviations[: len(self._gains.lambdas) - 1], errors[: len(self._gains.mus)])

    def snapshot(self) -> FlowState:
        """The past that the next step depends on."""
        return self._state


@compiled_inline
def flow_maximum(
    rate: float,
    deviation: float,
    lambdas: NDArray[np.float64],
    mus: NDArray[np.float64],
    past_deviations: NDArray[np.float64],
    past_errors: NDArray[np.float64],
) -> float:
    """One step of :class:`FlowLaw` for compiled loops, over arrays of the past that it moves on.

    What it allows counts as granted.

    Examples
    --------
    >>> import numpy as np
    >>> past, errors = np.zeros(1), np.zeros(1)
    >>> flow_maximum(100.0, 50.0, np.array([0.4]), np.array([0.2]), past, errors)
    80.0
    >>> flow_maximum(100.0, 0.0, np.array([0.4]), np.array([0.2]), past, errors)
    104.0
    """
    correction = lambdas[0] * deviation
    for index in range(1, lambdas.size):
        correction += lambdas[index] * past_deviations[index - 1]
    for index in range(mus.size):
        correction += mus[index] * past_errors[index]
    maximum = max(0.0, rate - correction)
    for index in range(lambdas.size - 2, 0, -1):
        past_deviations[index] = past_deviations[index - 1]
    past_deviations[0] = deviation
    for index in range(mus.size - 1, 0, -1):
        past_errors[index] = past_errors[index - 1]
    if mus.size:
        past_errors[0] = maximum - rate
    return float(maximum)
