"""Virtual time."""

from __future__ import annotations


class ManualClock:
    """A clock that stands still until it is set.

    Examples
    --------
    >>> clock = ManualClock(10.0)
    >>> clock.now_s += 2.5
    >>> clock()
    12.5
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """The time."""
        return self.now_s
