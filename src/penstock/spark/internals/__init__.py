"""The only place that touches members of Spark which are not public API.

Every member is listed in :data:`MEMBERS` with the ability that rests on it. :func:`probe` looks for each of them when
Penstock attaches; what is missing in some version of Spark switches off one ability, with its name, and nothing else.

Tried with pyspark 4.2 on Java 17.
"""

from __future__ import annotations

from penstock.spark.internals.asked import EVALUATED_BY, asked_text, batch_property, is_asked
from penstock.spark.internals.checkpoint_files import (
    checkpoint_files,
    checkpoint_root,
    delete_file,
    list_files,
    missing_files,
    read_file,
    write_file,
)
from penstock.spark.internals.executors import (
    ExecutorTotals,
    LiveExecutor,
    call_from_standby,
    engine_cores,
    executor_heap_max_bytes,
    executor_totals,
    failed_tasks,
    is_allocated_by_spark,
    is_graceful,
    is_on_standby,
    live_executors,
    put_on_standby,
    release_executor,
    request_executors,
)
from penstock.spark.internals.files import FileCount, files_of_batch, files_waiting
from penstock.spark.internals.guards import StreamSource, plan_text, source_of
from penstock.spark.internals.handles import JavaObject, class_name
from penstock.spark.internals.jobs import core_seconds, rows_read
from penstock.spark.internals.kafka import earliest_offsets
from penstock.spark.internals.limits import (
    byte_limit,
    file_limit,
    python_limit,
    python_reader_takes_limits,
    read_limit_of,
    row_limit,
    set_read_limit,
    with_minimum,
)
from penstock.spark.internals.members import MEMBERS, Ability, Member, probe
from penstock.spark.internals.plans import (
    PlanNode,
    SourceRows,
    compiled_classes,
    plan_of_execution,
    plan_of_writer,
    source_rows,
)
from penstock.spark.internals.queries import (
    RunningBatch,
    SourceOffsets,
    execution_of,
    is_micro_batch,
    is_planned,
    next_batch,
    plan_mentions,
    plan_now,
    reads_all_in_one_batch,
    running_batch,
    send_to_tasks,
    sources_of,
    trigger_of,
    uncommitted_batch,
    unwrapped,
    writer_query_name,
)
from penstock.spark.internals.reports import (
    end_connection,
    last_report,
    reports_after,
    take_reports_as_text,
    thread_connection,
    unseen_reports,
)
from penstock.spark.internals.session import end_session, is_same_session, require_classic_session

__all__ = [
    "EVALUATED_BY",
    "MEMBERS",
    "Ability",
    "ExecutorTotals",
    "FileCount",
    "JavaObject",
    "LiveExecutor",
    "Member",
    "PlanNode",
    "RunningBatch",
    "SourceOffsets",
    "SourceRows",
    "StreamSource",
    "asked_text",
    "batch_property",
    "byte_limit",
    "call_from_standby",
    "checkpoint_files",
    "checkpoint_root",
    "class_name",
    "compiled_classes",
    "core_seconds",
    "delete_file",
    "earliest_offsets",
    "end_connection",
    "end_session",
    "engine_cores",
    "execution_of",
    "executor_heap_max_bytes",
    "executor_totals",
    "failed_tasks",
    "file_limit",
    "files_of_batch",
    "files_waiting",
    "is_allocated_by_spark",
    "is_asked",
    "is_graceful",
    "is_micro_batch",
    "is_on_standby",
    "is_planned",
    "is_same_session",
    "last_report",
    "list_files",
    "live_executors",
    "missing_files",
    "next_batch",
    "plan_mentions",
    "plan_now",
    "plan_of_execution",
    "plan_of_writer",
    "plan_text",
    "probe",
    "put_on_standby",
    "python_limit",
    "python_reader_takes_limits",
    "read_file",
    "read_limit_of",
    "reads_all_in_one_batch",
    "release_executor",
    "reports_after",
    "request_executors",
    "require_classic_session",
    "row_limit",
    "rows_read",
    "running_batch",
    "send_to_tasks",
    "set_read_limit",
    "source_of",
    "source_rows",
    "sources_of",
    "take_reports_as_text",
    "thread_connection",
    "trigger_of",
    "uncommitted_batch",
    "unseen_reports",
    "unwrapped",
    "with_minimum",
    "write_file",
    "writer_query_name",
]
