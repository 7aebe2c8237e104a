"""The moment before which rows are late, by the clock that their arrival times were written with."""

from __future__ import annotations

REMEMBERED_DELAYS = 16
"""Batches that the delay rests on. Each tells the true delay or more, never less; with so many the smallest is near it,
and a clock that is set is followed within them."""


def arrival_delay_s(*, planned_s: float, newest_arrival_s: float, behind_s: float) -> float:
    """How far the clock of arrival times is behind the driver's, as one batch shows it.

    The newest row of a batch arrived when the batch was planned, or ``behind_s`` before, where so many seconds of rows
    were left waiting behind it. What is missing is the clock's, or the way's from the producer.

    Examples
    --------
    >>> arrival_delay_s(planned_s=100.0, newest_arrival_s=95.5, behind_s=1.5)
    3.0
    """
    return planned_s - newest_arrival_s - behind_s


def remember_delay(known_s: tuple[float, ...], delay_s: float, *, behind_s: float, all_late: bool) -> tuple[float, ...]:
    """Delays of the last batches with one more.

    Where all rows of a batch were late, and neither what is known nor what waited behind the batch says why, the clock
    was set back: what was known before would call every row late, for as long as it is remembered. What waited says
    why up to twice the time that it is reckoned at, as that rests on the rate at which rows arrive. A clock that is
    believed too late costs one batch: the next delay that is smaller holds at once.

    Examples
    --------
    >>> remember_delay((3.0, 3.5), 3.2, behind_s=0.0, all_late=False)
    (3.0, 3.5, 3.2)
    >>> remember_delay((3.0, 3.5), 60.0, behind_s=20.0, all_late=True)
    (60.0,)
    >>> remember_delay((3.0, 3.5), 20.0, behind_s=20.0, all_late=True)
    (3.0, 3.5, 20.0)
    """
    is_set_back = all_late and delay_s - min(known_s, default=0.0) > behind_s
    return (delay_s,) if is_set_back else (*known_s, delay_s)[-REMEMBERED_DELAYS:]


def late_before_s(planned_s: float, late_after_s: float, delays_s: tuple[float, ...]) -> float:
    """Rows that arrived before this moment, by their own clock, are older than ``late_after_s``.

    Age counts from the newest arrival that could be there: of rows whose producer's clock is 3 s behind, those are late
    that waited for 2.8 s, and not all of them.

    Examples
    --------
    >>> late_before_s(100.0, 2.8, (3.0, 3.5, 3.2)), late_before_s(100.0, 2.8, ())
    (94.2, 97.2)
    """
    return planned_s - min(delays_s, default=0.0) - late_after_s
