"""What every sink and instance gets of the engines as they are: the main cycle, Algorithm 1 without its moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.fleet.cpu import by_engine
from penstock.control.fleet.sharing import BY_ACCURACY, raise_accuracies

if TYPE_CHECKING:
    from penstock.control.fleet.shape import Flags, FleetShape, Floats, Indices

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class FleetLoad:
    """What the queries of a fleet ask of its engines.

    Parameters
    ----------
    priority, minimum
        Of each sink: its priority and minimum accuracy; all before it inherits the largest (Eq. 1, 2).
    locked
        Sinks that are held to their minimum, because somebody warms up on an engine that they pass through.
    floor
        Accuracy that a task cannot go below: one where it, or what it feeds, has no guard.
    cores
        Of each instance, to process all of its input.
    backlog_cores
        Of each instance, to process all of what waits within the drain horizon.
    engine_of
        Engine of each instance, -1 where it runs nowhere; for one that moves, where it moves to.
    available
        Cores of each engine that may be given out.
    """

    shape: FleetShape
    priority: Indices
    minimum: Floats
    locked: Flags
    floor: Floats
    cores: Floats
    backlog_cores: Floats
    engine_of: Indices
    available: Floats

    @property
    def task_priority(self) -> Indices:
        """Of each task (Eq. 1)."""
        return self.shape.served_priority(self.priority)

    @property
    def task_minimum(self) -> Floats:
        """Of each task (Eq. 2)."""
        return np.maximum(self.shape.of_sinks(self.minimum), self.floor)

    @property
    def least_cores(self) -> Floats:
        """Of each instance, to be at its minimum accuracy (Eq. 9)."""
        return self.cores * self.task_minimum[self.shape.task_of]

    @property
    def short_cores(self) -> Floats:
        """By how much the minima on each engine exceed what it has; below zero where they fit."""
        return by_engine(self.least_cores, self.engine_of, self.available.size) - self.available


@dataclass(frozen=True, slots=True)
class FleetShares:
    """What was given out: accuracies of sinks and of tasks, and cores of instances."""

    accuracy: Floats
    task_accuracy: Floats
    granted_cores: Floats


def share_out(load: FleetLoad, share_by: str = BY_ACCURACY) -> FleetShares:
    """Minima first, then priorities from the highest down; a backlog counts at the priority of its query.

    Where the minima of an engine do not fit, those of high priority are served first, and what is left is below its
    minimum; a minimum is a promise, so the keep ratios that follow stay at it, and the fleet says what is infeasible.

    Examples
    --------
    >>> from penstock.control.fleet.shape import shape_of
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.query import QueryName
    >>> shape = shape_of([FleetQuery(QueryName("high")), FleetQuery(QueryName("low"))])
    >>> load = FleetLoad(shape, np.array([9, 1]), np.array([0.5, 0.2]), np.zeros(2, dtype=bool), np.zeros(2),
    ...                  np.array([0.7, 1.0]), np.zeros(2), np.zeros(2, dtype=np.intp), np.ones(1))
    >>> share_out(load).accuracy.round(3).tolist()
    [1.0, 0.3]
    """
    shape = load.shape
    accuracy, floor = load.minimum.copy(), load.floor
    if (load.short_cores > _ROUNDING).any():
        accuracy = _what_fits_of_the_minima(load, share_by)
        floor = np.minimum(load.floor, shape.of_sinks(accuracy))
    cores = load.cores.copy()
    priority_of = load.task_priority[shape.task_of]
    for level in np.unique(load.priority)[::-1]:
        of_task = np.maximum(shape.of_sinks(accuracy), floor)
        at_level = priority_of == level
        if load.backlog_cores[at_level].any():
            cores = _with_backlog(load, cores, of_task, at_level)
        accuracy = raise_accuracies(
            shape, accuracy=accuracy, goal=np.ones(accuracy.size), rising=(load.priority == level) & ~load.locked,
            floor=floor, cores=cores, engine_of=load.engine_of, available=load.available, share_by=share_by,
        )  # fmt: skip
    of_task = np.maximum(shape.of_sinks(accuracy), floor)
    return FleetShares(accuracy, of_task, np.where(load.engine_of >= 0, cores * of_task[shape.task_of], 0.0))


def _what_fits_of_the_minima(load: FleetLoad, share_by: str) -> Floats:
    accuracy = np.zeros(load.minimum.size)
    for level in np.unique(load.priority)[::-1]:
        accuracy = raise_accuracies(
            load.shape, accuracy=accuracy, goal=load.minimum, rising=load.priority == level,
            floor=np.zeros(len(load.shape.tasks)), cores=load.cores, engine_of=load.engine_of,
            available=load.available, share_by=share_by,
        )  # fmt: skip
    return accuracy


def _with_backlog(load: FleetLoad, cores: Floats, of_task: Floats, at_level: Flags) -> Floats:
    """Cores of an accuracy of one with as much of the backlog as its engine has room for."""
    now = of_task[load.shape.task_of]
    engines = load.available.size
    wanted = by_engine(np.where(at_level, load.backlog_cores * now, 0.0), load.engine_of, engines)
    room = np.maximum(0.0, load.available - by_engine(cores * now, load.engine_of, engines))
    part = np.ones(engines)
    np.divide(room, wanted, out=part, where=wanted > room)
    return np.where(at_level & (load.engine_of >= 0), cores + load.backlog_cores * part[load.engine_of], cores)
