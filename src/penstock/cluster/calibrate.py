"""Measure on live Spark what a simulation must know: how long executors take to come and go, and what batches cost."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.cluster.engine import running_engine
from penstock.cluster.engine_spec import EngineSpec
from penstock.cluster.standalone import running_cluster
from penstock.cluster.standalone_config import StandaloneSpec
from penstock.control.executor_plan import plan_step
from penstock.errors import ClusterError
from penstock.estimate.service_time import ServiceTime
from penstock.model.decision import Executors
from penstock.model.executors import ExecutorBounds
from penstock.spark import internals
from penstock.spark.executor_plant import ExecutorPlant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.cluster.engine import Engine

_BOUNDS = ExecutorBounds(min_executors=1, max_executors=2)
_PATIENCE_S = 300.0
_OBSERVED_EVERY_S = 0.05
_SMALL_ROWS, _LARGE_ROWS = 1_000, 200_000
# The first batches of a query compile and warm up, which no later one does.
_WARM_UP_BATCHES = 4
# Nor is the very first one full: nothing has arrived yet when it is planned.
_PARTLY_FILLED = 2
_HASHES = 20
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    # Spark calls every executor that leaves an error, and every query that is stopped.
    "spark.log.level": "OFF",
}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Figures of one machine; times in seconds.

    ``executor_start_s`` is from asking for an executor until the scheduler gives it work, ``release_s`` from releasing
    one until it is gone. A batch of ``n`` rows takes ``batch_overhead_s + n * cost_s_per_row`` on one core, where a
    row is hashed ``hashes_per_row`` times.
    """

    executor_start_s_p50: float
    executor_start_s_p95: float
    release_s: float
    release_s_p95: float
    batch_overhead_s: float
    cost_s_per_row: float
    executor_starts: int
    batches: int
    hashes_per_row: int
    measured_on: str
    spark_version: str
    cores: int

    def to_dict(self) -> dict[str, Any]:
        """Give the figures as plain data."""
        return asdict(self)


def calibrate(*, repeats: int = 5, batches: int = 12, say: Callable[[str], None] = lambda _: None) -> Calibration:
    """Start a cluster of its own, measure, and leave nothing behind."""
    if repeats < 1 or batches < 2:  # noqa: PLR2004 - a line goes through two points
        raise ClusterError(f"{repeats} executor starts and {batches} batches: at least 1 and 2")
    with tempfile.TemporaryDirectory(prefix="penstock-calibrate-") as scratch:
        say("starting a cluster of one worker")
        spec = StandaloneSpec(Path(scratch) / "cluster", workers=1, cores=2, memory="2g")
        engine_spec = EngineSpec("penstock-calibrate", _BOUNDS, memory="512m", settings=_SETTINGS)
        with running_cluster(spec) as cluster:
            place = cluster.place
            with running_engine(engine_spec, place) as engine:
                return _measured(engine, repeats, batches, say)


