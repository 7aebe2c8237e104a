"""Random fleets for tests: graphs, engines and loads."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from penstock.control.fleet.plan import FleetLoad
from penstock.control.fleet.shape import shape_of
from penstock.model.fleet import FleetQuery
from penstock.model.query import QueryName

few_cores = st.floats(0.01, 1.5)
ratios = st.floats(0.0, 1.0)


@st.composite
def fleet_queries(draw: st.DrawFn, *, most_tasks: int, joined: bool) -> list[FleetQuery]:
    """Tasks of one or two instances, each of which reads some of the tasks before it."""
    queries = []
    for task in range(draw(st.integers(1, most_tasks))):
        before = draw(st.sets(st.integers(0, task - 1), max_size=2)) if task and joined else set()
        reads = tuple(f"stream{each}" for each in sorted(before)) or (f"topic:{task}",)
        for instance in range(draw(st.integers(1, 2))):
            name = QueryName(f"task{task}-{instance}")
            queries.append(FleetQuery(name, reads=reads, writes=(f"stream{task}",), task=f"task{task}"))
    return queries


@st.composite
def fleet_loads(
    draw: st.DrawFn,
    *,
    with_backlog: bool = False,
    with_floor: bool = False,
    joined: bool = True,
    most_tasks: int = 7,
    most_cores: float = 4.0,
) -> FleetLoad:
    """What a random fleet asks of random engines; some minima fit, some do not."""
    shape = shape_of(draw(fleet_queries(most_tasks=most_tasks, joined=joined)))
    instances, sinks, tasks = shape.task_of.size, shape.sinks.size, len(shape.tasks)
    engines = draw(st.integers(1, 3))
    backlog = draw(_floats(instances, st.floats(0.0, 1.0))) if with_backlog else np.zeros(instances)
    return FleetLoad(
        shape=shape,
        priority=np.array(draw(st.lists(st.integers(1, 3), min_size=sinks, max_size=sinks)), dtype=np.intp),
        minimum=draw(_floats(sinks, ratios)) * draw(st.sampled_from([0.2, 0.6, 1.0])),
        locked=np.zeros(sinks, dtype=bool),
        floor=draw(_floats(tasks, st.sampled_from([0.0, 0.0, 1.0]))) if with_floor else np.zeros(tasks),
        cores=draw(_floats(instances, few_cores)),
        backlog_cores=backlog,
        engine_of=np.array(
            draw(st.lists(st.integers(0, engines - 1), min_size=instances, max_size=instances)), dtype=np.intp
        ),
        available=draw(_floats(engines, st.floats(0.1, most_cores))),
    )


def _floats(
    count: int, values: st.SearchStrategy[float]
) -> st.SearchStrategy[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    return st.lists(values, min_size=count, max_size=count).map(lambda drawn: np.array(drawn, dtype=float))
