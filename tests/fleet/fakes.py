"""Engines without Spark: they answer as an agent does, in the time of a test."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import AgentError, AgentUnreachableError
from penstock.fleet.engines import Answer
from penstock.fleet_declaration import DeclaredRun, EngineDeclaration, FleetDeclaration
from penstock.model import Goal, QueryName
from penstock.model.application import QueryDeclaration
from penstock.model.engine_report import EngineReport, QueryRun, RunReport, RunState
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass
class FakeAgent:
    """An agent in memory; every query has a batch as soon as it starts, unless it is told not to."""

    name: str
    refuses: Mapping[str, str] = field(default_factory=dict)
    batches: bool = True
    is_silent: bool = False
    runs: dict[str, QueryRun] = field(default_factory=dict)
    states: dict[str, RunReport] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def renew(self) -> EngineReport:
        """How it is."""
        self._require_voice()
        with self.lock:
            queries = tuple(self.states.values())
        return EngineReport(self.name, "local", 1, 0.0, 1.0, time.time(), busy_cores=0.25, queries=queries)

    def prepare(self, run: QueryRun) -> None:
        """Refuse or not."""
        self._require_voice()
        self._note("prepare", run.query)
        if "prepare" in self.refuses:
            raise AgentError(self.refuses["prepare"])

    def start(self, run: QueryRun) -> RunReport:
        """Run a query."""
        self._require_voice()
        self._note("start", run.query)
        if "start" in self.refuses:
            raise AgentError(self.refuses["start"])
        now_s = time.time()
        with self.lock:
            self.runs[run.query] = run
            self.states[run.query] = RunReport(
                run.query, run.application, RunState.RUNNING, run.number, run.checkpoint, now_s,
                keep_low=run.keep_low, keep_high=run.keep_high,
                batches=1 if self.batches else 0, first_batch_s=now_s if self.batches else None,
            )  # fmt: skip
            return self.states[run.query]

    def stop(self, query: str, *, drain_s: float | None = None) -> RunReport:  # noqa: ARG002 - as an agent is asked
        """End a query."""
        self._require_voice()
        self._note("stop", query)
        with self.lock:
            self.states[query] = replace(self.states[query], state=RunState.STOPPED)
            return self.states[query]

    def set_goal(self, query: str, goal: Goal, asked_by: str) -> None:
        """Note a goal."""
        self._require_voice()
        self._note("goal", query, goal, asked_by)

    def set_keep_bounds(self, query: str, low: float, high: float) -> None:
        """Note bounds."""
        self._require_voice()
        self._note("bounds", query, low, high)
        with self.lock:
            self.states[query] = replace(self.states[query], keep_low=low, keep_high=high)

    def end(self) -> None:
        """Note the end."""
        self._note("end")

    def fail(self, query: str, error: str) -> None:
        """Let a query die."""
        with self.lock:
            self.states[query] = replace(self.states[query], state=RunState.FAILED, error=error)

    def running(self) -> list[str]:
        """Queries that run."""
        with self.lock:
            return [name for name, state in self.states.items() if state.state is RunState.RUNNING]

    def _note(self, *call: Any) -> None:
        with self.lock:
            self.calls.append(call)

    def _require_voice(self) -> None:
        if self.is_silent:
            raise AgentUnreachableError(f"engine {self.name!r} does not answer")


class FakeEngine:
    """A handle on a fake agent; a test says when it is lost."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fake = FakeAgent(name)
        self.lost: str | None = None
        self.is_up = True

    @property
    def agent(self) -> FakeAgent | None:
        """The agent while it is up."""
        return self.fake if self.is_up else None

    @property
    def runs_nothing(self) -> bool:
        """Whether it is not up."""
        return not self.is_up

    def ask(self) -> Answer:
        """How it is, or that it is lost."""
        if self.lost is not None:
            lost, self.lost, self.is_up = self.lost, None, False
            return Answer(self.name, lost=lost)
        if not self.is_up:
            return Answer(self.name)
        try:
            return Answer(self.name, self.fake.renew())
        except AgentUnreachableError:
            return Answer(self.name)

    def end(self) -> bool:
        """Note the end."""
        self.is_up = False
        return False


def declared(
    path: Path, queries: Mapping[str, QueryDeclaration], *, engines: tuple[str, ...] = ("left", "right"),
    settings: Mapping[str, object] | None = None,
) -> FleetDeclaration:  # fmt: skip
    """A fleet of engines and queries, without a file."""
    runs = {
        QueryName(name): DeclaredRun("shop", query, "shop.queries:it", f"/checkpoints/{name}")
        for name, query in queries.items()
    }
    values = {"agents.retry_s": 1, "fleet.warm_up_s": 5, **(settings or {})}
    return FleetDeclaration(
        path, {name: EngineDeclaration(name) for name in engines}, runs, Settings().with_values(values)
    )
