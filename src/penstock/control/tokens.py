"""A token bucket: what was not used may be used later, up to a limit."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import InvalidSettingError
from penstock.estimate.compiled import compiled_inline


@compiled_inline
def earn(tokens: float, rate: float, elapsed_s: float, depth: float) -> float:
    """Tokens after some time at a rate, never more than the depth of the bucket."""
    return min(depth, tokens + rate * elapsed_s)


@compiled_inline
def spend(tokens: float, amount: float, depth: float) -> float:
    """Tokens after spending; a row that cost more than expected leaves a debt, never deeper than the bucket."""
    return max(-depth, tokens - amount)


@dataclass(slots=True)
class TokenBucket:
    """CPU seconds that an element has earned at its target and not spent.

    Section V-D of "Adaptive control of extreme-scale stream processing systems". The debt keeps long-term use at the
    target even though a row cannot be stopped halfway; its limit keeps one dear row from starving an element for ever.

    Examples
    --------
    >>> bucket = TokenBucket(rate_cores=0.4, depth_s=1.0)
    >>> bucket.elapse(5.0)
    >>> bucket.tokens_s
    1.0
    >>> bucket.spend(1.2)
    >>> round(bucket.tokens_s, 3), bucket.cores_for(0.1)
    (-0.2, 0.0)
    """

    rate_cores: float
    depth_s: float
    tokens_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.rate_cores >= 0:
            raise InvalidSettingError("rate_cores", self.rate_cores, "cores, from zero up")
        if not self.depth_s > 0:
            raise InvalidSettingError("depth_s", self.depth_s, "CPU seconds above zero")

    def elapse(self, elapsed_s: float) -> None:
        """Earn for the time that has passed."""
        self.tokens_s = earn(self.tokens_s, self.rate_cores, elapsed_s, self.depth_s)

    def spend(self, cpu_s: float) -> None:
        """Pay for CPU time that was used."""
        self.tokens_s = spend(self.tokens_s, cpu_s, self.depth_s)

    def cores_for(self, step_s: float) -> float:
        """Cores that the tokens pay for through a step."""
        return max(0.0, self.tokens_s) / step_s
