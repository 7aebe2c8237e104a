"""The agent of an engine over HTTP: with its token and in JSON, or not at all."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fleet.fakes import FakeAgent
from patience import PATIENCE_S
from penstock.engine.agent import agent_app
from penstock.engine.lease import Lease
from penstock.errors import AgentError, AgentUnreachableError, CheckpointOwnerError
from penstock.fleet.client import AgentClient
from penstock.http import Access, GuardedApp, HttpServer
from penstock.model import Goal
from penstock.model.engine_report import QueryRun, RunState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.engine_report import RunReport

TOKEN = "a-token-that-is-long-enough"  # noqa: S105 - of a server that lives as long as a test
RUN = QueryRun(
    "shop", "clicks", "shop.queries:clicks", "/checkpoints/clicks", 7, {"topic": "a", "parts": 3}, 5.0, 0.5, 9
)


class FakeHost(FakeAgent):
    """A host in memory, which takes goals as a host does."""

    def set_goal(self, query: str, goal: Goal, *, asked_by: str) -> None:  # type: ignore[override]
        """Note a goal."""
        super().set_goal(query, goal, asked_by)

    def start(self, run: QueryRun) -> RunReport:
        """Refuse one that is taken."""
        if run.query == "taken":
            raise CheckpointOwnerError("checkpoint /checkpoints/taken belongs to query 'views'")
        return super().start(run)


class Served:
    """An agent that answers, with what it acts on."""

    def __init__(self) -> None:
        self.now_s, self.ended = 0.0, False
        self.host = FakeHost("left")
        self.lease = Lease(10.0, lambda: self.now_s)
        app = agent_app(self.host, self.lease, lambda: replace(self.host.renew(), time_s=1.0), self.end)
        self.server = HttpServer(GuardedApp(app, Access(token=TOKEN, reads_need_token=True)))

    def end(self) -> None:
        """Note the end."""
        self.ended = True

    def client(self, token: str = TOKEN) -> AgentClient:
        """Whoever asks."""
        return AgentClient("left", self.server.url, token)


@pytest.fixture
def served() -> Iterator[Served]:
    agent = Served()
    with agent.server:
        yield agent


def test_a_query_starts_is_reported_and_stops(served: Served) -> None:
    """What is asked for reaches the host whole, and its report comes back as it was."""
    client = served.client()
    client.prepare(RUN)
    started = client.start(RUN)
    assert served.host.runs["clicks"] == RUN
    assert client.report().query("clicks") == started == served.host.states["clicks"]
    assert client.stop("clicks", drain_s=0.5).state is RunState.STOPPED


def test_goals_and_bounds_reach_the_host(served: Served) -> None:
    """Another goal, with who asks for it, and other bounds are passed on."""
    client = served.client()
    client.start(RUN)
    client.set_goal("clicks", Goal(2.0, 0.7, 3), "on-call")
    client.set_keep_bounds("clicks", 0.25, 0.5)
    assert served.host.calls[-2:] == [("goal", "clicks", Goal(2.0, 0.7, 3), "on-call"), ("bounds", "clicks", 0.25, 0.5)]
    client.end()
    assert served.ended


@pytest.mark.parametrize("token", ["", "another-token-of-that-length"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/engine"), ("POST", "/v1/stop"), ("DELETE", "/v1/queries/a")])
def test_nothing_is_answered_without_the_token(served: Served, method: str, path: str, token: str) -> None:
    """Whoever has no token, or a wrong one, gets neither a report nor anything done."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = httpx.request(method, f"{served.server.url}{path}", headers=headers, trust_env=False, timeout=PATIENCE_S)
    assert answer.status_code == 401
    assert "token" in answer.json()["error"]
    assert served.host.calls == []
    assert not served.ended


def test_a_wrong_token_is_told_to_the_control_side(served: Served) -> None:
    """The control side reads which engine refused it, and why."""
    with pytest.raises(AgentError, match="engine 'left': the token is not this server's"):
        served.client("another-token-of-that-length").renew()


def test_errors_of_the_host_come_in_its_words(served: Served) -> None:
    """A refusal keeps its kind and its sentence on the way."""
    with pytest.raises(AgentError, match="belongs to query 'views'") as caught:
        served.client().start(replace(RUN, query="taken"))
    assert caught.value.kind == "CheckpointOwnerError"


def put(url: str, **what: Any) -> httpx.Response:
    """Ask the agent itself, with as much time as it takes."""
    return httpx.put(url, **what, trust_env=False, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    "change", [{"number": "seven"}, {"priority": None}, {"options": 3}, {"minimum_accuracy": "high"}]
)
def test_requests_that_mean_nothing_are_refused(served: Served, change: dict[str, object]) -> None:
    """A field of the wrong kind is named, and nothing is started."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    body = {**RUN.to_dict(), **change}
    answer = put(f"{served.server.url}/v1/queries/clicks", json=body, headers=headers)
    assert answer.status_code == 422
    assert next(iter(change)) in answer.json()["error"]
    assert served.host.calls == []


def test_address_and_request_name_the_same_query(served: Served) -> None:
    """A request for another query than its address is refused."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = put(f"{served.server.url}/v1/queries/views", json=RUN.to_dict(), headers=headers)
    assert "names query 'views' and the request 'clicks'" in answer.json()["error"]


def test_a_pickle_is_no_request(served: Served) -> None:
    """What is not JSON is refused."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/octet-stream"}
    answer = put(f"{served.server.url}/v1/queries/clicks", content=b"\x80\x04N.", headers=headers)
    assert answer.status_code == 422


def test_bounds_are_ratios_in_order(served: Served) -> None:
    """Bounds that cross or leave 0 to 1 are refused."""
    served.client().start(RUN)
    with pytest.raises(AgentError, match="0 <= low <= high <= 1"):
        served.client().set_keep_bounds("clicks", 0.9, 0.5)


def test_a_lease_that_is_over_takes_no_query(served: Served) -> None:
    """Renewed in time it goes on; once over, starts and renewals are refused until its queries have ended."""
    client = served.client()
    served.now_s = 9.0
    client.renew()
    served.now_s = 18.0
    client.renew()
    served.now_s = 29.0
    with pytest.raises(AgentError, match="lease of this engine is over"):
        client.renew()
    with pytest.raises(AgentError, match="lease of this engine is over"):
        client.start(RUN)
    served.lease.begin()
    client.start(RUN)


def test_nobody_there_is_told_as_such() -> None:
    """An engine that does not answer is another error than one that refuses."""
    with pytest.raises(AgentUnreachableError, match=r"engine 'left' does not answer at http://127.0.0.1:9"):
        AgentClient("left", "http://127.0.0.1:9", TOKEN).renew()


def test_a_lease_without_an_end() -> None:
    """A lease of no length never ends: whoever controls the engine can kill it."""
    lease = Lease(0.0, time.monotonic)
    assert not lease.is_over
    assert lease.left_s is None
