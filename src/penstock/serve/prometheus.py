"""Prometheus as a source of signals: what its PromQL says over HTTP, of queries and of the machines below them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from penstock.errors import ServiceError
from penstock.extras import require
from penstock.report.status import LiveFigures

if TYPE_CHECKING:
    import httpx

    from penstock.model import QueryName

BACKLOG = "penstock_query_backlog_rows{{query={query}}}"
ARRIVALS = "penstock_query_arrival_rows_per_second{{query={query}}}"
LATENCY = "penstock_query_latency_seconds{{query={query}}}"
NODE_CPU = '1 - avg(rate(node_cpu_seconds_total{mode="idle"}[1m]))'
"""Part of the time in which the cores of all machines with a node exporter were busy."""
NODE_MEMORY = "1 - sum(node_memory_MemAvailable_bytes) / sum(node_memory_MemTotal_bytes)"


class Prometheus:
    """A Prometheus server that is asked.

    Parameters
    ----------
    url
        Such as ``"http://127.0.0.1:9090"``.
    timeout_s
        Longest wait for an answer.
    transport
        How requests travel, for tests.
    """

    def __init__(self, url: str, *, timeout_s: float = 2.0, transport: httpx.BaseTransport | None = None) -> None:
        require("serve", "reading from Prometheus", "httpx")
        import httpx  # noqa: PLC0415 - the extra may be absent

        self.url = url
        self._client = httpx.Client(base_url=url, timeout=timeout_s, transport=transport, trust_env=False)

    def value(self, promql: str, *, time_s: float | None = None) -> float | None:
        """The one value of an expression now, or at a moment; None where there is none."""
        asked = {"query": promql} if time_s is None else {"query": promql, "time": str(time_s)}
        found = self._ask("/api/v1/query", asked)
        samples = [found["result"]] if found["resultType"] == "scalar" else [each["value"] for each in found["result"]]
        if len(samples) > 1:
            raise ServiceError(
                f"{promql!r} has {len(samples)} values in {self.url}: name one series by its labels, or add them up"
            )
        return _number(samples[0][1]) if samples else None

    def series(self, promql: str, *, since_s: float, until_s: float, step_s: float) -> list[tuple[float, float]]:
        """The values of an expression over a stretch of time."""
        asked = {"query": promql, "start": str(since_s), "end": str(until_s), "step": str(step_s)}
        result = self._ask("/api/v1/query_range", asked)["result"]
        if len(result) > 1:
            raise ServiceError(f"{promql!r} has {len(result)} series in {self.url}: name one by its labels")
        pairs = result[0]["values"] if result else []
        return [(float(time_s), value) for time_s, text in pairs if (value := _number(text)) is not None]

    def figures(self, query: QueryName) -> LiveFigures:
        """What is known of a query there, to be shown before what a store has."""
        own = quoted(query)
        return LiveFigures(
            latency_s=self.value(LATENCY.format(query=own)),
            backlog_rows=self.value(BACKLOG.format(query=own)),
            arrival_rows_per_s=self.value(ARRIVALS.format(query=own)),
        )

    def close(self) -> None:
        """Let connections go."""
        self._client.close()

    def _ask(self, path: str, asked: dict[str, str]) -> dict[str, Any]:
        import httpx  # noqa: PLC0415 - the extra may be absent

        try:
            answer = self._client.get(path, params=asked)
            told = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise ServiceError(f"Prometheus at {self.url} does not answer ({error}): check its address") from error
        if told.get("status") != "success":
            raise ServiceError(f"Prometheus at {self.url} refuses {asked['query']!r}: {told.get('error', answer.text)}")
        data: dict[str, Any] = told["data"]
        return data


def quoted(text: str) -> str:
    r"""A text as a value of a label.

    Examples
    --------
    >>> quoted('a "quoted" \\ name')
    '"a \\"quoted\\" \\\\ name"'
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _number(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
