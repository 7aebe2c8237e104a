"""CPU that accuracies need, Eq. 6 to 13; in cores, where the paper has percent of one.

CPU and accuracy are taken to be proportional, so a query is known by one number: the cores that it needs to process
all of its input, ``full_cores`` (:func:`full_cores`). Then ``rCpu(t, ac) = ac * full_cores`` (Eq. 8), ``minReqCpu`` and
``maxReqCpu`` are that at minimum and at achievable accuracy (9, 10), and ``obtAc`` is its inverse (11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from penstock.control.fleet.shape import Flags, FleetShape, Floats, Indices


def available_cores(cores: Floats, host_busy_cores: Floats, own_cores: Floats, utilisation: float) -> Floats:
    """Cores of each engine that its queries may have (Algorithm 1, line 2).

    ``aCpu = nCores - cpu(tm) + tCpu(tm)``: all but what foreign processes take, and of the whole no more than the part
    that may be given out.

    Examples
    --------
    An engine of two cores, 1.5 busy, of which its own queries keep 1.1 busy: 0.4 are somebody else's.

    >>> available_cores(np.array([2.0]), np.array([1.5]), np.array([1.1]), 0.9).round(3).tolist()
    [1.4]
    """
    foreign = np.maximum(0.0, host_busy_cores - own_cores)
    return np.maximum(0.0, utilisation * cores - foreign)


def full_cores(
    core_s_per_row: Floats, offered_rows_per_s: Floats, upstream_accuracy: Floats, most_cores: Floats
) -> Floats:
    r"""Cores that each instance needs to process all of its input: Eq. 8 at an accuracy of one.

    .. math:: rCpu(t, 1) = \frac{cpu(t)}{cAc(t)} = \frac{\text{cost of a row} \times \text{rows offered}}{cAc(upstream)}

    What is offered was thinned out before, so it is divided by the accuracy upstream. By the cost of a row, a
    backlog that drains does not count as need, which ``cpu / cAc`` would. The paper stops at one core, the most that
    one thread has; a query of Spark may use all of its engine (``most_cores``).

    Examples
    --------
    >>> one = np.ones(1)
    >>> full_cores(0.001 * one, 300.0 * one, 0.5 * one, 4.0 * one).tolist()
    [0.6]
    """
    needed = core_s_per_row * offered_rows_per_s / np.maximum(upstream_accuracy, 1e-9)
    return np.minimum(needed, most_cores)


def cores_of_siblings(shape: FleetShape, cores: Floats, rows_per_s: Floats, known: Flags) -> Floats:
    """Cores of each task as its instance with the smallest input rate has them (Eq. 6); NaN where none is measured.

    What an instance is expected to need that nobody has measured yet, if others of its task were.

    Examples
    --------
    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> shape = shape_of([FleetQuery(QueryName(name), task="count") for name in ("a", "b", "c")])
    >>> cores_of_siblings(shape, np.array([0.3, 0.5, 0.0]), np.array([90.0, 70.0, 0.0]), np.array([True, True, False]))
    array([0.5])
    """
    found = np.full(len(shape.tasks), np.nan)
    order = np.flatnonzero(known)
    order = order[np.argsort(-rows_per_s[order], kind="stable")]
    found[shape.task_of[order]] = cores[order]  # the last one written, of the smallest rate, stays
    return found


def backlog_cores(core_s_per_row: Floats, backlog_rows: Floats, upstream_accuracy: Floats, drain_s: Floats) -> Floats:
    """Cores that each instance needs beside, at an accuracy of one, to have its backlog gone within ``drain_s``.

    The paper's accuracy knows no queue, so after a change of rate rows wait for ever (section 7.3). Rows that wait
    count here as if they arrived spread over the drain horizon; accuracy falls until they are gone.

    Examples
    --------
    >>> one = np.ones(1)
    >>> backlog_cores(0.001 * one, 2000.0 * one, one, 10.0 * one).tolist()
    [0.2]
    """
    return core_s_per_row * backlog_rows / (np.maximum(upstream_accuracy, 1e-9) * drain_s)


def by_engine(values: Floats, engine_of: Indices, engines: int) -> Floats:
    """Sum over the instances of each engine; those that are nowhere (-1) count for none."""
    placed = engine_of >= 0
    return np.bincount(engine_of[placed], weights=values[placed], minlength=engines).astype(np.float64)


def slack(most_cores: Floats, least_cores: Floats, engine_of: Indices, available: Floats) -> Floats:
    r"""By how much each engine is short of what its instances could use (Eq. 12, 13); below zero where it has room.

    .. math:: slack(tm) = \sum_i (maxReqCpu(t(i)) - minReqCpu(t(i))) - aCpu(tm)

    where ``aCpu`` is what is left beside all minima.

    Examples
    --------
    >>> at = np.array([0, 0])
    >>> slack(np.array([0.8, 0.7]), np.array([0.4, 0.3]), at, np.array([1.0])).round(3).tolist()
    [0.5]
    """
    engines = available.size
    least = by_engine(least_cores, engine_of, engines)
    return by_engine(most_cores - least_cores, engine_of, engines) - (available - least)
