"""How long the batches of a query are to be, from its goal, its overhead and the scatter of its batches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from penstock.estimate.batch_time import HEEDED
from penstock.estimate.bisection import largest_that_holds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from penstock.estimate.batch_time import Overrun

MIN_PART_OF_GOAL = 0.1
"""Length where a trigger interval leaves no time at all: a batch must have some.

Its rows are late by their wait alone, so the number decides only how fast a query that cannot be in time goes on.
"""
_THOUSANDTH = 10
"""Halvings that leave a thousandth of a range: whether rows go first is decided to within milliseconds."""
CATCHING_UP = 1.1
"""Batches that only just keep up never work off what waits: with a tenth more a batch that was missed is made good in
ten, and waiting rows are a tenth older for it."""
OVERLOAD_OVERHEAD_PART = 1.0 / 6.0
"""Part of a batch that is overhead in an overload that nobody can keep up with: five sixths go into rows.

Twice as long ones would do a tenth more of them (11/12 for 5/6), which is no more than scatter, and be twice as late.
"""
WORTH = 1.1
"""What changes how a query runs must bring a tenth: batches of an engine with nothing beside it scatter by as much."""
MOST_OVERHEAD_PART = 2.0 / 3.0
"""Of batches that must work off all that waits, no more than two thirds are overhead.

