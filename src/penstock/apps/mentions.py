"""Mentions: posts that mention an entity, and are enriched at a cost that depends on what kind of entity it is.

The application of "Load-Aware Shedding": a mention of a medium takes 25 ms, of a politician 5 ms, of anybody else
1 ms. Nothing in a row says what it will cost; Penstock learns it by the entity.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.spark.attach import Penstock

COST_MS = {"media": 25.0, "politician": 5.0, "other": 1.0}
ENRICHED = "entity string, kind string, cost_ms double"
_KINDS_EVERY, _POLITICIANS = 20, 4


def mentions(rows: DataFrame) -> DataFrame:
    """Mentions out of plain rows: the key is the entity; one in twenty is a medium, four are politicians."""
    rest = F.pmod("key", F.lit(_KINDS_EVERY))
    kind = F.when(rest == 0, "media").when(rest <= _POLITICIANS, "politician").otherwise("other")
    named = rows.withColumns({"entity": F.concat(F.lit("entity-"), F.col("key").cast("string")), "kind": kind})
    return named.select("offset", "timestamp", "entity", "kind")


def enrich(row: dict[str, Any]) -> dict[str, Any]:
    """Look at one mention, for as long as its kind takes."""
    cost_ms = COST_MS[row["kind"]]
    spend(cost_ms / 1000)
    return {"entity": row["entity"], "kind": row["kind"], "cost_ms": cost_ms}


def spend(seconds: float) -> None:
    """Keep a core at work for so long."""
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass


def enriched(rows: DataFrame, pen: Penstock | None) -> DataFrame:
    """Every mention, enriched; behind an operator that learns costs and may shed where there is a Penstock."""
    posts = mentions(rows)
    if pen is not None:
        return pen.operator(posts, enrich, ENRICHED, key="entity")

    @F.udf(ENRICHED, useArrow=False)
    def plain(entity: str, kind: str) -> tuple[object, ...]:
        return tuple(enrich({"entity": entity, "kind": kind}).values())

    return posts.select(plain("entity", "kind").alias("row")).select("row.*")