def line_through(rows: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Overhead and cost per row that fit batches best, by least squares.

    Large batches that take no longer than small ones tell nothing of a row's cost, and are an error.

    Examples
    --------
    >>> overhead_s, cost_s = line_through([100, 100, 1100, 1100], [0.2, 0.4, 1.3, 1.3])
    >>> round(overhead_s, 3), round(cost_s, 6)
    (0.2, 0.001)
    """
    cost_s, overhead_s = np.polyfit(np.asarray(rows, dtype=float), np.asarray(seconds, dtype=float), 1)
    if not cost_s > 0 or not overhead_s > 0:
        raise ClusterError(
            f"{overhead_s:.3g} s for a batch and {cost_s:.3g} s for a row cannot be: something else disturbed the "
            "batches; measure again on a quiet machine, with more --batches"
        )
    return float(overhead_s), float(cost_s)


def _measured(engine: Engine, repeats: int, batches: int, say: Callable[[str], None]) -> Calibration:
    starts, releases = ServiceTime(max(repeats, 1)), ServiceTime(max(repeats, 1))
    say("bringing the engine to its first size")
    plant = ExecutorPlant(engine.spark)
    _await_size(plant, 1)
    for number in range(1, repeats + 1):
        starts.observe(_grow(plant))
        releases.observe(_shrink(plant))
        say(f"executor {number} of {repeats}: up in {starts.snapshot().observed_s[-1]:.1f} s, "
            f"gone in {releases.snapshot().observed_s[-1]:.1f} s")  # fmt: skip
    rows: list[float] = []
    seconds: list[float] = []
    # The first query makes the executor's JVM and Python worker fast, whichever size comes first.
    _batch_times(engine, _LARGE_ROWS, 1)
    for size in (_SMALL_ROWS, _LARGE_ROWS):
        taken = _batch_times(engine, size, batches)
        say(f"{len(taken)} batches of {size:,} rows: {np.median(taken):.2f} s in the middle")
        rows += [float(size)] * len(taken)
        seconds += taken
    overhead_s, cost_s = line_through(rows, seconds)
    # Both have observations here; the alternative would be an error further up.
    return Calibration(
        executor_start_s_p50=starts.quantile_s(0.5) or 0.0,
        executor_start_s_p95=starts.quantile_s(0.95) or 0.0,
        release_s=releases.quantile_s(0.5) or 0.0,
        release_s_p95=releases.quantile_s(0.95) or 0.0,
        batch_overhead_s=overhead_s,
        cost_s_per_row=cost_s,
        executor_starts=repeats,
        batches=len(rows),
        hashes_per_row=_HASHES,
        measured_on=datetime.now(tz=UTC).isoformat(timespec="seconds"),
        spark_version=engine.spark.version,
        cores=os.cpu_count() or 1,
    )


def _grow(plant: ExecutorPlant) -> float:
    """Seconds from asking for one executor more until it is registered, by the driver's own books."""
    before = {one.executor_id for one in plant.observe().executors}
    asked_s = time.time()
    _await_size(plant, 2)
    return max(one.added_s - asked_s for one in plant.observe().executors if one.executor_id not in before)


def _shrink(plant: ExecutorPlant) -> float:
    """Seconds from releasing one executor until it is gone."""
    released_s = time.time()
    _await_size(plant, 1)
    return time.time() - released_s


def _await_size(plant: ExecutorPlant, target: int) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline_s:
        view = plant.observe()
        plant.apply(Executors(cause="calibrate", reason="to be measured", executors=target), view)
        is_quiet = plan_step(view.executors, target).is_quiet
        if is_quiet and len(view.serving) == target and not view.leaving:
            return
        time.sleep(_OBSERVED_EVERY_S)
    raise ClusterError(f"the engine did not come to {target} executors within {_PATIENCE_S:g} s")


def _batch_times(engine: Engine, rows: int, batches: int) -> list[float]:
    """Durations of batches of exactly so many rows, on one executor with one core, once warm."""
    from pyspark.sql import functions as fn  # noqa: PLC0415 - Spark is imported only where it is used

    from penstock.spark.load import register  # noqa: PLC0415 - as above

    register(engine.spark)
    # More waits from the beginning than is ever read, so that every batch is as large as it may be.
    reader = engine.spark.readStream.format("penstock.load").option("profile", "constant:rate=10000000")
    stream = reader.option("maxRowsPerBatch", rows).option("partitions", 1).load()
    digest = fn.col("offset").cast("string")
    for _ in range(_HASHES):
        digest = fn.sha2(digest, 256)
    busy = stream.where(digest == "none is like this")
    with tempfile.TemporaryDirectory(prefix="penstock-calibrate-") as checkpoint:
        writer = busy.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            _await_batches(query, batches + _WARM_UP_BATCHES + _PARTLY_FILLED)
            full = [report for report in query.recentProgress if report.numInputRows == rows]
        finally:
            query.stop()
    return [report.durationMs["triggerExecution"] / 1000.0 for report in full[_WARM_UP_BATCHES:]][:batches]


def _await_batches(query: StreamingQuery, count: int) -> None:
    """Wait in one cheap call at a time: all reports with all their fields would take a core from what is measured."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        text = internals.last_report(query)
        done = 0 if text is None else int(json.loads(text)["batchId"]) + 1
        if done >= count:
            return
        if time.monotonic() > deadline_s or not query.isActive:
            raise ClusterError(f"{done} of {count} batches within {_PATIENCE_S:g} s: the machine is too busy")
        time.sleep(0.2)
