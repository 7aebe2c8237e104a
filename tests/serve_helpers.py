"""A running service, and whoever governs behind it."""

from __future__ import annotations

import time
from typing import Any

import httpx

from patience import PATIENCE_S
from penstock.bench.serve_load import begin, query_names
from penstock.model import Goal, Mode, QueryName
from penstock.model.decision import Govern, to_action
from penstock.serve.service import Service
from penstock.store import MemoryStore, SqliteStore


def store_with_queries() -> MemoryStore:
    """Two governed queries of which no batch was seen."""
    store = MemoryStore()
    begin(store, query_names(2), time.time())
    return store


class SomeControls:
    """Takes goals as an application does: recorded in its store, once for each call."""

    def __init__(self, store: SqliteStore | MemoryStore) -> None:
        self.store = store
        self.observe_only = False
        self.goals: list[tuple[str, Goal, str]] = []

    def set_goal(self, query: str, goal: Goal, *, asked_by: str = "user") -> None:
        """Remember it, and put it on record."""
        self.goals.append((query, goal, asked_by))
        decision = Govern(
            query=QueryName(query), cause=f"asked by {asked_by}", reason="another goal", query_id="id-0",
            latency_s=goal.latency_s, minimum_accuracy=goal.minimum_accuracy, priority=goal.priority,
            weight=goal.weight,
        )  # fmt: skip
        self.store.append(to_action(decision), time_s=time.time(), mode=Mode.ACT)

    def set_observe_only(self, observe_only: bool, *, asked_by: str = "user") -> None:  # noqa: ARG002, FBT001 - as the protocol has it
        """Switch."""
        self.observe_only = observe_only


class Served:
    """A running service, and a client with and without its token."""

    def __init__(self, service: Service, store: Any, controls: SomeControls | None) -> None:
        self.service, self.store, self.controls = service, store, controls
        self.client = httpx.Client(base_url=service.url, timeout=PATIENCE_S)
        self.owner = httpx.Client(
            base_url=service.url, headers={"authorization": f"Bearer {service.token}"}, timeout=PATIENCE_S
        )
