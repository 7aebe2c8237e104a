"""Queries of a fleet as plain data, for snapshots and for the way between control side and engines."""

from __future__ import annotations

from typing import Any

from penstock.model.fleet import FleetQuery
from penstock.model.goal import Goal
from penstock.model.query import QueryName


def query_to_dict(query: FleetQuery) -> dict[str, Any]:
    """A query as JSON can hold it.

    Examples
    --------
    >>> query = FleetQuery(QueryName("clicks"), Goal(latency="5 seconds", priority=3), reads=("topic:clicks",))
    >>> query_from_dict(query_to_dict(query)) == query
    True
    """
    goal = query.goal
    return {
        "name": str(query.name),
        "goal": {
            "latency": goal.latency,
            "minimum_accuracy": goal.minimum_accuracy,
            "priority": goal.priority,
            "weight": goal.weight,
        },
        "reads": list(query.reads),
        "writes": list(query.writes),
        "task": query.task,
        "prefers": list(query.prefers),
        "application": query.application,
        "is_guarded": query.is_guarded,
    }


def query_from_dict(data: dict[str, Any]) -> FleetQuery:
    """The query that was written down."""
    return FleetQuery(
        name=QueryName(data["name"]),
        goal=Goal(**data["goal"]),
        reads=tuple(data["reads"]),
        writes=tuple(data["writes"]),
        task=data["task"],
        prefers=tuple(data["prefers"]),
        application=data["application"],
        is_guarded=data["is_guarded"],
    )
