"""What a batch is told when it asks in the driver, and what is known of that afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import InvalidGuardError
from penstock.model.directive import Directive
from penstock.spark import directive_task, internals
from penstock.spark.collector import REQUESTED, observed_metrics
from penstock.spark.directive_task import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY, RUN_ID_PROPERTY
from penstock.spark.directives import FALLBACK_PROPERTY
from penstock.spark.guard import requested_values

IDS = {QUERY_ID_PROPERTY: "query-1", RUN_ID_PROPERTY: "run-of-this-test", BATCH_ID_PROPERTY: "7"}


def told(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> Directive:
    """What a batch with these properties is told."""
    monkeypatch.setattr(internals, "batch_property", properties.get)
    monkeypatch.setattr(internals, "thread_connection", lambda: None)
    values = [float(value) for value in directive_task.directive_of_batch().split(",")]
    return Directive.from_array(7, values)


def test_without_a_server_the_batch_keeps_to_what_was_sent_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its report says so, for whoever puts it on record."""
    fallback = Directive(3, keep_ratio=0.4, keep_floor=0.1)
    properties = {**IDS, RUN_ID_PROPERTY: "run-with-fallback", FALLBACK_PROPERTY: fallback.to_json()}
    found = told(monkeypatch, properties)
    assert (found.keep_ratio, found.keep_floor, found.everything) == (0.4, 0.1, False)
    observed = observed_metrics({"runId": "run-with-fallback", "batchId": 7, "observedMetrics": {}})
    assert Directive.from_array(7, observed[REQUESTED]["directive"]) == found


def test_an_error_keeps_everything_and_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is on record for the batch, it kept everything: its report must say so.

    Otherwise rows that were kept would count as owed.
    """

    def failing(*_: object) -> None:
        raise OSError("no way to the server")

    monkeypatch.setattr(directive_task, "_answered", failing)
    assert told(monkeypatch, {**IDS, RUN_ID_PROPERTY: "run-with-error"}).everything
    observed = observed_metrics({"runId": "run-with-error", "batchId": 7, "observedMetrics": {}})
    assert Directive.from_array(7, observed[REQUESTED]["directive"]).everything


def test_a_batch_frame_is_nobodys_business(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a query there is nothing to ask, and nothing to remember."""
    assert told(monkeypatch, {}).everything
    assert REQUESTED not in observed_metrics({"runId": "", "batchId": 7, "observedMetrics": {}})


def test_a_guard_is_refused_where_batches_cannot_ask() -> None:
    """Without the rule that works the question out Spark would send it to a task, which it cannot."""
    rules = f"some.other.Rule,{internals.EVALUATED_BY}"
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: rules))
    with pytest.raises(InvalidGuardError, match=r"spark\.sql\.optimizer\.excludedRules"):
        requested_values(cast("Any", session))
