"""The private members of Spark that Penstock uses, and which of them this Spark has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.internals.handles import JavaObject

_EXECUTION_CLASSES = (
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
)
_READ_LIMIT_CLASS = "org.apache.spark.sql.connector.read.streaming.ReadLimit"
_PYTHON_LIMIT_CLASS = "org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceReadLimit"
_PYTHON_SOURCE_CLASS = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithAdmissionControl"
_PYTHON_RUNNER_CLASS = "org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner"
_WRITER_CLASS = "org.apache.spark.sql.classic.DataStreamWriter"
_CONTEXT_CLASS = "org.apache.spark.SparkContext"
LISTENER_CLASS = "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
_LISTENER_WRAPPER_CLASS = "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"
_BACKEND_CLASS = "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend"
_DECOMMISSION_INFO_CLASS = "org.apache.spark.scheduler.ExecutorDecommissionInfo"
_CHECKPOINT_FILES_CLASS = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"
_BATCH_CONTEXT_CLASS = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecutionContext"
_RELATION_CLASS = "org.apache.spark.sql.catalyst.streaming.StreamingRelationV2"
_CODEGEN_METRICS_CLASS = "org.apache.spark.metrics.source.CodegenMetrics"

_SUMMARY_CLASS = "org.apache.spark.status.api.v1.ExecutorSummary"
_PROFILE_MANAGER_CLASS = "org.apache.spark.resource.ResourceProfileManager"
_TASK_SCHEDULER_CLASS = "org.apache.spark.scheduler.TaskSchedulerImpl"
_POOL_CLASS = "org.apache.spark.scheduler.Pool"
_RDD_CLASS = "org.apache.spark.rdd.RDD"
_INCREMENTAL_CLASS = "org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution"
_WATERMARK_CLASS = "org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator"
_LOGICAL_RDD_CLASS = "org.apache.spark.sql.execution.LogicalRDD"
_SHARED_STATE_CLASS = "org.apache.spark.sql.internal.SharedState"
_PLAN_INFO_CLASS = "org.apache.spark.sql.execution.SparkPlanInfo"
_PLAN_UPDATE_CLASS = "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate"
_JSON_CLASS = "org.apache.spark.util.JsonProtocol"
_ACCUMULATORS_CLASS = "org.apache.spark.util.AccumulatorContext"
_SETTERS_CLASS = "org.apache.spark.sql.catalyst.expressions.objects.InitializeJavaBean"
_INVOKE_CLASS = "org.apache.spark.sql.catalyst.expressions.objects.Invoke"
_COLUMNS_CLASS = "org.apache.spark.sql.classic.ExpressionUtils"
_FUNCTION_CLASS = "org.apache.spark.sql.expressions.SparkUserDefinedFunction"
_STATIC_INVOKE_CLASS = "org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke"
_SESSION_CLASS = "org.apache.spark.sql.classic.SparkSession"
_ENVIRONMENT_CLASS = "org.apache.spark.SparkEnv"
_TASK_PROFILE_CLASS = "org.apache.spark.resource.TaskResourceProfile"


class Ability(StrEnum):
    """What Penstock can do only with private members of Spark."""

    READ_LIMIT = "read limits of running queries"
    FIRST_BATCH = "read limit of the very first batch"
    PYTHON_LIMIT = "read limits of Python sources"
    CHANNEL = "messages to the tasks of a running query"
    WRITER_NAME = "names of queries before they start"
    EXECUTORS = "CPU, heap and garbage collection of executors"
    TEXT_REPORTS = "progress reports as text"
    SCALING = "executors added and removed while queries run"
    STANDBY = "executors kept warm without work"
    RECORD = "what batches were told, kept beside the checkpoint"
    PLANNED = "what waited when the running batch was planned"
    IDENTITY = "rows told apart by their source"
    COUNTS = "rows of guards counted in compiled code"
    COMPILED = "count of compiled classes"
    USAGE = "memory and garbage collection of executors and their Python workers"
    LIVE_HEAP = "what lives in the heap of executors"
    RESHAPE = "executors of another size while queries run"
    POOLS = "weights of priorities in Spark's scheduler"
    REHEARSAL = "executors that have run a query's batch before they take it over"


@dataclass(frozen=True, slots=True)
class Member:
    """One private member: any of ``classes`` must have ``name`` (a method or field; empty: the class itself)."""

    ability: Ability
    classes: tuple[str, ...]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.classes[0]}.{self.name}" if self.name else self.classes[0]


MEMBERS: tuple[Member, ...] = (
    Member(Ability.READ_LIMIT, _EXECUTION_CLASSES, "uniqueSources"),
    Member(Ability.READ_LIMIT, _EXECUTION_CLASSES, "uniqueSources_$eq"),
    Member(Ability.READ_LIMIT, _EXECUTION_CLASSES, "sources"),
    Member(Ability.READ_LIMIT, _EXECUTION_CLASSES, "trigger"),
    Member(Ability.READ_LIMIT, _EXECUTION_CLASSES, "triggerExecutor"),
    Member(Ability.READ_LIMIT, (_READ_LIMIT_CLASS,), "maxRows"),
    Member(Ability.FIRST_BATCH, _EXECUTION_CLASSES, "logicalPlan"),
    Member(Ability.PYTHON_LIMIT, (_PYTHON_LIMIT_CLASS,), "json"),
    Member(Ability.PYTHON_LIMIT, (_PYTHON_SOURCE_CLASS,), "runner"),
    Member(Ability.PYTHON_LIMIT, (_PYTHON_RUNNER_CLASS,), "func"),
    Member(Ability.CHANNEL, _EXECUTION_CLASSES, "sparkSessionForStream"),
    Member(Ability.WRITER_NAME, (_WRITER_CLASS,), "extraOptions"),
    Member(Ability.EXECUTORS, (_CONTEXT_CLASS,), "statusStore"),
    Member(Ability.TEXT_REPORTS, (_LISTENER_WRAPPER_CLASS,)),
    Member(Ability.TEXT_REPORTS, (LISTENER_CLASS,), "onQueryProgress"),
    Member(Ability.SCALING, (_CONTEXT_CLASS,), "schedulerBackend"),
    Member(Ability.SCALING, (_CONTEXT_CLASS,), "requestTotalExecutors"),
    Member(Ability.SCALING, (_CONTEXT_CLASS,), "statusStore"),
    Member(Ability.SCALING, (_BACKEND_CLASS,), "getExecutorIds"),
    Member(Ability.SCALING, (_BACKEND_CLASS,), "isExecutorActive"),
    Member(Ability.SCALING, (_BACKEND_CLASS,), "decommissionExecutor"),
    Member(Ability.SCALING, (_DECOMMISSION_INFO_CLASS,), "message"),
    Member(Ability.STANDBY, (_BACKEND_CLASS,), "executorsPendingDecommission"),
    Member(Ability.RECORD, _EXECUTION_CLASSES, "resolvedCheckpointRoot"),
    Member(Ability.RECORD, (_CHECKPOINT_FILES_CLASS,), "createAtomic"),
    Member(Ability.PLANNED, _EXECUTION_CLASSES, "getLatestExecutionContext"),
    Member(Ability.PLANNED, (_BATCH_CONTEXT_CLASS,), "isCurrentBatchConstructed"),
    Member(Ability.PLANNED, (_BATCH_CONTEXT_CLASS,), "getStartTime"),
    Member(Ability.PLANNED, (_BATCH_CONTEXT_CLASS,), "latestOffsets"),
    Member(Ability.PLANNED, _EXECUTION_CLASSES, "offsetLog"),
    Member(Ability.PLANNED, _EXECUTION_CLASSES, "commitLog"),
    Member(Ability.IDENTITY, (_RELATION_CLASS,), "sourceName"),
    Member(Ability.USAGE, (_SUMMARY_CLASS,), "peakMemoryMetrics"),
    Member(Ability.USAGE, (_SUMMARY_CLASS,), "resourceProfileId"),
    Member(Ability.USAGE, (_SUMMARY_CLASS,), "removeReason"),
    Member(Ability.USAGE, (_PROFILE_MANAGER_CLASS,), "resourceProfileFromId"),
    Member(Ability.LIVE_HEAP, (_STATIC_INVOKE_CLASS,), "staticObject"),
    Member(Ability.LIVE_HEAP, (_INVOKE_CLASS,), "functionName"),
    Member(Ability.LIVE_HEAP, (_COLUMNS_CLASS,), "column"),
    Member(Ability.LIVE_HEAP, (_SESSION_CLASS,), "internalCreateDataFrame"),
    Member(Ability.LIVE_HEAP, (_CONTEXT_CLASS,), "makeRDD"),
    Member(Ability.LIVE_HEAP, (_ENVIRONMENT_CLASS,), "executorId"),
    Member(Ability.LIVE_HEAP, (_BACKEND_CLASS,), "isExecutorActive"),
    Member(Ability.LIVE_HEAP, (_TASK_SCHEDULER_CLASS,), "rootPool"),
    Member(Ability.LIVE_HEAP, (_POOL_CLASS,), "runningTasks"),
    Member(Ability.RESHAPE, (_PROFILE_MANAGER_CLASS,), "resourceProfileIdToResourceProfile"),
    Member(Ability.RESHAPE, (_PROFILE_MANAGER_CLASS,), "defaultProfile"),
    Member(Ability.RESHAPE, (_TASK_PROFILE_CLASS,), "setResourceProfileId"),
    Member(Ability.RESHAPE, (_BACKEND_CLASS,), "requestTotalExecutors"),
    Member(Ability.RESHAPE, (_BACKEND_CLASS,), "decommissionExecutor"),
    Member(Ability.POOLS, (_TASK_SCHEDULER_CLASS,), "rootPool"),
    Member(Ability.POOLS, (_POOL_CLASS,), "addSchedulable"),
    Member(Ability.REHEARSAL, (_RDD_CLASS,), "resourceProfile"),
    Member(Ability.REHEARSAL, _EXECUTION_CLASSES, "lastExecution"),
    Member(Ability.REHEARSAL, (_INCREMENTAL_CLASS,), "currentStateStoreCkptId"),
    Member(Ability.REHEARSAL, (_WATERMARK_CLASS,), "apply"),
    Member(Ability.REHEARSAL, (_LOGICAL_RDD_CLASS,)),
    Member(Ability.COUNTS, _EXECUTION_CLASSES, "lastExecution"),
    Member(Ability.COUNTS, (_INCREMENTAL_CLASS,), "currentBatchId"),
    Member(Ability.COUNTS, (_SHARED_STATE_CLASS,), "activeStreamingQueries"),
    Member(Ability.COUNTS, (_PLAN_INFO_CLASS,), "fromSparkPlan"),
    Member(Ability.COUNTS, (_PLAN_UPDATE_CLASS,), "sparkPlanInfo"),
    Member(Ability.COUNTS, (_JSON_CLASS,), "sparkEventToJsonString"),
    Member(Ability.COUNTS, (_ACCUMULATORS_CLASS,), "get"),
    Member(Ability.COUNTS, (_SETTERS_CLASS,), "setters"),
    Member(Ability.COUNTS, (_INVOKE_CLASS,), "functionName"),
    Member(Ability.COUNTS, (_COLUMNS_CLASS,), "column"),
    Member(Ability.COUNTS, (_FUNCTION_CLASS,), "f"),
    Member(Ability.COMPILED, (_CODEGEN_METRICS_CLASS,), "METRIC_COMPILATION_TIME"),
)


def probe(spark: SparkSession, members: tuple[Member, ...] | None = None) -> dict[Ability, str]:
    """Abilities that this Spark does not offer, each with the member that is missing."""
    missing: dict[Ability, str] = {}
    for member in MEMBERS if members is None else members:
        if not _has_member(spark, member):
            missing.setdefault(member.ability, f"Spark {spark.version} has no {member}")
    return missing


def _has_member(spark: SparkSession, member: Member) -> bool:
    for class_name in member.classes:
        java_class = _java_class(spark, class_name)
        if java_class is None:
            continue
        if not member.name:
            return True
        while java_class is not None:
            declared = [*java_class.getDeclaredMethods(), *java_class.getDeclaredFields()]
            if any(item.getName() == member.name for item in declared):
                return True
            java_class = java_class.getSuperclass()
    return False


def _java_class(spark: SparkSession, name: str) -> JavaObject | None:
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - Spark is imported only where it is used

    try:
        return jvm(spark).java.lang.Class.forName(name)
    except Py4JJavaError:
        return None
