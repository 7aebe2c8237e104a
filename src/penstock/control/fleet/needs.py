"""What the queries of a fleet ask of its engines, out of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.fleet.accuracy import current_accuracy, local_accuracy
from penstock.control.fleet.cpu import available_cores, backlog_cores, by_engine, cores_of_siblings, full_cores
from penstock.control.fleet.plan import FleetLoad
from penstock.control.fleet.shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.control.fleet.engines import EngineBook
    from penstock.control.fleet.shape import Flags, FleetShape, Floats, Indices
    from penstock.control.fleet.table import QueryTable
    from penstock.model.fleet import FleetQuery
    from penstock.model.query import QueryName
    from penstock.settings import FleetSettings


@dataclass(frozen=True, slots=True)
class FleetGraph:
    """Graph and goals as arrays; made anew when queries or goals change."""

    shape: FleetShape
    priority: Indices
    minimum: Floats
    floor: Floats
    drain_s: Floats


def served_priorities(queries: Sequence[FleetQuery]) -> dict[QueryName, int]:
    """Of each query, the highest priority of the results that its rows go into (Eq. 1).

    Examples
    --------
    >>> from penstock.model.fleet import FleetQuery
    >>> from penstock.model.goal import Goal
    >>> from penstock.model.query import QueryName
    >>> parse = FleetQuery(QueryName("parse"), reads=("topic:in",), writes=("drives",))
    >>> detours = FleetQuery(QueryName("detours"), Goal(priority=9), reads=("drives",))
    >>> served_priorities([parse, detours])
    {'parse': 9, 'detours': 9}
    """
    shape = shape_of(queries)
    served = shape.served_priority(_task_priority(shape, queries)[shape.sinks])[shape.task_of]
    return {query.name: priority for query, priority in zip(queries, served.tolist(), strict=True)}


def _task_priority(shape: FleetShape, queries: Sequence[FleetQuery]) -> Indices:
    """Of each task, the highest that one of its instances is given."""
    priority = np.zeros(len(shape.tasks), dtype=np.intp)
    np.maximum.at(priority, shape.task_of, np.array([query.goal.priority for query in queries], dtype=np.intp))
    return priority


def graph_of(queries: Sequence[FleetQuery], settings: FleetSettings) -> FleetGraph:
    """Graph, priorities and minima of these queries.

    The goal of a sink is the strictest of its instances; goals of tasks that others read do not count, they inherit
    (Eq. 1, 2). A query with a latency goal has its backlog drained within half of it: the other half is its batches.
    """
    shape = shape_of(queries)
    tasks = len(shape.tasks)
    priority, minimum, unguarded = _task_priority(shape, queries), np.zeros(tasks), np.zeros(tasks)
    least = np.array([query.goal.minimum_accuracy if query.is_guarded else 1.0 for query in queries])
    np.maximum.at(minimum, shape.task_of, least)
    np.maximum.at(unguarded, shape.task_of, np.array([0.0 if query.is_guarded else 1.0 for query in queries]))
    drain_s = np.array([min(settings.drain_s, (query.goal.latency_s or np.inf) / 2) for query in queries])
    floor = _with_upstream(shape, unguarded)
    return FleetGraph(shape, priority[shape.sinks], minimum[shape.sinks], floor, drain_s)


def _with_upstream(shape: FleetShape, floor: Floats) -> Floats:
    """What one without a guard takes in, those before it must let through: it cannot do with less."""
    floor = floor.copy()
    for depth in range(shape.depth, 0, -1):
        edges = shape.edge_level == depth
        np.maximum.at(floor, shape.edge_from[edges], floor[shape.edge_to[edges]])
    return floor


def load_of(
    graph: FleetGraph, table: QueryTable, engines: EngineBook, settings: FleetSettings, warming: Indices
) -> FleetLoad:
    """What all queries ask for now.

    ``warming`` is the highest priority that warms up on each engine, 0 for none, and at last for nowhere.
    """
    shape = graph.shape
    engine_of = table["engine"].astype(np.intp)
    arrived = table["arrived_rows_per_s"]
    current = current_accuracy(shape, local_accuracy(shape, table["kept_rows_per_s"], arrived))
    upstream = shape.upstream_least(current)[shape.task_of]
    own = by_engine(table["cores"], engine_of, len(engines.names))
    available = available_cores(engines.cores, own + engines.foreign_cores, own, settings.utilisation)
    most = np.where(engine_of >= 0, engines.cores[engine_of], engines.cores.max(initial=1.0))
    cost, known = np.nan_to_num(table["core_s_per_row"]), table.known
    # A backlog that drains may ask for the whole engine at the most; what is needed all the time has no such bound, or
    # accuracy would be taken for full where it is not.
    cores = full_cores(cost, arrived, upstream, np.full(arrived.size, np.inf))
    siblings = cores_of_siblings(shape, cores, arrived, known)[shape.task_of]
    cores = np.where(known, cores, np.nan_to_num(siblings))
    waiting = np.maximum(0.0, np.nan_to_num(table["backlog_rows"]) - settings.waiting_s * arrived)
    return FleetLoad(
        shape=shape,
        priority=graph.priority,
        minimum=graph.minimum,
        locked=_locked(graph, engine_of, warming),
        floor=graph.floor,
        cores=cores,
        backlog_cores=np.minimum(backlog_cores(cost, waiting, upstream, graph.drain_s), most),
        engine_of=engine_of,
        available=available,
    )


def _locked(graph: FleetGraph, engine_of: Indices, warming: Indices) -> Flags:
    """Sinks of no higher priority than one that warms up on an engine of any task before them."""
    shape = graph.shape
    if not warming.any():
        return np.zeros(shape.sinks.size, dtype=bool)
    beside = np.zeros(len(shape.tasks), dtype=np.intp)
    np.maximum.at(beside, shape.task_of, warming[engine_of])
    highest = np.zeros(shape.sinks.size, dtype=np.intp)
    np.maximum.at(highest, shape.pair_sink, beside[shape.pair_task])
    return np.asarray(highest >= graph.priority)
