"""Everything that the dashboard shows, for Prometheus: base units, ratios from 0 to 1, states as a set of gauges."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from penstock.report.status import State
from penstock.report.text import shown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import Metric as Family

    from penstock.serve.service import Service

CONTENT_TYPE = CONTENT_TYPE_LATEST
VERSION = version("penstock")

QUERY_GAUGES = {
    "latency_s": ("penstock_query_latency_seconds", "Age of the oldest row when the newest batch was out."),
    "goal_latency_s": ("penstock_query_latency_goal_seconds", "Latency goal."),
    "keep_ratio": ("penstock_query_keep_ratio", "Part of the rows that the newest batch keeps."),
    "minimum_accuracy": ("penstock_query_accuracy_goal_ratio", "Smallest part of the rows that must be kept."),
    "measured_accuracy": ("penstock_query_accuracy_ratio", "Part of the rows that the newest batch kept, as counted."),
    "backlog_rows": ("penstock_query_backlog_rows", "Rows that wait."),
    "arrival_rows_per_s": ("penstock_query_arrival_rows_per_second", "Rows that arrive."),
    "read_limit_rows": ("penstock_query_read_limit_rows", "Rows that a batch may read."),
    "priority": ("penstock_query_priority", "Priority; low ones give way first."),
    "since_s": ("penstock_query_state_since_timestamp_seconds", "Since when the query is in its state."),
    "seen_s": ("penstock_query_last_seen_timestamp_seconds", "Time of the newest observation."),
}
ENGINE_GAUGES = {
    "executors_serving": ("penstock_engine_executors", "Executors that serve."),
    "executors_target": ("penstock_engine_executors_target", "Executors that are to serve."),
    "cpu_ratio": ("penstock_engine_cpu_ratio", "Part of the time in which the cores of executors were busy."),
    "observe_only": ("penstock_engine_observe_only", "1 where what is decided is not applied."),
    "seen_s": ("penstock_engine_last_seen_timestamp_seconds", "Time of the newest observation."),
    "queries": ("penstock_engine_queries", "Queries that anything is recorded of."),
}
STATE_GAUGE = "penstock_query_state"


def exposition(service: Service) -> bytes:
    """The text that Prometheus scrapes."""
    return generate_latest(service.registry)


def make_registry(service: Service) -> CollectorRegistry:
    """What is scraped: the fleet, and the process that serves."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FleetCollector(service))
    ProcessCollector(registry=registry)
    return registry


class _FleetCollector:
    """Reads what the fleet's thread found: a scrape touches no store."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Family]:
        rows = [row for model in self._service.fleet.models for row in list(model.rows.values())]
        for key, (name, text) in QUERY_GAUGES.items():
            yield _gauge(name, text, ("engine", "query"), [((row["engine"], row["query"]), row[key]) for row in rows])
        states = GaugeMetricFamily(
            STATE_GAUGE, "1 for the state that the query is in.", labels=("engine", "query", "state")
        )
        for row in rows:
            for state in State:
                labels = (row["engine"], row["query"], state.value)
                states.add_metric(labels, float(row["state"] == state.value))
        yield states
        yield from self._engines()
        yield InfoMetricFamily("penstock_build", "The version of Penstock.", value={"version": VERSION})
        yield InfoMetricFamily("target", "What is scraped, by the names of OpenTelemetry.", value=self._resource())
        leader = self._service.leader
        if leader is not None:
            leads = GaugeMetricFamily("penstock_service_leader", "1 where this instance leads.")
            leads.add_metric((), float(leader.is_leading))
            yield leads

    def _resource(self) -> dict[str, str]:
        """Attributes of OpenTelemetry's resources, as its rules for Prometheus spell them.

        A collector that scrapes makes ``service.name``, ``service.version`` and ``service.instance.id`` of these.
        """
        return {"service_name": "penstock", "service_version": VERSION, "service_instance_id": self._service.instance}

    def _engines(self) -> Iterator[Family]:
        states = [model.state.to_dict(now_s=0.0) for model in self._service.fleet.models]
        for key, (name, text) in ENGINE_GAUGES.items():
            yield _gauge(name, text, ("engine",), [((state["engine"],), state[key]) for state in states])
        readable = (((str(state["engine"]),), state["problem"] is None) for state in states)
        yield _gauge("penstock_engine_store_readable", "1 where the store can be read.", ("engine",), readable)
        counts = CounterMetricFamily(
            "penstock_actions", "Decisions since this service began, by kind.", labels=("engine", "query", "kind")
        )
        for model in self._service.fleet.models:
            for (query, kind), count in list(model.action_counts.items()):
                counts.add_metric((model.engine.name, shown_name(query), kind), count)
        yield counts


def _gauge(name: str, text: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], Any]]) -> Family:
    """A gauge of what is known; what is unknown is left out, which Prometheus takes for stale and not for zero."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for own, value in values:
        if value is not None:
            family.add_metric(own, float(value))
    return family
