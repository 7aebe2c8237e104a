"""What it costs to have Penstock attached to a session whose queries have no goals."""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.apps.session import local_session
from penstock.spark.attach import attach
from penstock.spark.load import register
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ROWS = 6_000_000
ROWS_PER_BATCH = 200_000


@dataclass(frozen=True, slots=True)
class IdlePair:
    """Throughput of the same query, plain and attached, one right after the other."""

    plain_rows_per_s: float
    attached_rows_per_s: float

    @property
    def ratio(self) -> float:
        """Attached over plain."""
        return self.attached_rows_per_s / self.plain_rows_per_s


@dataclass(frozen=True, slots=True)
class IdleResult:
    """All pairs; the median is what counts, the others tell how far to trust it."""

    pairs: tuple[IdlePair, ...]

    @property
    def median_ratio(self) -> float:
        """Median of attached over plain."""
        return statistics.median(pair.ratio for pair in self.pairs)

    def to_dict(self) -> dict[str, object]:
        """The figures, units in the keys."""
        ratios = [pair.ratio for pair in self.pairs]
        return {
            "bench": "idle",
            "rows_per_run": ROWS,
            "rows_per_batch": ROWS_PER_BATCH,
            "median_ratio": round(self.median_ratio, 4),
            "smallest_ratio": round(min(ratios), 4),
            "largest_ratio": round(max(ratios), 4),
            "rows": [
                {
                    "pair": number,
                    "plain_rows_per_s": round(pair.plain_rows_per_s),
                    "attached_rows_per_s": round(pair.attached_rows_per_s),
                    "ratio": round(pair.ratio, 4),
                }
                for number, pair in enumerate(self.pairs, start=1)
            ],
        }


def bench_idle(*, pairs: int = 5, say: Callable[[str], None]) -> IdleResult:
    """Interleaved pairs of the same finite query, plain and attached; which comes first alternates."""
    with local_session("penstock bench idle") as spark:
        register(spark)
        say("warming up")
        for _ in range(2):
            _run(spark, is_attached=False)
            _run(spark, is_attached=True)
        found = []
        for number in range(pairs):
            order = (False, True) if number % 2 == 0 else (True, False)
            speeds = {is_attached: _run(spark, is_attached=is_attached) for is_attached in order}
            found.append(IdlePair(speeds[False], speeds[True]))
            say(f"pair {number + 1} of {pairs}: attached {found[-1].ratio:.3f} of plain")
    return IdleResult(tuple(found))


def _run(spark: SparkSession, *, is_attached: bool) -> float:
    """Rows per second over a backlog that is read in many batches: each of them is one report to Penstock."""
    directory = tempfile.mkdtemp(prefix="penstock-bench-")
    hold = attach(spark, store=SqliteStore(f"{directory}/penstock.db")) if is_attached else nullcontext()
    with hold:
        reader = spark.readStream.format("penstock.load").option("maxRowsPerBatch", str(ROWS_PER_BATCH))
        rows = reader.option("profile", f"constant:rate=1,seconds=1,backlog={ROWS}").load()
        counted = rows.groupBy((F.col("key") % 100).alias("group")).agg(F.sum("value").alias("total"))
        writer = counted.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        began_s = time.perf_counter()
        query = writer.option("checkpointLocation", f"{directory}/checkpoint").start()
        query.awaitTermination()
        elapsed_s = time.perf_counter() - began_s
    return ROWS / elapsed_s
