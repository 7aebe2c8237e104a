"""What the overload of an application on Kafka counts as met."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from penstock.apps.run import QueryFigures
from penstock.bench.kafka_overload import GOVERNED, PLAIN, KafkaOverload
from penstock.model import Goal


def figures(**known: Any) -> QueryFigures:
    blank = {field.name: 0 for field in fields(QueryFigures)}
    return QueryFigures(**{**blank, "query": "knn", **known})


@pytest.mark.parametrize(
    ("kept_fraction", "latency_p95_s", "is_met"), [(0.46, 4.5, True), (0.44, 4.5, False), (0.46, 5.1, False)]
)
def test_met_is_the_goal_and_nine_tenths_of_what_fits(
    kept_fraction: float, latency_p95_s: float, *, is_met: bool
) -> None:
    """At twice the capacity half of the rows fit: whoever keeps less than 0.45 of them has dropped too much."""
    governed = figures(kept_fraction=kept_fraction, latency_p95_s=latency_p95_s, lag_end_rows=50_000)
    plain = figures(kept_fraction=1.0, latency_p95_s=30.0, lag_end_rows=900_000)
    runs = {PLAIN: plain, GOVERNED: governed}
    result = KafkaOverload(Goal(latency=5.0), 14_000.0, (11_500.0, 12_500.0), 24_000.0, runs)
    assert result.is_met is is_met
    assert result.kept_of_capacity_ratio == pytest.approx(2 * kept_fraction)
    assert result.to_dict()["kept_of_unloaded_capacity_ratio"] == pytest.approx(24 / 14 * kept_fraction, abs=1e-3)
    assert result.to_dict()["least_kept_of_capacity_ratio"] == 0.9
