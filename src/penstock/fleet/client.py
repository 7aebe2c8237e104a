"""An engine's agent as the control side calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from penstock.errors import AgentError, AgentUnreachableError
from penstock.extras import require
from penstock.model.engine_report import EngineReport, RunReport

if TYPE_CHECKING:
    from penstock.model import Goal
    from penstock.model.engine_report import QueryRun

_ASK_TIMEOUT_S = 3.0
_ACT_TIMEOUT_S = 60.0
"""A start imports modules and plans a query, a stop waits for Spark (``spark.sql.streaming.stopTimeout``)."""


class Agent(Protocol):
    """What an engine can be asked for; :class:`AgentClient` asks over HTTP, tests ask themselves."""

    def renew(self) -> EngineReport:
        """Ask how it is, and renew its lease."""
        ...

    def prepare(self, run: QueryRun) -> None:
        """Let it do everything of a start that can fail."""
        ...

    def start(self, run: QueryRun) -> RunReport:
        """Let it start a query."""
        ...

    def stop(self, query: str, *, drain_s: float | None = None) -> RunReport:
        """Let it stop a query."""
        ...

    def set_goal(self, query: str, goal: Goal, asked_by: str) -> None:
        """Ask something else of a query."""
        ...

    def set_keep_bounds(self, query: str, low: float, high: float) -> None:
        """Hold what a query keeps to bounds."""
        ...

    def end(self) -> None:
        """Let it end."""
        ...


class AgentClient:
    """Asks an agent over HTTP.

    Parameters
    ----------
    engine
        Its name, for messages.
    url, token
        Where it answers, and what it wants to see.
    """

    def __init__(self, engine: str, url: str, token: str) -> None:
        require("serve", "talking to the agents of engines", "httpx")
        import httpx  # noqa: PLC0415 - the extra may be absent

        self.engine, self.url = engine, url
        # A proxy of the environment has no business between the two, and would see the token.
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=_ASK_TIMEOUT_S
        )

    def report(self) -> EngineReport:
        """Ask how it is."""
        return EngineReport.from_dict(self._ask("GET", "/v1/engine"))

    def renew(self) -> EngineReport:
        """Ask how it is, and renew its lease."""
        return EngineReport.from_dict(self._ask("POST", "/v1/lease"))

    def prepare(self, run: QueryRun) -> None:
        """Let it do everything of a start that can fail."""
        self._ask("POST", f"{_path(run.query)}/prepare", run.to_dict(), timeout_s=_ACT_TIMEOUT_S)

    def start(self, run: QueryRun) -> RunReport:
        """Let it start a query; it has started, or failed, when this returns."""
        return RunReport.from_dict(self._ask("PUT", _path(run.query), run.to_dict(), timeout_s=_ACT_TIMEOUT_S))

    def stop(self, query: str, *, drain_s: float | None = None) -> RunReport:
        """Let it stop a query; it has stopped when this returns."""
        tail = "" if drain_s is None else f"?drain_s={drain_s!r}"
        return RunReport.from_dict(self._ask("DELETE", f"{_path(query)}{tail}", timeout_s=_ACT_TIMEOUT_S))

    def set_goal(self, query: str, goal: Goal, asked_by: str) -> None:
        """Ask something else of a query."""
        wanted = {
            "latency_s": goal.latency_s,
            "minimum_accuracy": goal.minimum_accuracy,
            "priority": goal.priority,
            "weight": goal.weight,
            "asked_by": asked_by,
        }
        self._ask("PUT", f"{_path(query)}/goal", wanted)

    def set_keep_bounds(self, query: str, low: float, high: float) -> None:
        """Hold what a query keeps to bounds."""
        self._ask("PUT", f"{_path(query)}/bounds", {"low": low, "high": high})

    def end(self) -> None:
        """Let it end."""
        self._ask("POST", "/v1/stop")

    def close(self) -> None:
        """Let its connections go."""
        self._client.close()

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float = _ASK_TIMEOUT_S
    ) -> dict[str, Any]:
        return ask(self._client, f"engine {self.engine!r}", method, path, body, timeout_s=timeout_s)


def ask(
    client: Any,  # noqa: ANN401 - of httpx, which may be absent
    who: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    timeout_s: float = _ASK_TIMEOUT_S,
) -> dict[str, Any]:
    """One question and its answer; a refusal is an error in the words of whoever refused."""
    import httpx  # noqa: PLC0415 - the extra may be absent

    try:
        answer = client.request(method, path, json=body, timeout=timeout_s)
    except httpx.HTTPError as error:
        what = str(error) or type(error).__name__
        where = f"{who} does not answer at {client.base_url}"
        raise AgentUnreachableError(f"{where} ({what}): see whether it runs") from error
    try:
        tree = answer.json()
    except ValueError as error:
        raise AgentError(f"{who} answered {answer.status_code} without JSON: is that its agent?") from error
    if answer.is_error:
        raise AgentError(f"{who}: {tree.get('error', answer.status_code)}", kind=str(tree.get("kind", "AgentError")))
    return dict(tree)


def _path(query: str) -> str:
    return f"/v1/queries/{quote(query, safe='')}"
