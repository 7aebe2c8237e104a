"""Requests drawn from the OpenAPI description: none of them makes the service fail or answer out of its description."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from penstock.http import Access, GuardedApp
from penstock.serve.api import make_app
from serve_helpers import Served


class _Service:
    """As much of a service as drawing requests from its description takes."""

    class fleet:  # noqa: N801 - stands for an object
        engines: tuple[str, ...] = ()


schema = schemathesis.openapi.from_dict(make_app(_Service()).openapi())  # type: ignore[arg-type]


@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_service_fail(case: Any, recorded: Served) -> None:
    """Whatever is asked, the answer is one that the description has, and never an error of the service itself."""
    if case.operation.path == "/api/what-if" and isinstance(case.query, dict):
        case.query["hours"] = 100.0  # refused before anything is played: a simulation takes seconds
    answer = case.call(base_url=recorded.service.url, headers={"Authorization": f"Bearer {recorded.service.token}"})
    case.validate_response(answer, checks=[not_a_server_error, response_schema_conformance, status_code_conformance])


@schema.include(method="PUT").parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_change_is_let_through_without_the_token(case: Any, recorded: Served) -> None:
    """Whatever is sent, a change without the right token is refused."""
    for headers in ({"Authorization": "Bearer wrong-token-of-somebody"}, {"Authorization": "none"}):
        # Reading what can only be changed is refused as such, token or not.
        expected = 405 if case.method in {"GET", "HEAD"} else 401
        assert case.call(base_url=recorded.service.url, headers=headers).status_code == expected


def test_the_description_names_every_path_of_the_api() -> None:
    """Nothing is served under /api that is not described, but the stream of events."""
    guarded = GuardedApp(make_app(_Service()), Access())  # type: ignore[arg-type]
    described = set(guarded.app.openapi()["paths"])  # type: ignore[attr-defined]
    served = {route.path for route in _routes(guarded.app)}
    assert {path for path in served if path.startswith("/api/")} - described == {"/api/events", "/api/openapi.json"}


def _routes(app: Any) -> list[Any]:
    found: list[Any] = []
    waiting = list(app.routes)
    while waiting:
        route = waiting.pop()
        inner = getattr(route, "routes", None) or getattr(getattr(route, "original_router", None), "routes", None)
        if inner:
            waiting += inner
        if getattr(route, "path", ""):
            found.append(route)
    return found
