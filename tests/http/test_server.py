"""A server on a thread: its port, its errors, its end."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from patience import PATIENCE_S
from penstock.errors import InvalidGoalError, ServiceError, UnknownQueryError
from penstock.http import Access, GuardedApp, HttpServer
from penstock.http.problems import answer_with_sentences

TOKEN = "a-token-of-this-machine"  # noqa: S105 - of these tests alone


def sample_app() -> FastAPI:
    app = FastAPI()
    answer_with_sentences(app)

    @app.get("/number/{number}")
    def number(number: int) -> int:
        return number

    @app.post("/goal")
    def goal() -> None:
        raise InvalidGoalError("latency goal '-1' must be above zero")

    @app.get("/unknown")
    def unknown() -> None:
        raise UnknownQueryError("clicks", ["views"])

    @app.get("/broken")
    def broken() -> None:
        raise ZeroDivisionError("a secret of the program")

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            while True:
                yield "still here\n"
                await asyncio.sleep(0.05)

        return StreamingResponse(lines())

    return app


def guarded() -> GuardedApp:
    return GuardedApp(sample_app(), Access(token=TOKEN))


def test_a_server_takes_a_free_port_of_loopback_and_lets_it_go() -> None:
    """It answers while it runs, nobody outside reaches it, and afterwards the port is free again."""
    with HttpServer(guarded()) as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert httpx.get(f"{server.url}/number/7", timeout=PATIENCE_S).json() == 7
    assert not server.is_running
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0
    with HttpServer(guarded(), port=server.port) as again:
        assert httpx.get(f"{again.url}/number/8", timeout=PATIENCE_S).json() == 8


def test_a_taken_port_is_refused_at_once() -> None:
    """The error names the port and says what else to do."""
    with HttpServer(guarded()) as server, pytest.raises(ServiceError, match=f":{server.port} .*another port"):
        HttpServer(guarded(), port=server.port)


def test_answers_that_never_end_do_not_hold_up_the_end() -> None:
    """A page that follows events is cut off when the server stops, and no thread stays."""
    server = HttpServer(guarded()).start()
    with httpx.stream("GET", f"{server.url}/endless", timeout=PATIENCE_S) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "still here"
        server.stop()
        with suppress(httpx.HTTPError):
            for _ in lines:
                pass
    assert [thread for thread in threading.enumerate() if thread.name == "penstock-http"] == []


def test_errors_are_sentences() -> None:
    """Every error is JSON with kind and sentence, and one that nobody foresaw tells nothing of the program."""
    with HttpServer(guarded()) as server, httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
        answers = {
            "known": client.post("/goal", headers={"authorization": f"Bearer {TOKEN}"}),
            "unknown": client.get("/unknown"),
            "malformed": client.get("/number/seven"),
            "absent": client.get("/nowhere"),
            "method": client.post("/number/7", headers={"authorization": f"Bearer {TOKEN}"}),
            "broken": client.get("/broken"),
            "refused": client.post("/goal"),
        }
    assert {name: answer.status_code for name, answer in answers.items()} == {
        "known": 422, "unknown": 404, "malformed": 422, "absent": 404, "method": 405, "broken": 500, "refused": 401,
    }  # fmt: skip
    bodies = {name: answer.json() for name, answer in answers.items()}
    assert all(set(body) == {"kind", "error"} for body in bodies.values())
    assert bodies["unknown"] == {
        "kind": "UnknownQueryError", "error": "no streaming query named 'clicks'; known queries: views",
    }  # fmt: skip
    assert "number" in bodies["malformed"]["error"]
    assert "secret" not in bodies["broken"]["error"]


def test_every_answer_forbids_what_a_page_does_not_need() -> None:
    """Pages load nothing from elsewhere and are framed nowhere, refusals included."""
    with HttpServer(guarded()) as server:
        for answer in (
            httpx.get(f"{server.url}/number/7", timeout=PATIENCE_S),
            httpx.post(f"{server.url}/goal", timeout=PATIENCE_S),
        ):
            assert "default-src 'self'" in answer.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