Nothing can be dropped there, so what is late stays late, and shorter batches would only make it later. A
third of the machine is left for rows then.
"""


def late_part(wait_s: float, batch_s: float, goal_s: float, noise: float) -> float:
    r"""Part of the rows of a batch that are out too late.

    Rows arrive evenly and have waited for up to :math:`w` when their batch begins. It takes :math:`d \varepsilon`, with
    :math:`\varepsilon` log-normal of mean one and deviation :math:`\sigma`. Late are those that had waited for more
    than :math:`L - d \varepsilon`, on average

    .. math:: \frac{1}{w} E\big[(d \varepsilon - K)^+\big] =
        \frac{d\,\Phi(u + \sigma / 2) - K\,\Phi(u - \sigma / 2)}{w}, \qquad
        K = L - w, \quad u = \frac{\ln(d / K)}{\sigma}

    Examples
    --------
    Of a goal of 5 s, with batches of 2.5 s, one after the other: none without scatter, four in a hundred with a tenth.

    >>> late_part(2.5, 2.5, 5.0, 0.0)
    0.0
    >>> round(late_part(2.5, 2.5, 5.0, 0.1), 3), round(late_part(2.5, 2.5, 5.0, 0.3), 3)
    (0.04, 0.119)
    >>> late_part(3.0, 3.0, 5.0, 0.0), late_part(6.0, 1.0, 5.0, 0.1)
    (0.3333333333333333, 0.3333333333333333)

    A batch that takes no time, as one without rows or overhead is predicted to, makes nobody later:

    >>> late_part(2.0, 0.0, 5.0, 0.1)
    0.0
    """
    room_s = goal_s - wait_s
    if wait_s <= 0.0:
        return 0.0 if batch_s <= goal_s else 1.0
    if room_s <= 0.0 or noise <= 0.0 or batch_s <= 0.0:
        return min(1.0, max(0.0, batch_s - room_s) / wait_s)
    reach = math.log(batch_s / room_s) / noise
    excess_s = batch_s * _normal(reach + noise / 2) - room_s * _normal(reach - noise / 2)
    return min(1.0, max(0.0, excess_s) / wait_s)


def longest_in_time_s(goal_s: float, interval_s: float, noise: float, *, late_ratio: float) -> float:
    r"""The longest batch of which no more than a part of the rows is out too late (:func:`late_part`).

    A row waits for up to one batch, or one trigger interval, before its own batch begins. With batches one after the
    other and no scatter that is half of the goal; the more they scatter the less.

    Examples
    --------
    >>> [round(longest_in_time_s(5.0, 0.0, noise, late_ratio=0.02), 2) for noise in (0.03, 0.1, 0.2, 0.3)]
    [2.52, 2.44, 2.26, 2.05]
    >>> round(longest_in_time_s(5.0, 4.0, 0.05, late_ratio=0.02), 2), longest_in_time_s(5.0, 6.0, 0.1, late_ratio=0.02)
    (1.08, 0.5)
    """

    def is_in_time(length_s: float) -> bool:
        return late_part(max(interval_s, length_s), length_s, goal_s, noise) <= late_ratio

    return max(largest_that_holds(is_in_time, 0.0, goal_s), MIN_PART_OF_GOAL * goal_s)


def length_among_jumps_s(
    goal_s: float,
    interval_s: float,
    overhead_s: float,
    overruns: Sequence[Overrun],
    *,
    at_most_s: float,
    late_ratio: float,
    noise: float,
) -> float:
    r"""The longest length with which no more than a part of the rows is late on a machine whose speed jumps.

    With :math:`q(d)` the part of the rows that is late in batches of a length :math:`d`, by what the newest batches
    have met (:func:`late_among_jumps`),

    .. math:: \text{rows in time} \propto \Big(1 - \frac{o}{d}\Big) \big(1 - q(d)\big)

    Shorter batches are late less often and have less room for rows. A goal is worth some rows, but not most of them: of
    the rows that the best length has in time all but a tenth must be, and where every such length is late too often,
    the one that is late least is taken. The lengths to choose from are those at which one more would have been late.

    Examples
    --------
    A neighbour makes one batch of eight 1.7 times as long. Batches of 1.85 s are never late for that, which is worth a
    few rows where overhead is 0.2 s. Where it is a second they would have a fifth fewer in time:

    >>> from penstock.estimate.batch_time import Overrun
    >>> steady = [Overrun(1.0, 2.4)] * 7
    >>> spells = [Overrun(1.7, 4.1), *steady]
    >>> def length_s(overhead_s: float, overruns: list[Overrun]) -> float:
    ...     found_s = length_among_jumps_s(
    ...         5.0, 0.0, overhead_s, overruns, at_most_s=2.4, late_ratio=0.02, noise=0.05)
    ...     return round(found_s, 2)
    >>> length_s(0.2, spells), length_s(1.0, spells), length_s(0.2, steady)
    (1.85, 2.4, 2.4)
    """
    factors = np.array([overrun.factor for overrun in overruns])
    all_s = np.minimum(goal_s / (1.0 + factors), max(0.0, goal_s - interval_s) / factors)
    lengths_s = np.append(at_most_s, all_s[(overhead_s < all_s) & (all_s < at_most_s)])
    if len(lengths_s) == 1:
        return at_most_s
    late = _late_among(np.maximum(interval_s, lengths_s), lengths_s, goal_s, overruns, noise)
    in_time = (1.0 - overhead_s / lengths_s) * (1.0 - late)
    best = int(np.argmax(in_time))
    is_worthy = (lengths_s <= lengths_s[best]) & (in_time >= in_time[best] / WORTH)
    is_steady = is_worthy & (late <= late_ratio)
    if is_steady.any():
        return float(lengths_s[is_steady].max())
    return float(lengths_s[is_worthy][np.argmin(late[is_worthy])])


def late_among_jumps(wait_s: float, batch_s: float, goal_s: float, overruns: Sequence[Overrun], noise: float) -> float:
    r"""Part of the rows of a batch that is late on average, by what the newest batches have met.

    Had this batch, of a length :math:`d` and with rows that have waited for up to :math:`w`, taken
    :math:`\varepsilon_i` times as long as predicted, as each of them did, a part of its rows would be late. Scatter
    comes by the batch, and what is more than scatter explains by the clock: a neighbour that came once in batches that
    took :math:`T = \sum t_j` together comes into one of :math:`d / T` of them.

    .. math:: q = \sum_i p_i \min\Big(1, \frac{(d \varepsilon_i - (L - w))^+}{w}\Big), \qquad
        p_i = \begin{cases} d / T & \ln \varepsilon_i > 3 \sigma \\ 1 / n & \text{else} \end{cases}

    Examples
    --------
    A neighbour came into one of sixteen batches, which took half a second each when the load was small. A batch of
    2.4 s will meet the like four times as often:

    >>> from penstock.estimate.batch_time import Overrun
    >>> small = [Overrun(1.7, 0.8), *[Overrun(1.0, 0.5)] * 15]
    >>> large = [Overrun(1.7, 4.1), *[Overrun(1.0, 2.4)] * 15]
    >>> [round(late_among_jumps(2.4, 2.4, 5.0, overruns, 0.05), 3) for overruns in (small, large, small[1:], [])]
    [0.178, 0.037, 0.0, 0.0]
    """
    if not overruns or wait_s <= 0.0:
        return 0.0
    return float(_late_among(np.array([wait_s]), np.array([batch_s]), goal_s, overruns, noise)[0])


def _late_among(
    waits_s: NDArray[np.float64],
    lengths_s: NDArray[np.float64],
    goal_s: float,
    overruns: Sequence[Overrun],
    noise: float,
) -> NDArray[np.float64]:
    """The same for several batches."""
    factors, durations_s = np.array(overruns).T
    by_clock = np.outer(lengths_s, np.full(factors.size, 1.0 / durations_s.sum()))
    chances = np.where(np.log(factors) > HEEDED * noise, by_clock, 1.0 / factors.size)
    too_long_s = np.outer(lengths_s, factors) - (goal_s - waits_s)[:, None]
    late = np.clip(too_long_s / waits_s[:, None], 0.0, 1.0)
    found: NDArray[np.float64] = np.minimum(1.0, (chances * late).sum(axis=1))
    return found


def longest_wait_s(batch_s: float, goal_s: float, noise: float, *, late_ratio: float) -> float:
    """How long rows may have waited when their batch begins, for no more than a part of them to be out too late.

    Examples
    --------
    >>> [round(longest_wait_s(2.0, 5.0, noise, late_ratio=0.02), 2) for noise in (0.0, 0.1, 0.3)]
    [3.06, 2.95, 2.17]
    """
    return largest_that_holds(lambda wait_s: late_part(wait_s, batch_s, goal_s, noise) <= late_ratio, 0.0, goal_s)


def surest_wait_s(span_s: float, batch_s: float, goal_s: float, noise: float, *, old_part: float) -> float:
    r"""The age from which rows are to go first, for the fewest of those that are kept to be late.

    Of rows that have waited for up to :math:`C` a part is kept, and of those older than :math:`W` an ``old_part``
    :math:`\lambda` of that. With :math:`q` the part of rows up to an age that is late (:func:`late_part`) and
    :math:`p` the chance of one of just that age, the part of the kept rows that is late

    .. math:: s(W) = \frac{W q(W) + \lambda\,(C q(C) - W q(W))}{W + \lambda\,(C - W)}
        \quad\text{is smallest where}\quad p(W) = s(W):

    rows count as old from the age on at which one more is as likely to be late as those that are kept are on average.

    Examples
    --------
    Rows that have waited for up to 2.8 s, a batch of 2.8 s, a goal of 5 s. Without scatter all rows up to 2.2 s are in
    time. With a scatter of a third there is no age at which none is late, and the best is younger:

    >>> for noise in (0.0, 0.1, 0.3):
    ...     print(round(surest_wait_s(2.8, 2.8, 5.0, noise, old_part=0.125), 1))
    2.2
    1.7
    1.1
    """
    all_late_s = span_s * late_part(span_s, batch_s, goal_s, noise)

    def is_surer(wait_s: float) -> bool:
        own_late_s = wait_s * late_part(wait_s, batch_s, goal_s, noise)
        late_s = own_late_s + old_part * (all_late_s - own_late_s)
        kept_s = wait_s + old_part * (span_s - wait_s)
        return _chance_late(wait_s, batch_s, goal_s, noise) * kept_s <= late_s

    return largest_that_holds(is_surer, 0.0, span_s, halvings=_THOUSANDTH)


def _chance_late(wait_s: float, batch_s: float, goal_s: float, noise: float) -> float:
    """Chance that a row is late which has waited for so long when its batch begins."""
    room_s = goal_s - wait_s
    if room_s <= 0.0 or noise <= 0.0 or batch_s <= 0.0:
        return 1.0 if batch_s > room_s else 0.0
    return _normal(math.log(batch_s / room_s) / noise - noise / 2)


def useful_length_s(goal_s: float, overhead_s: float, read_load: float) -> float:
    r"""The length with which most rows are out in time each second, where overhead is much of the goal.

    Batches one after the other of length :math:`d > L / 2` have :math:`d - o - \lambda d` for kept rows, with
    :math:`\lambda` the seconds of reading that each second brings, and a part :math:`(L - d) / d` of them in time. Per
    second that is

    .. math:: \frac{((1 - \lambda)\,d - o)(L - d)}{d^2}, \qquad \text{largest at} \qquad
        d = \frac{2\,o\,L}{(1 - \lambda)\,L + o}

    which is more than half of the goal only where the overhead is more than a third of it.

    Examples
    --------
    >>> round(useful_length_s(5.0, 0.2, 0.05), 2), round(useful_length_s(5.0, 2.0, 0.05), 2)
    (0.4, 2.96)
    """
    room = max(0.0, 1.0 - read_load) * goal_s + overhead_s
    return min(goal_s, 2.0 * overhead_s * goal_s / room) if room > 0.0 else goal_s


def keeping_up_s(overhead_s: float, load: float, interval_s: float, *, overhead_part: float) -> float:
    r"""The shortest batches that keep up with what arrives, and a tenth more to catch up.

    A batch of length :math:`d` spends :math:`o` on itself and the rest on the rows that came since the one before
    began: :math:`d = o + \rho \max(P, d)`, with :math:`\rho` the seconds of work that each second brings. Batches so
    long that only a small part of them is overhead gain nothing by being longer. Where even those could not keep up
    there is nothing to be kept up with, and batches get the length at which most of their time goes into rows.

    Examples
    --------
    >>> [round(keeping_up_s(1.6, load, 0.0, overhead_part=0.05), 2) for load in (0.0, 0.6, 0.9, 3.0)]
    [1.76, 4.4, 17.6, 9.6]
    >>> round(keeping_up_s(0.5, 0.3, 4.0, overhead_part=0.05), 2)
    1.87
    """
    if load > 1.0 - overhead_part:
        return overhead_s / OVERLOAD_OVERHEAD_PART
    alone_s = overhead_s / (1.0 - load)
    if alone_s < interval_s:
        alone_s = min(overhead_s + load * interval_s, interval_s / CATCHING_UP)
    return CATCHING_UP * alone_s


def _normal(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2.0))
