"""What the guard and the operator cost while nothing has to be dropped.

Each pair runs the same rows through the same query with and without, one right after the other; which comes first
alternates. Throughput is rows over the time of their batches, without the start of the query and its first batches.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.apps.session import local_session
from penstock.model import Goal
from penstock.spark.attach import attach
from penstock.spark.operator_worker import as_dictionaries
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.attach import Penstock

GUARD_ROWS, GUARD_BATCH_ROWS = 20_000_000, 4_000_000
OPERATOR_ROWS, OPERATOR_BATCH_ROWS = 1_000_000, 250_000
WARM_UP_BATCHES = 2
LEAST_GUARD_RATIO, LEAST_OPERATOR_RATIO = 0.95, 0.93
PARTS = ("guard", "guard, thin query", "operator")
_WORDS = 12
_RECORD = "user string, ip string, eventType string, at bigint"
_RESULT = "value bigint, score double"
_LOOSE_GOAL = Goal(latency="1 hour", minimum_accuracy=0.5)


@dataclass(frozen=True, slots=True)
class OverheadPair:
    """Throughput of the same query, bare and with a guard or operator."""

    bare_rows_per_s: float
    with_rows_per_s: float

    @property
    def ratio(self) -> float:
        """With over bare."""
        return self.with_rows_per_s / self.bare_rows_per_s


@dataclass(frozen=True, slots=True)
class OverheadResult:
    """All pairs of one part; the median is what counts, the others tell how far to trust it."""

    part: str
    rows_per_run: int
    least_ratio: float | None
    pairs: tuple[OverheadPair, ...]

    @property
    def median_ratio(self) -> float:
        """Median of with over bare."""
        return statistics.median(pair.ratio for pair in self.pairs)

    @property
    def is_met(self) -> bool:
        """Whether the median is what it should be at least; a part without such a figure is only shown."""
        return self.least_ratio is None or self.median_ratio >= self.least_ratio

    def to_dict(self) -> dict[str, object]:
        """The figures, units in the keys."""
        ratios = [pair.ratio for pair in self.pairs]
        return {
            "part": self.part,
            "rows_per_run": self.rows_per_run,
            "least_ratio": self.least_ratio,
            "median_ratio": round(self.median_ratio, 4),
            "smallest_ratio": round(min(ratios), 4),
            "largest_ratio": round(max(ratios), 4),
            "is_met": self.is_met,
            "rows": [
                {
                    "pair": number,
                    "bare_rows_per_s": round(pair.bare_rows_per_s),
                    "with_rows_per_s": round(pair.with_rows_per_s),
                    "ratio": round(pair.ratio, 4),
                }
                for number, pair in enumerate(self.pairs, start=1)
            ],
        }


def bench_overhead(*, pairs: int = 5, parts: Sequence[str] = PARTS, say: Callable[[str], None]) -> list[OverheadResult]:
    """Measure guard and operator, governed by a goal that never asks them to drop anything."""
    with local_session("penstock bench overhead") as spark:
        return [_measure(spark, part, *_PARTS[part], pairs, say) for part in parts]


def score(row: dict[str, Any]) -> dict[str, Any]:
    """A row function of some ten microseconds: parses a text and adds up its parts."""
    words = row["text"].split("-")
    total = 0.0
    for place, word in enumerate(words * 2):
        total += len(word) * 0.5 + place
    return {"value": row["value"], "score": total}


def _measure(
    spark: SparkSession,
    part: str,
    build: Callable[[DataFrame, Penstock | None], DataFrame],
    rows: int,
    batch_rows: int,
    least_ratio: float | None,
    pairs: int,
    say: Callable[[str], None],
) -> OverheadResult:
    say(f"{part}: warming up")
    for is_with in (False, True):
        _run(spark, build, batch_rows, batch_rows, is_with=is_with)
    found = []
    for number in range(pairs):
        order = (False, True) if number % 2 == 0 else (True, False)
        speeds = {is_with: _run(spark, build, rows, batch_rows, is_with=is_with) for is_with in order}
        found.append(OverheadPair(speeds[False], speeds[True]))
        say(f"{part}: pair {number + 1} of {pairs}: {found[-1].ratio:.3f} of the bare query")
    return OverheadResult(part, rows, least_ratio, tuple(found))


def _guarded(rows: DataFrame, pen: Penstock | None) -> DataFrame:
    """What queries on Kafka do: a text of JSON is parsed, filtered, grouped and counted."""
    number = F.col("value").cast("string")
    text = F.concat(
        F.lit('{"user": "u'), number, F.lit('", "ip": "10.0.0.1", "eventType": "click", "at": '), number, F.lit("}")
    )
    records = rows.select(F.col("value").alias("offset"), "timestamp", text.alias("text"))
    kept = records if pen is None else pen.guard(records)
    parsed = kept.select(F.from_json("text", _RECORD).alias("record"), "offset")
    clicks = parsed.where(F.col("record.eventType") == "click")
    group = F.crc32("record.user") % 100
    return clicks.groupBy(group.alias("group")).agg(F.count("*"), F.max("record.at"))


def _guarded_thin(rows: DataFrame, pen: Penstock | None) -> DataFrame:
    """Hardly a query at all: half a microsecond a row, so that every count of the guard shows."""
    wide = rows.withColumnRenamed("value", "offset")
    kept = wide if pen is None else pen.guard(wide)
    digest = F.crc32(F.concat_ws("-", F.col("offset").cast("string"), F.col("timestamp").cast("string")))
    return kept.select((digest % 100).alias("group"), "offset").groupBy("group").agg(F.count("*"), F.max("offset"))


def _operated(rows: DataFrame, pen: Penstock | None) -> DataFrame:
    """A Python row function, in an operator or in a plain mapInArrow with the same way of making rows."""
    word = F.concat((F.col("value") % 1009).cast("string"), F.lit("-"))
    wide = rows.select("value", "timestamp", (F.col("value") % 1000).alias("key"), F.repeat(word, _WORDS).alias("text"))
    scored = wide.mapInArrow(_bare, _RESULT) if pen is None else pen.operator(wide, score, _RESULT, "key")
    return scored.select("value", "score")


def _bare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([("value", pa.int64()), ("score", pa.float64())])
    for batch in batches:
        results = [score(row) for row in as_dictionaries(batch)]
        columns = [pa.array([row[entry.name] for row in results], type=entry.type) for entry in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _run(
    spark: SparkSession,
    build: Callable[[DataFrame, Penstock | None], DataFrame],
    rows: int,
    batch_rows: int,
    *,
    is_with: bool,
) -> float:
    """Rows per second over so many rows, read in batches of the same size after a few to warm up."""
    directory = tempfile.mkdtemp(prefix="penstock-bench-")
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", batch_rows)
    source = reader.option("numPartitions", spark.sparkContext.defaultParallelism).load()
    pen = attach(spark, store=SqliteStore(f"{directory}/penstock.db")) if is_with else None
    try:
        built = build(source, pen)
        writer = built.writeStream.format("noop").outputMode("complete" if "group" in built.columns else "append")
        writer = writer.queryName("overhead").option("checkpointLocation", f"{directory}/checkpoint")
        query = writer.start() if pen is None else pen.govern(writer, _LOOSE_GOAL).start()
        wanted = WARM_UP_BATCHES + rows // batch_rows
        while len(query.recentProgress) < wanted and query.isActive:
            time.sleep(0.05)
        reports = query.recentProgress[WARM_UP_BATCHES:wanted]
        query.stop()
        if query.exception() is not None:
            raise query.exception()  # type: ignore[misc]
    finally:
        if pen is not None:
            pen.detach()
    busy_s = sum(report.durationMs["triggerExecution"] for report in reports) / 1000.0
    return sum(report.numInputRows for report in reports) / busy_s


_PARTS: dict[str, tuple[Callable[[DataFrame, Penstock | None], DataFrame], int, int, float | None]] = {
    "guard": (_guarded, GUARD_ROWS, GUARD_BATCH_ROWS, LEAST_GUARD_RATIO),
    "guard, thin query": (_guarded_thin, GUARD_ROWS, GUARD_BATCH_ROWS, None),
    "operator": (_operated, OPERATOR_ROWS, OPERATOR_BATCH_ROWS, LEAST_OPERATOR_RATIO),
}
