"""Which instances leave an engine that cannot give all of them their minimum, Algorithm 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from penstock.control.fleet.shape import Flags, Floats, Indices

_ROUNDING = 1e-9


def choose_victims(priority: Indices, least_cores: Floats, needed_cores: float) -> Flags:
    r"""Instances of one engine that are to leave it so that at least ``needed_cores`` become free.

    First candidates are gathered from the lowest priority up, whole priorities at a time, until together they would
    release enough. Then those are spared that are not needed, from the highest priority and the largest down:

    .. math:: \text{spare } i \iff \sum_{j \text{ not spared}} least_j - least_i \ge needed

    So no one that leaves could have stayed, nobody leaves while one of lower priority that would do is left, and within
    the highest priority that is touched no set that would do has a smaller largest member. Where all together do not
    suffice, all leave that may.

    Algorithm 2 as printed goes through ``priorities(tm)``, which is descending: the most important would leave first.
    And on ``fail(i)`` it lowers ``cpu`` while ``rel`` still counts ``i``: with two of 0.6 and 1.0 to release it fails
    one and spares the other. ``test_the_printed_algorithm_2_fails`` shows both.

    A run of instances that are spared one after another is found by one cumulative sum; what is left to spare halves at
    least from one run to the next, so there are few.

    Examples
    --------
    The need is 1.0, and both of 0.6 have to go; the one of high priority stays.

    >>> choose_victims(np.array([1, 1, 9]), np.array([0.6, 0.6, 0.9]), 1.0).tolist()
    [True, True, False]
    >>> choose_victims(np.array([1, 1, 1]), np.array([0.1, 0.2, 0.6]), 0.25).tolist()
    [True, True, False]
    """
    leaves = np.zeros(least_cores.size, dtype=bool)
    if needed_cores <= _ROUNDING or not least_cores.size:
        return leaves
    up = np.argsort(priority, kind="stable")
    released = np.cumsum(least_cores[up])
    enough = int(np.searchsorted(released, needed_cores - _ROUNDING))
    top = priority[up[min(enough, up.size - 1)]]
    leaves[priority <= top] = True
    spare_cores = float(least_cores[leaves].sum()) - needed_cores
    candidates = np.flatnonzero(leaves)
    order = candidates[np.lexsort((-least_cores[candidates], -priority[candidates]))]
    leaves[_spared(order, least_cores, spare_cores)] = False
    return leaves


def _spared(order: Indices, cores: Floats, spare_cores: float) -> Indices:
    """Instances, in the order in which they are looked at, that fit into what is released too much."""
    spared = []
    sizes = cores[order]
    at = 0
    while True:
        fits = np.flatnonzero(sizes[at:] <= spare_cores + _ROUNDING)
        if not fits.size:
            break
        begin = at + int(fits[0])
        run = int(np.searchsorted(np.cumsum(sizes[begin:]), spare_cores + _ROUNDING, side="right"))
        spared.append(order[begin : begin + run])
        spare_cores -= float(sizes[begin : begin + run].sum())
        at = begin + run
    return np.concatenate(spared) if spared else np.zeros(0, dtype=np.intp)
