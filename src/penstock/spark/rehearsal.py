"""New executors run the last batch of every query before they take the queries over.

The first batch on an executor that has run nothing takes many times the usual one: classes are loaded and compiled,
Python workers start, the native library of the state store is unpacked. All of that can be had before, while the old
executors still serve. What is rehearsed writes neither to the checkpoint nor to the sink; functions of the query's own
run once more on rows they had, as in a task that Spark repeats.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import TYPE_CHECKING

from penstock.spark import internals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.internals import JavaObject

logger = logging.getLogger("penstock")

_GROUP = "penstock rehearsal"
_LOOK_EVERY_S = 0.2
ROUNDS = 3
"""The first loads and compiles, the second opens state that is there already, the third shows what that was worth."""


def rehearse(spark: SparkSession, profile_id: int, *, within_s: float) -> list[str]:
    """Run the last batch of every query on executors of a profile; gives what could not be rehearsed, and why.

    Never raises: a query that was not rehearsed has one long batch, and is otherwise as it was.
    """
    deadline_s = time.monotonic() + within_s
    return [why for query in spark.streams.active if (why := _rehearse_query(spark, query, profile_id, deadline_s))]


def _rehearse_query(spark: SparkSession, query: StreamingQuery, profile_id: int, deadline_s: float) -> str:
    execution = internals.execution_of(query)
    if not internals.is_micro_batch(execution):
        return ""
    name = query.name or str(query.id)
    try:
        batch = _finished_batch(query, execution, deadline_s)
        if batch is None:
            return f"{name}: no batch was over in time"
        _run_rounds(spark, execution, batch, profile_id, deadline_s)
    except Exception as error:
        logger.debug("%s was not rehearsed", name, exc_info=True)
        return f"{name}: {in_one_line(error)}"
    return ""


def in_one_line(error: Exception) -> str:
    """What an error says; of one of the JVM what that said, and not which call it was.

    Examples
    --------
    >>> in_one_line(ValueError("not today"))
    'ValueError: not today'
    """
    cause = getattr(error, "java_exception", None)
    text = f"{type(error).__name__}: {error}" if cause is None else str(cause.toString())
    return text.splitlines()[0]


def _finished_batch(query: StreamingQuery, execution: JavaObject, deadline_s: float) -> JavaObject | None:
    """The newest batch whose rows are counted: those of a rehearsal would be counted with them."""
    batch = internals.newest_batch(execution)
    while time.monotonic() < deadline_s:
        if batch is None:
            batch = internals.newest_batch(execution)
        elif internals.is_batch_over(execution, batch) or not query.status["isTriggerActive"]:
            return batch
        time.sleep(_LOOK_EVERY_S)
    return None


def _run_rounds(
    spark: SparkSession, execution: JavaObject, batch: JavaObject, profile_id: int, deadline_s: float
) -> None:
    folder = f"{internals.checkpoint_root(execution).rstrip('/')}/penstock-rehearsal-{uuid.uuid4().hex}"
    group = f"{_GROUP} {uuid.uuid4().hex}"
    context = spark.sparkContext
    context.setJobGroup(group, _GROUP, interruptOnCancel=False)
    watch = threading.Timer(max(0.0, deadline_s - time.monotonic()), context.cancelJobGroup, (group,))
    watch.daemon = True
    watch.start()
    rehearsal = internals.BatchRehearsal(spark, batch, folder)
    try:
        for number in range(ROUNDS):
            begun_s = time.monotonic()
            rows = rehearsal.run(profile_id)
            logger.debug("rehearsal %d: %d rows, %.2f s", number, rows, time.monotonic() - begun_s)
            if time.monotonic() > deadline_s:
                break
    finally:
        watch.cancel()
        rehearsal.close()
        internals.delete_file(spark, internals.checkpoint_files(spark, folder), folder)
