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
    :math:`g_i` of its need; a task may rise as far as the instance with the smallest part, and a sink as far as all
    tasks that its rows pass through:

    .. math:: x_q \leftarrow \min\Big(goal_q, \min_{t \text{ before } q}
              \big(ac_t + \min_{i \in t} g_i \,(target_t - ac_t)\big)\Big)

    What was granted and a sink cannot use is free again in the next pass, until nobody rises any more. The paper
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
    if not rising.any():
        return accuracy
    part = _Rising(shape, rising, accuracy, floor, cores, engine_of, available)
    reached, aim = accuracy[rising], goal[rising]
    still = np.ones(reached.size, dtype=bool)
    of_task = part.of_task(reached)
    for _ in range(MOST_PASSES):
        bound, before = part.bounds(of_task, np.where(still, aim, 0.0), share_by), of_task
        risen = np.where(still, np.maximum(reached, np.minimum(aim, bound)), reached)
        still &= (risen < aim - _ROUNDING) & (risen > reached + _ROUNDING)
        reached, of_task = risen, part.of_task(risen)
        if not still.any() or part.cores_of(of_task - before) < _SMALLEST_CORES:
            break
    accuracy[rising] = np.minimum(reached, 1.0)
    return accuracy


class _Rising:
    """The part of a fleet that some sinks depend on, with all else as it is."""

    def __init__(
        self,
        shape: FleetShape,
        rising: Flags,
        accuracy: Floats,
        floor: Floats,
        cores: Floats,
        engine_of: Indices,
        available: Floats,
    ) -> None:
        whole = np.maximum(shape.of_sinks(accuracy), floor)
        taken = rising[shape.pair_sink]
        self._sink = (np.cumsum(rising) - 1)[shape.pair_sink[taken]]
        task = shape.pair_task[taken]
        self._begin = np.flatnonzero(np.r_[True, task[1:] != task[:-1]])
        tasks = task[self._begin]
        place = np.full(len(shape.tasks), -1, dtype=np.intp)
        place[tasks] = np.arange(tasks.size)
        instances = np.flatnonzero(place[shape.task_of] >= 0)
        self._task_of = place[shape.task_of[instances]]
        self._cores, self._engine_of = cores[instances], engine_of[instances]
        # What these tasks have whatever these sinks get: their floor, and what other sinks ask of them.
        others = shape.of_sinks(np.where(rising, 0.0, accuracy))
        self._least = np.maximum(others, floor)[tasks]
        self._pair_task = np.repeat(np.arange(tasks.size), np.diff(np.r_[self._begin, task.size]))
        outside = cores * whole[shape.task_of]
        outside[instances] = 0.0
        self._available = available - by_engine(outside, engine_of, available.size)
        self._sinks = int(rising.sum())

    def of_task(self, accuracy: Floats) -> Floats:
        """Accuracies of the tasks, with these of the sinks."""
        return np.maximum(self._least, np.maximum.reduceat(accuracy[self._sink], self._begin))

    def cores_of(self, of_task: Floats) -> float:
        """Cores of all of it at these accuracies."""
        return float(self._cores @ of_task[self._task_of])

    def bounds(self, of_task: Floats, goal: Floats, share_by: str) -> Floats:
        """How far every sink may rise with what the instances before it are granted of their way to the goal."""
        way = np.maximum(of_task, self.of_task(goal)) - of_task
        need = self._cores * way[self._task_of]
        used = by_engine(self._cores * of_task[self._task_of], self._engine_of, self._available.size)
        granted = _granted(need, self._engine_of, np.maximum(0.0, self._available - used), share_by)
        part = np.ones(need.size)
        np.divide(granted, need, out=part, where=need > _ROUNDING)
        least = np.ones(of_task.size)
        np.minimum.at(least, self._task_of, part)
        of_sink = np.ones(self._sinks)
        np.minimum.at(of_sink, self._sink, (of_task + least * way)[self._pair_task])
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
