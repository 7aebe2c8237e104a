"""Prometheus as a source of signals, and the files that are given to it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from penstock.errors import ServiceError
from penstock.model import QueryName
from penstock.serve.prometheus import Prometheus
from serve_helpers import Served

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMTOOL = shutil.which("promtool")
with_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="there is no promtool: 'scripts/apt-install prometheus' as root installs it"
)


def prometheus(answer: dict[str, object] | str) -> tuple[Prometheus, list[httpx.Request]]:
    """A server that always gives the same answer, and what it was asked."""
    asked: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, text=answer if isinstance(answer, str) else json.dumps(answer))

    return Prometheus("http://prometheus.test", transport=httpx.MockTransport(reply)), asked


def vector(*values: str) -> dict[str, object]:
    return {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"value": [1.0, each]} for each in values]},
    }


def test_a_value_is_read() -> None:
    """One series has one value; none, or one that is not a number, is unknown."""
    source, asked = prometheus(vector("1500"))
    assert source.value("penstock_query_backlog_rows") == 1500.0
    assert asked[0].url.params["query"] == "penstock_query_backlog_rows"
    assert prometheus(vector())[0].value("up") is None
    assert prometheus(vector("NaN"))[0].value("up") is None


def test_figures_are_those_of_the_query_whatever_it_is_called() -> None:
    """Quotes in a name stay inside the label."""
    source, asked = prometheus(vector("7"))
    figures = source.figures(QueryName('cl"icks'))
    assert (figures.backlog_rows, figures.latency_s, figures.arrival_rows_per_s) == (7.0, 7.0, 7.0)
    assert any(request.url.params["query"] == 'penstock_query_backlog_rows{query="cl\\"icks"}' for request in asked)


def test_a_stretch_of_time_is_read() -> None:
    """Pairs of time and value, without what is no number."""
    result = [{"values": [[1.0, "2"], [2.0, "NaN"], [3.0, "4"]]}]
    source, _ = prometheus({"status": "success", "data": {"resultType": "matrix", "result": result}})
    assert source.series("up", since_s=0.0, until_s=3.0, step_s=1.0) == [(1.0, 2.0), (3.0, 4.0)]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (vector("1", "2"), "name one series by its labels"),
        ({"status": "error", "error": "parse error"}, "parse error"),
        ("<html>", "does not answer"),
    ],
)
def test_what_cannot_be_taken_for_a_value_is_an_error(answer: dict[str, object] | str, words: str) -> None:
    """The sentence names the expression or the server."""
    with pytest.raises(ServiceError, match=words):
        prometheus(answer)[0].value("up")


def used_names(text: str) -> set[str]:
    return set(re.findall(r"penstock_[a-z_]+", text))


def test_alerts_and_dashboard_use_metrics_that_there_are(recorded: Served) -> None:
    """A name that nobody exposes would make an alert that never fires and a panel that stays empty."""
    exposed = used_names(recorded.client.get("/metrics").text)
    exposed |= {"penstock_actions_total"}
    for path in (DEPLOY / "prometheus" / "penstock-alerts.yml", DEPLOY / "grafana" / "penstock.json"):
        assert used_names(path.read_text(encoding="utf-8")) - exposed == set(), path.name


def test_every_alert_is_in_the_operations_guide() -> None:
    """Whoever is woken finds what to do."""
    rules = (DEPLOY / "prometheus" / "penstock-alerts.yml").read_text(encoding="utf-8")
    guide = (DEPLOY.parent / "docs" / "guide" / "operations.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"alert: (\w+)", rules) if name not in guide] == []


@with_promtool
def test_promtool_accepts_metrics_and_rules(recorded: Served) -> None:
    """The checker of Prometheus has nothing to say against what is scraped, nor against rules and configuration."""
    assert PROMTOOL is not None
    text = recorded.client.get("/metrics").content
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
    folder = DEPLOY / "prometheus"
    for words in (["rules", folder / "penstock-alerts.yml"], ["config", folder / "prometheus.yml"]):
        done = subprocess.run([PROMTOOL, "check", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
