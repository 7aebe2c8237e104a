"""What an operator makes of rows without a utility while others are dropped, on a real session."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as fn

from live.helpers import load_rows, wait_for_batches
from penstock.model.directive import Directive
from penstock.spark.directives import FALLBACK_PROPERTY
from penstock.spark.operator import run_operator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

# Workers have no tests to import: the function below goes to them as it is.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS, KEEP_RATIO, LEAST_PROBABILITY = 4000, 0.2, 0.01
KINDS = ("worth one", "null", "not a number", "negative")


def same_row(row: dict[str, Any]) -> dict[str, Any]:
    """Give the kind of a row."""
    return {"kind": row["kind"]}


@pytest.mark.parametrize("strategy", ["economic", "semantic"])
def test_rows_without_a_utility_are_worth_nothing_and_end_no_query(strategy: str, stopping: SparkSession) -> None:
    """Null, not a number and negative count as zero: such rows stay with one per cent, and weights say so."""
    kind = fn.element_at(fn.array(*map(fn.lit, KINDS)), (fn.col("offset") % 4 + 1).cast("int"))
    utility = "CASE kind WHEN 'worth one' THEN 1D WHEN 'not a number' THEN double('NaN') WHEN 'negative' THEN -1D END"
    source = load_rows(stopping, f"constant:rate=0,backlog={ROWS}").withColumn("kind", kind)
    rows, _ = run_operator(source, same_row, "kind string", "key", strategy=strategy, utility=utility)
    found: list[Any] = []
    stopping.conf.set(FALLBACK_PROPERTY, Directive(0, KEEP_RATIO).to_json())
    try:
        writer = rows.writeStream.foreachBatch(lambda frame, _: found.extend(frame.collect()))
        query = writer.queryName(f"worthless_{strategy}").start()
        wait_for_batches(query, 1)
    finally:
        stopping.conf.unset(FALLBACK_PROPERTY)
    query.stop()
    kept = Counter(row.kind for row in found)
    worth = 4.0 * (KEEP_RATIO - 0.75 * LEAST_PROBABILITY)
    for name in KINDS:
        probability = worth if name == "worth one" else LEAST_PROBABILITY
        assert kept[name] == pytest.approx(ROWS / 4 * probability, abs=4.0 * (ROWS / 4 * probability) ** 0.5)
        weights = [row.weight for row in found if row.kind == name]
        assert weights
        assert weights == pytest.approx([1.0 / probability] * len(weights), rel=0.02)
