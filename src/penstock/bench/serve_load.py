"""Stores with the history of many queries, and their growth: what the service is measured on."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.model import APPLICATION, Metric, Mode, QueryName, SeriesPoint
from penstock.model.decision import Executors, Govern, Hold, Infeasible, KeepRatio, ReadLimit, to_action
from penstock.model.query import LimitUnit
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.model.decision import Decision
    from penstock.store import Store

_GOAL_S = 10.0
_BASE_ROWS_PER_S = 2_000.0
_SHED_FROM = 1.25


def query_names(count: int) -> list[QueryName]:
    """Names as people give them, in groups.

    Examples
    --------
    >>> query_names(3)
    ['clicks-0000', 'orders-0001', 'rides-0002']
    """
    groups = ("clicks", "orders", "rides", "sensors", "payments")
    return [QueryName(f"{groups[place % len(groups)]}-{place:04d}") for place in range(count)]


def load_at(place: int, time_s: float) -> float:
    """Load of a query relative to what it can process: two waves, of its own phase."""
    return 0.8 + 0.5 * math.sin(time_s / 300.0 + place) + 0.15 * math.sin(time_s / 41.0 + 2.3 * place)


def sample(place: int, name: QueryName, time_s: float, batch_id: int) -> Iterator[SeriesPoint]:
    """What one batch of a query leaves in the store."""
    load = max(0.05, load_at(place, time_s))
    keep = 1.0 if load < _SHED_FROM else _SHED_FROM / load
    latency_s = _GOAL_S * (0.25 + 0.5 * min(load, 1.5))
    values = {
        Metric.BATCH_ROWS: _BASE_ROWS_PER_S * load * 5.0,
        Metric.BATCH_DURATION_S: 0.4 * latency_s,
        Metric.ARRIVAL_ROWS_PER_S: _BASE_ROWS_PER_S * load,
        Metric.PROCESSED_ROWS_PER_S: _BASE_ROWS_PER_S * load * keep,
        Metric.LAG_ROWS: _BASE_ROWS_PER_S * load * latency_s * 0.4,
        Metric.KEEP_RATIO: keep,
        Metric.MEASURED_ACCURACY: keep,
        Metric.OLDEST_ROW_AGE_S: latency_s,
        Metric.BATCH_OVERHEAD_S: 0.3,
        Metric.COST_PER_ROW_S: 0.4 / _BASE_ROWS_PER_S,
    }
    for metric, value in values.items():
        yield SeriesPoint(time_s, name, metric, value, batch_id)


def begin(store: Store, names: list[QueryName], time_s: float) -> None:
    """Every query is governed, the executors are decided, and some goals are infeasible."""
    first: list[Decision] = [
        Executors(cause="start", reason="4 executors for the load of 0.8", executors=4, previous_executors=4)
    ]
    for place, name in enumerate(names):
        first.append(
            Govern(
                query=name,
                cause="start",
                reason=f"rows may be {_GOAL_S:g} s old, so a batch may take 4.20 s",
                query_id=f"id-{place}",
                latency_s=_GOAL_S,
                minimum_accuracy=0.5,
                priority=1 + place % 10,
                weight=1.0,
            )
        )
        first.append(
            ReadLimit(
                query=name,
                cause="start",
                reason="model uncertain: probing with 1,000 rows",
                source=0,
                units=1_000,
                limit_unit=LimitUnit.ROWS,
            )
        )
    store.append_all([to_action(decision) for decision in first], time_s=time_s, mode=Mode.ACT)


def decide(place: int, name: QueryName, time_s: float, batch_id: int) -> Iterator[Decision]:
    """What is decided now and then."""
    load = max(0.05, load_at(place, time_s))
    keep = 1.0 if load < _SHED_FROM else _SHED_FROM / load
    yield ReadLimit(
        query=name, cause=f"batch {batch_id}", source=0, units=round(9_000 * load), previous_units=10_000,
        limit_unit=LimitUnit.ROWS, reason=f"{9_000 * load:,.0f} rows fit into a batch of 4.2 s at 0.2 ms a row",
        expected={"batch_duration_s": 4.2},
    )  # fmt: skip
    yield KeepRatio(
        query=name, cause=f"batch {batch_id}", batch_id=batch_id, keep_ratio=keep, keep_floor=0.5,
        reason=f"{load:.0%} of what fits arrives" if keep < 1 else "everything fits", everything=keep >= 1,
        expected={"oldest_row_age_s": 8.0},
    )  # fmt: skip
    if place % 97 == 1:
        yield Infeasible(
            query=name, cause=f"batch {batch_id}",
            reason="a batch without rows takes 6.1 s of the 5 s that the goal leaves: a latency goal from 13 s on fits",
        )  # fmt: skip
    elif batch_id % 7 == 0:
        yield Hold(query=name, cause=f"batch {batch_id}", reason="within goal: 6.4 s of 10 s")


def engine_points(time_s: float) -> Iterator[SeriesPoint]:
    """What is seen of the executors."""
    busy = 0.62 + 0.2 * math.sin(time_s / 300.0)
    yield SeriesPoint(time_s, APPLICATION, Metric.EXECUTORS_SERVING, 4.0 + round(math.sin(time_s / 600.0)))
    for number in range(4):
        yield SeriesPoint(
            time_s, APPLICATION, Metric.EXECUTOR_BUSY_FRACTION, min(1.0, busy + 0.03 * number), subject=str(number)
        )


def write_history(path: Path, *, queries: int, seconds: float, until_s: float, every_s: float = 5.0) -> None:
    """A store with the history of so many queries, a batch of each every so many seconds."""
    names = query_names(queries)
    with SqliteStore(path) as store:
        begin(store, names, until_s - seconds)
        steps = int(seconds / every_s)
        for step in range(steps + 1):
            grow(store, names, until_s - seconds + step * every_s, step)


def grow(store: Store, names: list[QueryName], time_s: float, batch_id: int) -> None:
    """One more batch of every query, with a decision about a twelfth of them."""
    points = [point for place, name in enumerate(names) for point in sample(place, name, time_s, batch_id)]
    store.append_points([*points, *engine_points(time_s)])
    chosen = [
        decision
        for place, name in enumerate(names)
        if (place + batch_id) % 12 == 0
        for decision in decide(place, name, time_s, batch_id)
    ]
    if chosen:
        store.append_all([to_action(decision) for decision in chosen], time_s=time_s, mode=Mode.ACT)


def write_large(path: Path, *, actions: int, points: int, queries: int, until_s: float) -> None:
    """A store of a given size, row by row what :func:`write_history` writes, inserted at one go."""
    write_history(path, queries=queries, seconds=60.0, until_s=until_s)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for table, identity, wanted in (("actions", "action_id", actions), ("series", "point_id", points)):
            columns = [
                row[1]
                for row in connection.execute(f"PRAGMA table_info({table})")
                if row[1] not in {identity, "time_s"}
            ]
            listed = ", ".join(columns)
            (there,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - names from above
            copies = max(0, -(-(wanted - there) // there))
            # Copies lie before what is there, a minute each, and are inserted oldest first.
            connection.execute(
                f"""
                WITH RECURSIVE copies (number) AS (
                    SELECT ? UNION ALL SELECT number - 1 FROM copies WHERE number > 1
                )
                INSERT INTO {table} (time_s, {listed})
                SELECT time_s - 61.0 * number, {listed} FROM copies CROSS JOIN {table} WHERE {identity} <= ?
                """,  # noqa: S608 - names from above
                (copies, there),
            )
        connection.commit()
