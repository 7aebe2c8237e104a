"""Who gets the CPU beyond the minima: by priority, and alike among equals. Algorithm 3 and lines 15 to 19 of 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.control.fleet.cpu import by_engine

if TYPE_CHECKING:
    from penstock.control.fleet.shape import Flags, FleetShape, Floats, Indices

BY_ACCURACY, BY_CPU = "accuracy", "cpu"
_ROUNDING = 1e-9
_SMALLEST_CORES = 1e-6
MOST_PASSES = 30
"""Nearly every pass fills an engine; each leaves less to give than the one before, and most fleets need three."""


def raise_accuracies(
    shape: FleetShape,
    *,
    accuracy: Floats,
    goal: Floats,
    rising: Flags,
    floor: Floats,
    cores: Floats,
    engine_of: Indices,
    available: Floats,
    share_by: str = BY_ACCURACY,
) -> Floats:
    r"""Accuracies of all sinks, those that are ``rising`` as near to their ``goal`` as their engines allow.

    A task has the accuracy of the best sink behind it, so an instance needs ``cores * (target - accuracy)`` more for
    its task to rise to the target. Where an engine has less room than its instances need, each is granted a part
    :math:`g_i` of its need; a sink rises by the smallest part of all that its rows pass through:

    .. math:: x_q \leftarrow x_q + \min_{i \text{ before } q} g_i \,(goal_q - x_q)

    What others granted and a sink cannot use is free again in the next pass, until nobody rises any more. The paper
    goes through engines one by one, largest slack first, so as not to go back on what is given; passes over all at
    once need no order, leave nothing unused, and take no loop over engines.

    Among equals, ``share_by`` says what is alike. ``"accuracy"``: :math:`g_i` is the same for all of an engine, so all
    lose the same part of what lies between their minimum and all. ``"cpu"``: all get the same CPU, and none more than
    it can use (Algorithm 3).

    Parameters
    ----------
    accuracy, goal, rising
        Of each sink: where it is, where it would be, and whether it takes part.
    floor
        Accuracy below which each task cannot be, whatever its sinks have: one without a guard keeps all.
    cores
        Of each instance, for an accuracy of one.

    Examples
    --------
    One core, two sinks that need 0.8 each: alike they get 0.625, by CPU the one that needs little gets all.

    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> shape = shape_of([FleetQuery(QueryName("a")), FleetQuery(QueryName("b"))])
    >>> same = dict(accuracy=np.zeros(2), goal=np.ones(2), rising=np.ones(2, dtype=bool), floor=np.zeros(2),
    ...             engine_of=np.zeros(2, dtype=np.intp), available=np.ones(1))
    >>> raise_accuracies(shape, cores=np.array([0.8, 0.8]), **same).round(3).tolist()
    [0.625, 0.625]
    >>> raise_accuracies(shape, cores=np.array([0.4, 0.8]), share_by="cpu", **same).round(3).tolist()
    [1.0, 0.75]
    """
    accuracy = accuracy.copy()
    rising = rising & (goal > accuracy + _ROUNDING)
    for _ in range(MOST_PASSES):
        if not rising.any():
            break
        of_task = np.maximum(shape.of_sinks(accuracy), floor)
        target = np.maximum(of_task, shape.of_sinks(np.where(rising, goal, 0.0)))
        need = cores * (target - of_task)[shape.task_of]
        room = np.maximum(0.0, available - by_engine(cores * of_task[shape.task_of], engine_of, available.size))
        granted = _granted(need, engine_of, room, share_by)
        part = _least_part(shape, need, granted)
        rise = np.where(rising, part * (goal - accuracy), 0.0)
        accuracy += rise
        rising &= (part < 1.0 - _ROUNDING) & (part > _ROUNDING)
        if float((cores * (shape.of_sinks(accuracy) - of_task)[shape.task_of]).max(initial=0.0)) < _SMALLEST_CORES:
            break
    return np.minimum(accuracy, 1.0)


def _least_part(shape: FleetShape, need: Floats, granted: Floats) -> Floats:
    """For every sink the smallest granted part of all instances before it."""
    part = np.ones(need.size)
    np.divide(granted, need, out=part, where=need > _ROUNDING)
    of_task = np.ones(len(shape.tasks))
    np.minimum.at(of_task, shape.task_of, part)
    of_sink = np.ones(shape.sinks.size)
    np.minimum.at(of_sink, shape.pair_sink, of_task[shape.pair_task])
    return of_sink


def _granted(need: Floats, engine_of: Indices, room: Floats, share_by: str) -> Floats:
    placed = engine_of >= 0
    if share_by == BY_CPU:
        return np.where(placed, _same_cpu(need, np.where(placed, engine_of, 0), room, placed), need)
    needed = by_engine(need, engine_of, room.size)
    part = np.ones(room.size)
    np.divide(room, needed, out=part, where=needed > room)
    return np.where(placed, need * part[engine_of], need)


def _same_cpu(need: Floats, engine_of: Indices, room: Floats, counts: Flags) -> Floats:
    """Of each engine's room the same for all that need more than that, and to the others what they need."""
    granted = np.zeros(need.size)
    wanting = np.flatnonzero(counts & (need > _ROUNDING))
    order = wanting[np.lexsort((need[wanting], engine_of[wanting]))]
    if not order.size:
        return granted
    engine, sizes = engine_of[order], need[order]
    begin = np.flatnonzero(np.r_[True, engine[1:] != engine[:-1]])
    lengths = np.diff(np.r_[begin, order.size])
    before = np.cumsum(sizes) - sizes
    before -= np.repeat(before[begin], lengths)  # what smaller ones of the same engine need
    left = np.repeat(lengths, lengths) - (np.arange(order.size) - np.repeat(begin, lengths))
    level = (room[engine] - before) / left
    # Up to the first that needs more than its level all are served; from there on all get the level of that one.
    short = sizes > level
    first = np.minimum.reduceat(np.where(short, np.arange(order.size), order.size), begin)
    levels = np.where(first < order.size, level[np.minimum(first, order.size - 1)], np.inf)
    granted[order] = np.minimum(sizes, np.repeat(np.maximum(levels, 0.0), lengths))
    return granted
