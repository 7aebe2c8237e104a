"""For how long an engine's queries may run without a word of the control side.

Whoever starts a query elsewhere must know that it runs no more where it was. An engine that can be killed needs no
lease: it is killed first. One that cannot be reached at all ends its queries itself when its lease is over, and the
control side waits for that long before it starts them elsewhere.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Lease:
    """Time that is left, by a clock that goes on while the process is stopped.

    Parameters
    ----------
    length_s
        For how long a word of the control side is good; 0 is for ever.
    clock
        Seconds that never go back.

    Examples
    --------
    >>> now_s = [100.0]
    >>> lease = Lease(10.0, lambda: now_s[0])
    >>> now_s[0] = 108.0
    >>> lease.left_s, lease.is_over
    (2.0, False)
    >>> now_s[0] = 200.0
    >>> lease.is_over, lease.renew(), lease.is_over
    (True, False, True)
    """

    def __init__(self, length_s: float, clock: Callable[[], float]) -> None:
        self.length_s = length_s
        self._clock = clock
        self._until_s = clock() + length_s
        self._heard_s = clock()
        self._lock = threading.Lock()

    @property
    def left_s(self) -> float | None:
        """Seconds that are left; None where the lease is for ever."""
        return None if not self.length_s else max(0.0, self._until_s - self._clock())

    @property
    def is_over(self) -> bool:
        """Whether queries must end; what is over stays over until :meth:`begin`."""
        return bool(self.length_s) and self._clock() >= self._until_s

    @property
    def silent_s(self) -> float:
        """Seconds since the control side was last heard, whatever the lease."""
        return self._clock() - self._heard_s

    def renew(self) -> bool:
        """Count from now again; False where it is too late, because somebody else may have the queries by now."""
        with self._lock:
            self._heard_s = self._clock()
            if self.is_over:
                return False
            self._until_s = self._clock() + self.length_s
            return True

    def begin(self) -> None:
        """Begin anew, once no query of before runs any more."""
        with self._lock:
            self._until_s = self._clock() + self.length_s
