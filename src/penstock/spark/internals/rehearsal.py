"""A batch that has been run, run once more on executors of one profile, with its state in a place of its own.

The plan of the batch is planned again as the first one of a query that nobody knows: the same code is compiled, the
same Python workers start, the same state store is opened and committed. The rows are those that the batch read, by the
very partitions that were planned for it, so that no source is asked anything. Neither the checkpoint nor the sink of
the query is touched.
"""

from __future__ import annotations

import uuid
from functools import reduce
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import class_name, context_of, jvm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from penstock.spark.internals.handles import JavaObject

_SCAN, _RELATION = "MicroBatchScanExec", "StreamingDataSourceV2ScanRelation"
_RDD_CLASS = "org.apache.spark.rdd.RDD"
_QUERY_ID_KEY, _BATCH_ID_KEY = "sql.streaming.queryId", "streaming.sql.batchId"


def newest_batch(execution: JavaObject) -> JavaObject | None:
    """What the batch that runs, or the last one, is executed by; None before the first."""
    return execution.lastExecution()


def is_batch_over(execution: JavaObject, batch: JavaObject) -> bool:
    """Whether another batch has come after one: then nobody counts its rows any more."""
    return not execution.lastExecution().equals(batch)


class BatchRehearsal:
    """Runs one batch again and again, each time by a run of its own.

    Parameters
    ----------
    spark
        The session.
    batch
        What :func:`newest_batch` gave, of a batch that is over.
    folder
        Where its state goes; whoever made it deletes it after :meth:`close`.
    """

    def __init__(self, spark: SparkSession, batch: JavaObject, folder: str) -> None:
        self._spark, self._batch, self._folder = spark, batch, folder
        self._plan = _with_rows(spark, batch)
        # Since Spark 4 a version of state may be known by an id that a batch commits; a round cannot know it.
        self._is_versioned_by_id = not batch.currentStateStoreCkptId().isEmpty()
        self._schemas = jvm(spark).scala.collection.mutable.HashMap()
        self._runs: list[JavaObject] = []

    def run(self, profile_id: int | None) -> int:
        """Run the batch on executors of a profile, wherever there is room where none is given; rows that came out."""
        java = jvm(self._spark)
        number = 0 if self._is_versioned_by_id else len(self._runs)
        part = len(self._runs) if self._is_versioned_by_id else 0
        # With another run id no executor has the state yet: it is loaded, as it will have to be.
        run_id = java.java.util.UUID.fromString(str(uuid.uuid4()))
        self._runs.append(run_id)
        streaming = java.org.apache.spark.sql.execution.streaming.runtime
        conf = self._batch.sparkSession().sessionState().conf()
        own: dict[str, object] = {
            "logicalPlan": self._plan,
            "checkpointLocation": f"{self._folder}/{part}/state",
            "runId": run_id,
            "currentBatchId": number,
            "prevOffsetSeqMetadata": _none(self._spark),
            "watermarkPropagator": streaming.WatermarkPropagator.apply(conf),
            "isFirstBatch": number == 0,
            "currentStateStoreCkptId": java.scala.collection.mutable.HashMap(),
            "stateSchemaMetadatas": self._schemas,
        }
        execution = _again(self._spark, self._batch, own)
        rows = execution.toRdd()
        if profile_id is not None:
            _keep_to_profile(self._spark, rows, profile_id)
        context = self._spark.sparkContext
        context.setLocalProperty(_QUERY_ID_KEY, str(self._batch.queryId()))
        context.setLocalProperty(_BATCH_ID_KEY, str(number))
        try:
            return int(rows.count())
        finally:
            context.setLocalProperty(_QUERY_ID_KEY, None)  # type: ignore[arg-type]
            context.setLocalProperty(_BATCH_ID_KEY, None)  # type: ignore[arg-type]

    def close(self) -> None:
        """Let executors forget the state of all rounds."""
        manager = self._batch.sparkSession().sessionState().streamingQueryManager()
        for run_id in self._runs:
            manager.stateStoreCoordinator().deactivateInstances(run_id)


def _again(spark: SparkSession, batch: JavaObject, own: Mapping[str, object]) -> JavaObject:
    """An execution like that of a batch but for some of what it is made of.

    What it is made of differs from version to version of Spark; each part has its name, and is read under that name.
    """
    makers = batch.getClass().getDeclaredConstructors()
    maker = max(makers, key=lambda each: each.getParameterCount())
    names = [str(each.getName()) for each in maker.getParameters()]
    values = [own[name] if name in own else getattr(batch, name)() for name in names]
    made: JavaObject = reduce(getattr, str(batch.getClass().getName()).split("."), jvm(spark))
    return made(*values)


def _with_rows(spark: SparkSession, batch: JavaObject) -> JavaObject:
    """The plan of a batch without its sink, its streams replaced by the rows that it read of them."""
    read = {str(scan.output()): scan.execute() for scan in _scans(batch.executedPlan())}
    plan = batch.logical()
    if str(plan.nodeName()).startswith("WriteTo"):
        plan = plan.children().apply(0)
    return _replaced(spark, plan, read, batch.sparkSession())


def _replaced(spark: SparkSession, plan: JavaObject, read: Mapping[str, JavaObject], session: JavaObject) -> JavaObject:
    if class_name(plan) == _RELATION:
        java, none = jvm(spark), _none(spark)
        nothing = getattr(getattr(java.scala.collection.immutable, "Nil$"), "MODULE$")
        somehow = java.org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning(0)
        rows = read[str(plan.output())]
        return java.org.apache.spark.sql.execution.LogicalRDD(
            plan.output(), rows, somehow, nothing, True, none, session, none, none
        )
    before = _items(plan.children())
    after = [_replaced(spark, child, read, session) for child in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return plan
    children = jvm(spark).java.util.ArrayList()
    for child in after:
        children.add(child)
    return plan.withNewChildren(jvm(spark).scala.jdk.javaapi.CollectionConverters.asScala(children).toSeq())


def _scans(plan: JavaObject) -> Iterator[JavaObject]:
    if class_name(plan) == _SCAN:
        yield plan
    for child in _items(plan.children()):
        yield from _scans(child)


def _keep_to_profile(spark: SparkSession, rows: JavaObject, profile_id: int) -> None:
    """Have all stages that lead to some rows run on executors of one profile."""
    profile = context_of(spark).resourceProfileManager().resourceProfileFromId(profile_id)
    some = jvm(spark).scala.Some(profile)
    field = jvm(spark).java.lang.Class.forName(_RDD_CLASS).getDeclaredField("resourceProfile")
    field.setAccessible(True)
    waiting, seen = [rows], set()
    while waiting:
        each = waiting.pop()
        if each.id() in seen:
            continue
        seen.add(each.id())
        field.set(each, some)
        waiting += [dependency.rdd() for dependency in _items(each.dependencies())]


def _none(spark: SparkSession) -> JavaObject:
    return getattr(getattr(jvm(spark).scala, "None$"), "MODULE$")


def _items(sequence: JavaObject) -> list[JavaObject]:
    return [sequence.apply(index) for index in range(sequence.size())]
