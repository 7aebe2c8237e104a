"""The HTTP agent of an engine: JSON in and out, nothing without the token, nothing that is not said here.

======  =============================  ==========================================================
method  path                           what it does
======  =============================  ==========================================================
GET     ``/v1/engine``                 report, see :class:`penstock.model.engine_report.EngineReport`
POST    ``/v1/lease``                  renew the lease; gives the report
POST    ``/v1/queries/NAME/prepare``   import, build and check, and start nothing
PUT     ``/v1/queries/NAME``           start a run
DELETE  ``/v1/queries/NAME``           stop it between two batches, if it gets there in time
PUT     ``/v1/queries/NAME/goal``      ask something else of it
PUT     ``/v1/queries/NAME/bounds``    hold what it keeps to bounds
POST    ``/v1/stop``                   end the engine
======  =============================  ==========================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import FleetError, InvalidSettingError
from penstock.extras import require
from penstock.model import Goal
from penstock.model.engine_report import QueryRun  # noqa: TC001 - FastAPI reads annotations when it runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from penstock.engine.lease import Lease
    from penstock.model.engine_report import EngineReport, RunReport


class Hosting(Protocol):
    """What an agent acts on; :class:`penstock.engine.host.EngineHost` is one."""

    def prepare(self, run: QueryRun) -> None:
        """Do everything of a start that can fail."""
        ...

    def start(self, run: QueryRun) -> RunReport:
        """Start a query."""
        ...

    def stop(self, query: str, *, drain_s: float | None = None) -> RunReport:
        """Stop a query."""
        ...

    def set_goal(self, query: str, goal: Goal, *, asked_by: str) -> None:
        """Ask something else of a query."""
        ...

    def set_keep_bounds(self, query: str, low: float, high: float) -> None:
        """Hold what a query keeps to bounds."""
        ...


@dataclass(frozen=True, slots=True)
class GoalRequest:
    """Another goal for a query, and who asks for it."""

    latency_s: float | None = None
    minimum_accuracy: float = 1.0
    priority: int = 1
    weight: float = 1.0
    asked_by: str = "user"


@dataclass(frozen=True, slots=True)
class BoundsRequest:
    """Other bounds of what a query keeps."""

    low: float
    high: float


def agent_app(host: Hosting, lease: Lease, report: Callable[[], EngineReport], end: Callable[[], None]) -> FastAPI:
    """The agent as an application of FastAPI; whoever serves it asks for the token."""
    require("serve", "the agent of an engine", "fastapi", "uvicorn")
    from fastapi import FastAPI  # noqa: PLC0415 - the extra may be absent

    from penstock.http.problems import answer_with_sentences  # noqa: PLC0415 - as above

    app = FastAPI(title="Penstock engine", docs_url=None, redoc_url=None, openapi_url=None)
    answer_with_sentences(app)

    @app.get("/v1/engine")
    def engine() -> dict[str, Any]:
        return report().to_dict()

    @app.post("/v1/lease")
    def renew() -> dict[str, Any]:
        _require_lease(lease.renew())
        return report().to_dict()

    @app.post("/v1/queries/{query}/prepare")
    def prepare(query: str, run: QueryRun) -> dict[str, Any]:
        host.prepare(_named(query, run))
        return {"query": query}

    @app.put("/v1/queries/{query}")
    def start(query: str, run: QueryRun) -> dict[str, Any]:
        _require_lease(not lease.is_over)
        return host.start(_named(query, run)).to_dict()

    @app.delete("/v1/queries/{query}")
    def stop(query: str, drain_s: float | None = None) -> dict[str, Any]:
        return host.stop(query, drain_s=drain_s).to_dict()

    @app.put("/v1/queries/{query}/goal")
    def goal(query: str, asked: GoalRequest) -> dict[str, Any]:
        wanted = Goal(asked.latency_s, asked.minimum_accuracy, asked.priority, asked.weight)
        host.set_goal(query, wanted, asked_by=asked.asked_by)
        return {"query": query}

    @app.put("/v1/queries/{query}/bounds")
    def bounds(query: str, asked: BoundsRequest) -> dict[str, Any]:
        if not 0.0 <= asked.low <= asked.high <= 1.0:
            raise InvalidSettingError("bounds", [asked.low, asked.high], "0 <= low <= high <= 1")
        host.set_keep_bounds(query, asked.low, asked.high)
        return {"query": query}

    @app.post("/v1/stop")
    def stop_engine() -> dict[str, Any]:
        end()
        return {}

    return app


def _named(query: str, run: QueryRun) -> QueryRun:
    if run.query != query:
        raise FleetError(f"the address names query {query!r} and the request {run.query!r}: name the same one")
    return run


def _require_lease(is_good: bool) -> None:  # noqa: FBT001 - whether it is, is the question
    if not is_good:
        raise FleetError(
            "the lease of this engine is over and its queries end: ask again in a moment, and start them where they "
            "are to run"
        )
