"""The graph of a fleet as arrays, so that a plan takes no loop over queries."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidGraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from penstock.model.fleet import FleetQuery

    Floats = NDArray[np.float64]
    Indices = NDArray[np.intp]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FleetShape:
    """Tasks, their instances, and who reads whom; built when queries come or go, used by every plan.

    Parameters
    ----------
    tasks
        Names of the tasks.
    task_of
        Task of each instance (query), in the order of the queries.
    edge_from, edge_to, edge_level
        Task that writes, task that reads, and the depth of the reader: levels are taken one after another.
    sinks
        Tasks that nobody reads: the paper's queries.
    pair_task, pair_sink
        Every task with every sink behind it, sorted by task; ``pair_sink`` counts in ``sinks``. A sink is behind
        itself.
    pair_begin
        Where each task's pairs begin; every task has at least one.
    input_instance, input_stream
        One entry for each stream that a query reads.
    input_writer
        One task that writes the stream, the one that the keep ratio is reckoned from; -1 for a stream from outside.
    """

    tasks: tuple[str, ...]
    task_of: Indices
    instances: Indices
    edge_from: Indices
    edge_to: Indices
    edge_level: Indices
    sinks: Indices
    pair_task: Indices
    pair_sink: Indices
    pair_begin: Indices
    input_instance: Indices
    input_stream: tuple[str, ...]
    input_writer: Indices
    input_producers: tuple[tuple[str, ...], ...]

    @property
    def depth(self) -> int:
        """The deepest level that reads another task."""
        return int(self.edge_level.max(initial=0))

    def of_sinks(self, values: Floats) -> Floats:
        """For every task the largest value of the sinks behind it (Eq. 1, 2, 5 and 14, of which each is this maximum).

        Examples
        --------
        >>> from penstock.model.fleet import FleetQuery
        >>> from penstock.model.query import QueryName
        >>> shape = shape_of([
        ...     FleetQuery(QueryName("src"), reads=("topic:in",), writes=("drives",)),
        ...     FleetQuery(QueryName("one"), reads=("drives",)),
        ...     FleetQuery(QueryName("two"), reads=("drives",)),
        ... ])
        >>> shape.of_sinks(np.array([0.4, 0.6])).tolist()
        [0.6, 0.4, 0.6]
        """
        if not self.pair_sink.size:
            return np.zeros(len(self.tasks))
        return np.maximum.reduceat(values[self.pair_sink], self.pair_begin)

    def served_priority(self, priority: Indices) -> Indices:
        """For every task the highest priority of the sinks behind it (Eq. 1), which are given one each."""
        return self.of_sinks(priority.astype(float)).astype(np.intp)

    def upstream_least(self, values: Floats, *, outside: float = 1.0) -> Floats:
        """For every task the smallest value of the tasks that it reads; ``outside`` where it reads none."""
        least = np.full(len(self.tasks), np.inf)
        np.minimum.at(least, self.edge_to, values[self.edge_from])
        return np.where(np.isinf(least), outside, least)


def shape_of(queries: Sequence[FleetQuery]) -> FleetShape:
    """The graph of these queries; one that leads back to itself is an error."""
    task_index: dict[str, int] = {}
    for query in queries:
        task_index.setdefault(query.task_name, len(task_index))
    count = len(task_index)
    task_of = np.fromiter((task_index[query.task_name] for query in queries), dtype=np.intp, count=len(queries))
    writers: dict[str, dict[int, None]] = defaultdict(dict)
    names: dict[str, list[str]] = defaultdict(list)
    for query in queries:
        for stream in query.writes:
            writers[stream][task_index[query.task_name]] = None
            names[stream].append(query.name)
    edges = {
        (writer, task_index[query.task_name])
        for query in queries
        for stream in query.reads
        for writer in writers.get(stream, ())
    }
    edge_from = np.array([edge[0] for edge in edges], dtype=np.intp)
    edge_to = np.array([edge[1] for edge in edges], dtype=np.intp)
    level = _levels(tuple(task_index), edge_from, edge_to)
    is_sink = np.ones(count, dtype=bool)
    is_sink[edge_from] = False
    sinks = np.flatnonzero(is_sink)
    pair_task, pair_sink = _closure(count, edge_from, edge_to, level, sinks)
    inputs = [(place, stream) for place, query in enumerate(queries) for stream in query.reads]
    return FleetShape(
        tasks=tuple(task_index),
        task_of=task_of,
        instances=np.bincount(task_of, minlength=count),
        edge_from=edge_from,
        edge_to=edge_to,
        edge_level=level[edge_to] if edges else np.zeros(0, dtype=np.intp),
        sinks=sinks,
        pair_task=pair_task,
        pair_sink=pair_sink,
        pair_begin=np.searchsorted(pair_task, np.arange(count)),
        input_instance=np.array([place for place, _ in inputs], dtype=np.intp),
        input_stream=tuple(stream for _, stream in inputs),
        input_writer=np.array([next(iter(writers.get(stream, ())), -1) for _, stream in inputs], dtype=np.intp),
        input_producers=tuple(tuple(names.get(stream, ())) for _, stream in inputs),
    )


def _levels(tasks: Sequence[str], edge_from: Indices, edge_to: Indices) -> Indices:
    """Depth of each task: one more than the deepest that it reads."""
    waiting = np.bincount(edge_to, minlength=len(tasks)).tolist()
    readers: dict[int, list[int]] = defaultdict(list)
    for writer, reader in zip(edge_from.tolist(), edge_to.tolist(), strict=True):
        readers[writer].append(reader)
    level = [0] * len(tasks)
    ready = deque(task for task, count in enumerate(waiting) if count == 0)
    seen = 0
    while ready:
        task = ready.popleft()
        seen += 1
        for reader in readers[task]:
            level[reader] = max(level[reader], level[task] + 1)
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if seen < len(tasks):
        stuck = next(task for task, count in enumerate(waiting) if count > 0)
        raise InvalidGraphError(
            f"query {tasks[stuck]!r} of the fleet reads what comes from itself; a stream must not lead back to a query "
            "that it came from"
        )
    return np.array(level, dtype=np.intp)


def _closure(
    count: int, edge_from: Indices, edge_to: Indices, level: Indices, sinks: Indices
) -> tuple[Indices, Indices]:
    """Every task with every sink behind it, from the deepest level up."""
    sink_place = np.full(count, -1, dtype=np.intp)
    sink_place[sinks] = np.arange(sinks.size)
    tasks, behind = [sinks], [sink_place[sinks]]
    found: dict[int, set[int]] = {task: {place} for place, task in enumerate(sinks.tolist())}
    readers: dict[int, list[int]] = defaultdict(list)
    for writer, reader in zip(edge_from.tolist(), edge_to.tolist(), strict=True):
        readers[writer].append(reader)
    for task in sorted(readers, key=lambda one: -int(level[one])):
        found[task] = set().union(*(found[reader] for reader in readers[task]))
        tasks.append(np.full(len(found[task]), task, dtype=np.intp))
        behind.append(np.array(sorted(found[task]), dtype=np.intp))
    all_tasks, all_sinks = np.concatenate(tasks), np.concatenate(behind)
    order = np.lexsort((all_sinks, all_tasks))
    return all_tasks[order], all_sinks[order]
