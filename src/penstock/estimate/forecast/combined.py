"""A combination of forecasters that weighs each by its recent error, with an upper bound from its own errors."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.estimate.forecast.base import Forecaster

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST = 1e-12


class Combined(Forecaster):
    r"""Mean of forecasters, weighed by how well each foretold the value ``ahead_s`` later.

    With :math:`e_i` the exponentially smoothed squared error of forecaster :math:`i`,

    .. math:: \hat w = \sum_i \frac{e_i^{-2}}{\sum_j e_j^{-2}} \hat w_i

    :meth:`upper` is the forecast plus the ``quantile`` of its own errors of the last ``memory_s``: half of all
    loads are above their mean forecast, so the mean must not decide how many executors there are to be. Errors count
    relative to the forecast or as they are, whichever is less: relative ones of a load that begins at nothing are
    beyond measure, and absolute ones of a peak are too much for the night. For the weights they are relative to the
    larger of value and forecast, so that none counts for more than one.

    Examples
    --------
    >>> from penstock.estimate.forecast.level import Level
    >>> from penstock.estimate.forecast.linear import LinearTrend
    >>> both = Combined([LinearTrend(), Level()], ahead_s=60.0)
    >>> for step in range(100):
    ...     both.update(15.0 * step, 100.0 + 3.0 * step)
    >>> round(both.predict(60.0)), [round(weight, 3) for weight in both.weights]
    (409, [1.0, 0.0])
    """

    name: ClassVar[str] = "combined"

    def __init__(
        self,
        members: Sequence[Forecaster],
        *,
        ahead_s: float = 60.0,
        quantile: float = 0.99,
        memory_s: float = 7_200.0,
        half_life_s: float = 300.0,
    ) -> None:
        self.members = tuple(members)
        self.ahead_s = ahead_s
        self.quantile = quantile
        self.memory_s = memory_s
        self.half_life_s = half_life_s
        self._errors = [0.0] * len(self.members)
        self._counts = [0.0] * len(self.members)
        self._weights = [0.0] * len(self.members)
        self._open: deque[tuple[float, float, tuple[float | None, ...]]] = deque()
        self._past: deque[tuple[float, float, float]] = deque()
        self._judged_s: float | None = None
        self._relative: list[float] = []
        self._absolute: list[float] = []

    @property
    def weights(self) -> tuple[float, ...]:
        """How much each forecaster counts; those that say nothing yet count for nothing."""
        return tuple(self._weights)

    def update(self, time_s: float, value: float) -> None:
        """Hold what was foretold against the value, then learn it."""
        while self._open and self._open[0][0] <= time_s:
            due_s, mixed, own = self._open.popleft()
            # After a gap in the samples this value is not the one that was foretold.
            if time_s - due_s < 0.5 * self.ahead_s:
                self._judge(time_s, value, mixed, own)
        for member in self.members:
            member.update(time_s, value)
        guesses = [member.predict(self.ahead_s) for member in self.members]
        self._weights = self._weigh(guesses)
        self._open.append((time_s + self.ahead_s - 1e-6, self._mix(guesses), tuple(guesses)))

    def predict(self, ahead_s: float) -> float | None:
        """The weighed mean."""
        guesses = [member.predict(ahead_s) for member in self.members]
        return self._mix(guesses) if any(guess is not None for guess in guesses) else None

    def upper(self, ahead_s: float) -> float | None:
        """The weighed mean with the quantile of its errors on top."""
        mean = self.predict(ahead_s)
        return None if mean is None else self.bound(mean)

    def bound(self, mean: float) -> float:
        """Add the quantile of the errors to a forecast; before there are enough of them the largest one."""
        count = len(self._relative)
        if not count:
            return mean
        # A quantile between two of the errors is the higher one: with few of them, the largest.
        place = min(count - 1, int(self.quantile * (count + 1)))
        return mean + max(0.0, min(self._relative[place] * mean, self._absolute[place]))

    def snapshot(self) -> tuple[Any, ...]:
        """Members, errors, and what was foretold and not seen yet."""
        members = tuple(member.snapshot() for member in self.members)
        past = (tuple(self._open), tuple(self._past), self._judged_s)
        return (members, tuple(self._errors), tuple(self._counts), tuple(self._weights), *past)

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Go on from a snapshot."""
        members, errors, counts, weights, waiting, past, self._judged_s = snapshot
        for member, state in zip(self.members, members, strict=True):
            member.restore(state)
        self._errors, self._counts, self._weights = list(errors), list(counts), list(weights)
        self._open, self._past = deque(waiting), deque(past)
        self._relative = sorted(error for _, error, _ in past)
        self._absolute = sorted(error for _, _, error in past)

    def _judge(self, time_s: float, value: float, mixed: float, guesses: tuple[float | None, ...]) -> None:
        elapsed_s = 0.0 if self._judged_s is None else time_s - self._judged_s
        fading, self._judged_s = 0.5 ** (elapsed_s / self.half_life_s), time_s
        for place, guess in enumerate(guesses):
            if guess is not None:
                error = (value - guess) / max(value, guess, _LEAST)
                self._errors[place] = fading * self._errors[place] + error * error
                self._counts[place] = fading * self._counts[place] + 1.0
        absolute = value - mixed
        relative = absolute / max(mixed, _LEAST)
        self._past.append((time_s, relative, absolute))
        insort(self._relative, relative)
        insort(self._absolute, absolute)
        while self._past[0][0] <= time_s - self.memory_s:
            _, relative, absolute = self._past.popleft()
            del self._relative[bisect_left(self._relative, relative)]
            del self._absolute[bisect_left(self._absolute, absolute)]

    def _weigh(self, guesses: Sequence[float | None]) -> list[float]:
        weights = []
        for place, guess in enumerate(guesses):
            # One that was never held against a value has no say as soon as another one was.
            mean = self._errors[place] / self._counts[place] if self._counts[place] > 0 else 1e3
            weights.append(0.0 if guess is None else 1.0 / (mean + 1e-9) ** 2)
        total = sum(weights)
        return [weight / total for weight in weights] if total > 0 else weights

    def _mix(self, guesses: Sequence[float | None]) -> float:
        pairs = zip(self._weights, guesses, strict=True)
        return sum(weight * guess for weight, guess in pairs if guess is not None)
