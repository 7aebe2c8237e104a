"""What Prometheus scrapes."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from penstock.report.status import State
from serve_helpers import Served


def families(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    return {
        sample.name: [(found.labels, found.value) for found in family.samples if found.name == sample.name]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_everything_that_the_dashboard_shows_is_scraped(recorded: Served) -> None:
    """For each query of the fleet there is a sample of each of its figures, with the value that the page shows."""
    found = families(recorded.client.get("/metrics").text)
    rows = recorded.client.get("/api/fleet").json()["queries"]
    for key, name in (
        ("latency_s", "penstock_query_latency_seconds"),
        ("goal_latency_s", "penstock_query_latency_goal_seconds"),
        ("backlog_rows", "penstock_query_backlog_rows"),
        ("keep_ratio", "penstock_query_keep_ratio"),
        ("arrival_rows_per_s", "penstock_query_arrival_rows_per_second"),
        ("priority", "penstock_query_priority"),
    ):
        values = {labels["query"]: value for labels, value in found[name]}
        assert values == {row["query"]: row[key] for row in rows if row[key] is not None}
    assert {labels["engine"] for labels, _ in found["penstock_engine_cpu_ratio"]} == {"app"}
    assert "process_cpu_seconds_total" in found


def test_a_query_is_in_one_state(recorded: Served) -> None:
    """Of all states one has the value 1, and it is the one that the page shows."""
    found = families(recorded.client.get("/metrics").text)["penstock_query_state"]
    rows = {row["query"]: row["state"] for row in recorded.client.get("/api/fleet").json()["queries"]}
    in_force = {labels["query"]: labels["state"] for labels, value in found if value == 1.0}
    assert in_force == rows
    assert len(found) == len(rows) * len(State)


def test_metrics_are_answered_in_the_format_that_prometheus_asks_for(recorded: Served) -> None:
    """Text with its version, and helps and types for every family."""
    answer = recorded.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = answer.text.splitlines()
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert names == {line.split()[2] for line in lines if line.startswith("# HELP")}


def test_a_collector_of_opentelemetry_finds_whose_metrics_they_are(recorded: Served) -> None:
    """Name, version and instance of the service stand in target_info, by OpenTelemetry's names."""
    ((labels, value),) = families(recorded.client.get("/metrics").text)["target_info"]
    assert (labels["service_name"], value) == ("penstock", 1.0)
    assert labels["service_version"]
    assert labels["service_instance_id"]
