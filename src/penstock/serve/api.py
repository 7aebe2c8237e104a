"""The HTTP API, its OpenAPI description, and the pages."""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, FastAPI, Header, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from penstock.http.problems import NOT_FOUND, UNPROCESSABLE, Problem, StatusError, answer_with_sentences
from penstock.model import ActionKind, Metric, QueryName
from penstock.model.scaling import ONLINE_POLICIES
from penstock.report import explain
from penstock.report.log import describe_change
from penstock.report.text import asked_name
from penstock.serve.changes import goal_of
from penstock.serve.charts import CHARTED, edges, forecast, read_series, require_known, seen_effect
from penstock.serve.metrics import CONTENT_TYPE, VERSION, exposition
from penstock.serve.orders import FENCE_HEADER, KEY_HEADER
from penstock.serve.schemas import (
    ActionRow,
    ActionsAnswer,
    ChangeAnswer,
    FleetAnswer,
    ForecastBody,
    GoalBody,
    GoalChange,
    ModeChange,
    OrderAnswer,
    QueryAnswer,
    QueryRow,
    SeriesAnswer,
    ServiceAnswer,
    WhatIfAnswer,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.model import RecordedAction
    from penstock.serve.service import Service

STATIC = Path(__file__).parent / "static"
OPEN_PATHS = ("/", "/static/", "/favicon.ico", "/health")
"""What is read without a token where reading needs one: the page, which asks for it."""

_LAST_HOUR_S = 3600.0
_LONGEST_S = 3660 * 86_400.0
_EVENTS_EVERY_S = 1.0
_BEAT_EVERY_S = 15.0

EngineName = Annotated[str, Query(description="Name of the engine.", max_length=500)]
OfQuery = Annotated[str, Query(description="Name of the query.", max_length=500)]
Key = Annotated[
    str | None, Header(alias=KEY_HEADER, max_length=200, description="The same wish again changes nothing.")
]
Fence = Annotated[int | None, Header(alias=FENCE_HEADER, ge=0, description="Of the leader that forwards the wish.")]
Moment = Annotated[float | None, Query(ge=0, le=1e11, description="Seconds since the epoch.")]

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        403: "A page of another site asks.",
        404: "No such engine or query.",
        409: "It cannot be changed now.",
        422: "The request cannot be meant.",
        503: "The store cannot be read now, or something else is being computed.",
    }.items()
}
_WRITES = {
    **_PROBLEMS,
    400: {"model": Problem, "description": "The body is no JSON."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
}


def make_app(service: Service) -> FastAPI:
    """The application over a service."""
    app = FastAPI(
        title="Penstock",
        version=VERSION,
        description="How every streaming query is doing, why, and what is asked of it.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    answer_with_sentences(app)
    app.state.service = service
    app.include_router(_reading(service))
    app.include_router(_writing(service))
    app.include_router(_pages(service))
    return app


def _reading(service: Service) -> APIRouter:
    router = APIRouter(responses=_PROBLEMS, tags=["reading"])
    fleet = service.fleet

    @router.get("/api/fleet", response_model=FleetAnswer, summary="Every engine and every query")
    def get_fleet() -> Response:
        return Response(fleet.snapshot(), media_type="application/json")

    @router.get("/api/query", summary="One query: figures, goal, and why it is where it is")
    def get_query(engine: EngineName, query: OfQuery) -> QueryAnswer:
        model = fleet.model(engine)
        name = QueryName(query)
        told = explain(model.engine.store, name)
        goal = goal_of(model.engine, name)
        return QueryAnswer(
            row=QueryRow(**(model.rows.get(name) or _bare_row(engine, told.status.to_dict()))),
            goal=None if goal is None else _goal_body(goal),
            sentences=list(told.sentences),
        )

    @router.get("/api/series", summary="Thinned series of a query, with a forecast of its load")
    def get_series(
        engine: EngineName,
        query: OfQuery,
        since_s: Moment = None,
        until_s: Moment = None,
        bins: Annotated[int, Query(ge=2, le=400)] = 160,
        metric: Annotated[list[Metric] | None, Query(description="All that the page draws, if left out.")] = None,
    ) -> SeriesAnswer:
        store = fleet.model(engine).engine.store
        name = QueryName(query)
        require_known(store, name)
        begin_s, end_s = _span(since_s, until_s, service.newest_s(engine))
        edges_s = edges(begin_s, end_s, bins)
        found = read_series(store, name, metric or CHARTED, edges_s)
        step_s = (end_s - begin_s) / bins
        load = forecast(found.get(Metric.ARRIVAL_ROWS_PER_S, []), step_s)
        return SeriesAnswer(
            times_s=edges_s[:-1],
            step_s=step_s,
            mean={each.value: [None if b is None else b.mean for b in listed] for each, listed in found.items()},
            low={each.value: [None if b is None else b.low for b in listed] for each, listed in found.items()},
            high={each.value: [None if b is None else b.high for b in listed] for each, listed in found.items()},
            forecast=None
            if load is None
            else ForecastBody(times_s=list(load.times_s), mean=list(load.mean), upper=list(load.upper)),
        )

    @router.get("/api/actions", summary="What was decided, newest first, with expected and seen effect")
    def get_actions(
        engine: EngineName,
        query: Annotated[str | None, Query(max_length=500, description="'(application)' for the whole.")] = None,
        kind: Annotated[list[ActionKind] | None, Query()] = None,
        since_s: Moment = None,
        until_s: Moment = None,
        last: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> ActionsAnswer:
        store = fleet.model(engine).engine.store
        entries = store.actions(
            query=None if query is None else asked_name(query), kinds=kind or (), since_s=since_s, until_s=until_s,
            last=last + 1,
        )  # fmt: skip
        rows = [
            ActionRow(engine=engine, **_plain(entry), change=describe_change(entry), seen=seen_effect(store, entry))
            for entry in reversed(entries[-last:])
        ]
        return ActionsAnswer(rows=rows, older_exist=len(entries) > last)

    @router.get(
        "/api/what-if", summary="The last hours under another goal or policy, simulated beside the goal as it is"
    )
    def get_what_if(
        engine: EngineName,
        query: OfQuery,
        hours: Annotated[float, Query(gt=0.01, le=24)] = 2.0,
        latency_s: Annotated[float | None, Query(gt=0, le=1e6)] = None,
        minimum_accuracy: Annotated[float | None, Query(ge=0, le=1)] = None,
        max_executors: Annotated[int | None, Query(ge=1, le=500)] = None,
        policy: Annotated[str | None, Query(max_length=40)] = None,
    ) -> WhatIfAnswer:
        if policy is not None and policy not in ONLINE_POLICIES:
            raise StatusError(UNPROCESSABLE, f"policy {policy!r} is not one of {', '.join(ONLINE_POLICIES)}")
        return WhatIfAnswer(
            **service.what_if(
                engine, QueryName(query), hours=hours, latency_s=latency_s, minimum_accuracy=minimum_accuracy,
                max_executors=max_executors, policy=policy,
            )
        )  # fmt: skip

    @router.get("/api/service", summary="This instance")
    def get_service() -> ServiceAnswer:
        leader = service.leader
        return ServiceAnswer(
            version=VERSION,
            is_leading=None if leader is None else leader.is_leading,
            fence=None if leader is None else leader.fence,
            policies=list(ONLINE_POLICIES),
        )

    @router.get("/api/orders/{order_id}", summary="What came of a wish that was accepted")
    def get_order(order_id: int) -> OrderAnswer:
        found = None if service.orders is None or order_id > 2**62 else service.orders.find(max(0, order_id))
        if found is None:
            raise StatusError(NOT_FOUND, f"there is no order {order_id}: it is the order_id of an accepted change")
        return OrderAnswer(order_id=found.order_id, engine=found.engine, outcome=found.outcome)

    return router


def _writing(service: Service) -> APIRouter:
    router = APIRouter(responses=_WRITES, tags=["changing"])

    @router.put("/api/goal", summary="Ask something else of a query")
    def put_goal(change: GoalChange, key: Key = None, fence: Fence = None) -> ChangeAnswer:
        outcome, order_id = service.changes.set_goal(change, key=key, fence=fence)
        return ChangeAnswer(outcome=outcome, order_id=order_id)  # type: ignore[arg-type]

    @router.put("/api/mode", summary="Apply no decision of an engine any more, or apply them again")
    def put_mode(change: ModeChange, key: Key = None, fence: Fence = None) -> ChangeAnswer:
        outcome, order_id = service.changes.set_mode(
            change.engine, observe_only=change.observe_only, key=key, fence=fence
        )
        return ChangeAnswer(outcome=outcome, order_id=order_id)  # type: ignore[arg-type]

    return router


def _pages(service: Service) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/api/events")
    async def get_events(request: Request) -> StreamingResponse:
        return StreamingResponse(
            _events(service, request), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    @router.get("/metrics")
    def get_metrics() -> Response:
        return Response(exposition(service), media_type=CONTENT_TYPE)

    @router.get("/health")
    def get_health() -> dict[str, str]:
        return {"status": "up"}

    @router.get("/")
    def get_page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    @router.get("/favicon.ico")
    def get_icon() -> FileResponse:
        return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")

    @router.get("/static/{name}")
    def get_file(name: str) -> FileResponse:
        path = chart_script() if name == "plotly.min.js" else STATIC / Path(name).name
        if not path.is_file():
            raise StatusError(NOT_FOUND, f"there is no file {name!r} of the page")
        # The chart library is 4 MB and changes with its version only; the page itself is looked at each time.
        age = "public, max-age=86400" if name == "plotly.min.js" else "no-cache"
        return FileResponse(path, headers={"cache-control": age})

    return router


def chart_script() -> Path:
    """Where the installed chart library has its script."""
    import plotly  # noqa: PLC0415 - 2 s of imports that only a chart needs

    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


async def _events(service: Service, request: Request) -> AsyncIterator[bytes]:
    """What changed, once a second at the most; a beat in between tells a quiet fleet from a dead one."""
    version, beat_s = 0, time.monotonic()
    yield b"retry: 2000\n\n"
    while not service.is_stopping and not await request.is_disconnected():
        if service.fleet.version > version:
            version, text = await asyncio.to_thread(service.fleet.changes, version)
            beat_s = time.monotonic()
            yield b"event: fleet\ndata: " + text + b"\n\n"
        elif time.monotonic() - beat_s > _BEAT_EVERY_S:
            beat_s = time.monotonic()
            yield b": still here\n\n"
        await asyncio.sleep(_EVENTS_EVERY_S)


def _span(since_s: float | None, until_s: float | None, newest_s: float | None) -> tuple[float, float]:
    """A stretch of time: the last hour before the newest observation, where nothing else is asked for."""
    end_s = until_s if until_s is not None else min(time.time(), newest_s + 1.0) if newest_s else time.time()
    begin_s = since_s if since_s is not None else max(0.0, end_s - _LAST_HOUR_S)
    if not math.isfinite(end_s - begin_s) or not 0 < end_s - begin_s <= _LONGEST_S:
        raise StatusError(UNPROCESSABLE, f"from {begin_s:g} to {end_s:g} is no stretch of time: since_s before until_s")
    return begin_s, end_s


def _plain(entry: RecordedAction) -> dict[str, Any]:
    plain = entry.to_dict()
    del plain["details"]
    return plain


def _goal_body(goal: Any) -> GoalBody:  # noqa: ANN401 - a Goal, whose latency may be a text
    return GoalBody(
        latency_s=goal.latency_s, minimum_accuracy=goal.minimum_accuracy, priority=goal.priority, weight=goal.weight
    )


def _bare_row(engine: str, status: dict[str, Any]) -> dict[str, Any]:
    return {"engine": engine, **status, "measured_accuracy": None, "seen_s": None, "curve": []}
