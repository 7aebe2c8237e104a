"""One figure of a remote service from a Prometheus server, by a PromQL query."""

from __future__ import annotations

import json
import math
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ANSWER_WITHIN_S = 2.0


def prometheus_figure(server: str, query: str) -> Callable[[], float | None]:
    """A function that asks a Prometheus server for the present value of a query; None where it does not answer.

    Examples
    --------
    >>> figure = prometheus_figure("http://metrics:9090", 'histogram_quantile(0.9, rate(kv_seconds_bucket[1m]))')
    """
    if not server.startswith(("http://", "https://")):
        raise InvalidSettingError("server", server, "an address such as http://metrics:9090")
    address = f"{server.rstrip('/')}/api/v1/query?{urllib.parse.urlencode({'query': query})}"

    def ask() -> float | None:
        try:
            with urllib.request.urlopen(address, timeout=_ANSWER_WITHIN_S) as answer:  # noqa: S310 - checked above
                return parse_value(json.load(answer))
        except (OSError, ValueError):
            return None

    return ask


def parse_value(answer: Mapping[str, Any]) -> float | None:
    """The value of an answer, the mean where there are several series; None where there is none.

    Examples
    --------
    >>> parse_value({"status": "success", "data": {"resultType": "vector", "result": [{"value": [1.0, "0.25"]}]}})
    0.25
    """
    data = answer.get("data", {})
    result = data.get("result", [])
    pairs = [result] if data.get("resultType") == "scalar" else [each["value"] for each in result]
    values = [float(text) for _, text in pairs]
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else None
