"""How long it takes from asking for capacity until it serves."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServiceTimeState:
    """Snapshot of a :class:`ServiceTime`: the newest observations, oldest first."""

    observed_s: tuple[float, ...] = ()


class ServiceTime:
    r"""Quantiles of the last ``window`` times from request to service.

    With the observations sorted, :math:`x_0 \le \dots \le x_{n-1}`, the quantile :math:`p` lies between two of them,

    .. math:: x_{\lfloor h \rfloor} + (h - \lfloor h \rfloor)\,(x_{\lceil h \rceil} - x_{\lfloor h \rfloor}),
       \qquad h = (n - 1)\,p.

    A mean would hide what a scaler needs: how early it must ask so that capacity is there in nineteen cases of twenty.
    Old observations drop out, so that a cluster which got slower is known as such after a window.

    Reference: the start-up delay that "Supporting elasticity in Flink" takes as constant.

    Examples
    --------
    >>> starts = ServiceTime(window=4)
    >>> starts.quantile_s(0.5) is None
    True
    >>> for seconds in (30.0, 5.0, 6.0, 7.0, 10.0):
    ...     starts.observe(seconds)
    >>> starts.quantile_s(0.5), starts.quantile_s(1.0), starts.count
    (6.5, 10.0, 4)
    """

    def __init__(self, window: int = 32, state: ServiceTimeState | None = None) -> None:
        if window < 1:
            raise ValueError(f"window {window}: at least one observation is needed")
        self._window = window
        self._observed_s = list((state or ServiceTimeState()).observed_s)[-window:]

    @property
    def count(self) -> int:
        """Observations that count now."""
        return len(self._observed_s)

    def observe(self, seconds: float) -> None:
        """Learn from one time that was measured; one that is no time at all says nothing and is left out."""
        if math.isfinite(seconds) and seconds >= 0.0:
            self._observed_s = [*self._observed_s, float(seconds)][-self._window :]

    def quantile_s(self, probability: float) -> float | None:
        """Time within which that share of requests was served; None before the first."""
        if not self._observed_s:
            return None
        ordered = sorted(self._observed_s)
        place = (len(ordered) - 1) * probability
        low, high = math.floor(place), math.ceil(place)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    def snapshot(self) -> ServiceTimeState:
        """The whole state, to build an equal estimator from."""
        return ServiceTimeState(tuple(self._observed_s))
