"""The only place that touches members of Spark which are not public API.

Every member is listed in :data:`MEMBERS` with the ability that rests on it. :func:`probe` looks for each of them when
Penstock attaches; what is missing in some version of Spark switches off one ability, with its name, and nothing else.

Tried with pyspark 4.2 on Java 17.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from penstock.errors import UnsupportedSessionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery

JavaObject = Any
"""A handle on an object inside the JVM; Py4J has no types for these."""

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
_LISTENER_CLASS = "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
_LISTENER_WRAPPER_CLASS = "org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"
_BACKEND_CLASS = "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend"
_DECOMMISSION_INFO_CLASS = "org.apache.spark.scheduler.ExecutorDecommissionInfo"
_BATCH_CONTEXT_CLASS = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecutionContext"
_STANDBY_MESSAGE = "on standby by Penstock"
_JVM_ENDS_WITHIN_S = 30.0


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
    PLANNED = "what waited when the running batch was planned"


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
    Member(Ability.TEXT_REPORTS, (_LISTENER_CLASS,), "onQueryProgress"),
    Member(Ability.SCALING, (_CONTEXT_CLASS,), "schedulerBackend"),
    Member(Ability.SCALING, (_CONTEXT_CLASS,), "requestTotalExecutors"),
    Member(Ability.SCALING, (_CONTEXT_CLASS,), "statusStore"),
    Member(Ability.SCALING, (_BACKEND_CLASS,), "getExecutorIds"),
    Member(Ability.SCALING, (_BACKEND_CLASS,), "isExecutorActive"),
    Member(Ability.SCALING, (_BACKEND_CLASS,), "decommissionExecutor"),
    Member(Ability.SCALING, (_DECOMMISSION_INFO_CLASS,), "message"),
    Member(Ability.STANDBY, (_BACKEND_CLASS,), "executorsPendingDecommission"),
    Member(Ability.PLANNED, _EXECUTION_CLASSES, "getLatestExecutionContext"),
    Member(Ability.PLANNED, (_BATCH_CONTEXT_CLASS,), "isCurrentBatchConstructed"),
    Member(Ability.PLANNED, (_BATCH_CONTEXT_CLASS,), "getStartTime"),
    Member(Ability.PLANNED, (_BATCH_CONTEXT_CLASS,), "latestOffsets"),
)


def require_classic_session(spark: SparkSession) -> None:
    """Refuse a session that has no JVM to talk to."""
    if not hasattr(spark, "_jvm") or not hasattr(spark, "_jsparkSession"):
        kind = f"{type(spark).__module__}.{type(spark).__name__}"
        raise UnsupportedSessionError(
            f"{kind} is not a classic Spark session. A Spark Connect client has no driver of its own, so Penstock "
            "cannot act there: attach in the application that hosts the queries (without SPARK_REMOTE or .remote(...))"
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
        return _jvm(spark).java.lang.Class.forName(name)
    except Py4JJavaError:
        return None


def _jvm(spark: SparkSession) -> JavaObject:
    return spark._jvm  # noqa: SLF001 - what this module is for


# Queries and their sources


def execution_of(query: StreamingQuery) -> JavaObject:
    """The object that runs a classic query's batches."""
    wrapper = query._jsq  # noqa: SLF001 - what this module is for
    return wrapper.streamingQuery() if hasattr(wrapper, "streamingQuery") else wrapper


def is_micro_batch(execution: JavaObject) -> bool:
    """Whether the query runs in micro-batches (continuous processing has no read limits)."""
    return class_name(execution).endswith("MicroBatchExecution")


def plan_now(execution: JavaObject) -> None:
    """Make a starting query create its sources now.

    Spark does so on the query's own thread and nowhere else. A listener's ``onQueryStarted`` runs on that thread,
    before the first batch is planned, and Py4J carries calls made inside it back to the same thread: so this works
    there, and only there.
    """
    execution.logicalPlan()


def is_planned(execution: JavaObject) -> bool:
    """Whether the query has created its sources and given them their limits."""
    return not execution.uniqueSources().isEmpty()


def sources_of(execution: JavaObject) -> list[JavaObject]:
    """The distinct sources, in the order in which progress reports list them; empty before they are created."""
    found: list[JavaObject] = []
    sequence = execution.sources()
    for index in range(sequence.size()):
        source = sequence.apply(index)
        if not any(source.equals(known) for known in found):
            found.append(source)
    return found


def read_limit_of(execution: JavaObject, source: JavaObject) -> JavaObject:
    """The read limit in force for a source."""
    return execution.uniqueSources().apply(source)


def set_read_limit(execution: JavaObject, source: JavaObject, limit: JavaObject) -> None:
    """Put a read limit in force from the next planned batch on.

    The limit must be of a class that the source knows: any other kills the query with a match error.
    """
    getattr(execution, "uniqueSources_$eq")(execution.uniqueSources().updated(source, limit))


def unwrapped(source: JavaObject) -> JavaObject:
    """The source inside the wrapper that Spark puts around some of them for AvailableNow."""
    return source.delegate() if class_name(source).startswith("AvailableNow") else source


def class_name(java_object: JavaObject) -> str:
    """Simple name of a JVM object's class."""
    return str(java_object.getClass().getSimpleName())


def trigger_of(execution: JavaObject) -> tuple[str, float]:
    """Kind of trigger and its interval in seconds (0 where it has none)."""
    trigger = execution.trigger()
    kind = class_name(trigger).rstrip("$")
    interval_s = trigger.intervalMs() / 1000.0 if kind == "ProcessingTimeTrigger" else 0.0
    return kind, interval_s


def reads_all_in_one_batch(execution: JavaObject) -> bool:
    """Whether the query runs a single batch that must read everything (Once, or AvailableNow on a simple source)."""
    executor = execution.triggerExecutor()
    return executor is not None and class_name(executor) == "SingleBatchExecutor"


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """Where a batch starts and ends in a source, and where the source ended when that was decided; JSON, or None."""

    start: str | None
    end: str | None
    latest: str | None


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """A batch whose offsets are written down, and when it was planned, in seconds since the epoch."""

    batch_id: int
    planned_s: float
    offsets: tuple[SourceOffsets, ...]


def running_batch(execution: JavaObject, batch_id: int, sources: Sequence[JavaObject]) -> RunningBatch | None:
    """A batch with its offsets in these sources; None while it is being planned, and when it is over."""
    context = execution.getLatestExecutionContext()
    # Asked for again and again until it is there: until then, two calls are all that this may cost.
    if context.batchId() != batch_id or not context.isCurrentBatchConstructed():
        return None
    progress = (context.startOffsets(), context.endOffsets(), context.latestOffsets())
    offsets = tuple(SourceOffsets(*(_offset_json(each, source) for each in progress)) for source in sources)
    return RunningBatch(batch_id, context.getStartTime() / 1000.0, offsets)


def _offset_json(progress: JavaObject, source: JavaObject) -> str | None:
    found = progress.get(source)
    return str(found.get().json()) if found.isDefined() else None


def send_to_tasks(execution: JavaObject, key: str, value: str) -> None:
    """Set a property that every task of the batches planned from now on can read.

    Spark copies the settings of the query's own session that begin with ``spark`` into the local properties of tasks.
    """
    execution.sparkSessionForStream().sessionState().conf().setConfString(key, value)


def plan_mentions(execution: JavaObject, text: str) -> bool:
    """Whether the query's plan contains a text, such as the name of an observation; its sources must exist already."""
    return text in str(execution.logicalPlan().toString())


# Events


class _TextReports:
    """Spark's listener interface over Py4J, which fetches each progress report in one call.

    Spark's own fetches it field by field: some hundred calls, 0.2 s of a busy two-core machine for every batch.
    """

    def __init__(self, listener: StreamingQueryListener, on_progress: Callable[[str], None]) -> None:
        self._listener = listener
        self._on_progress = on_progress

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802 - a name of Spark
        from pyspark.sql.streaming.listener import QueryStartedEvent  # noqa: PLC0415 - imported only where it is used

        self._listener.onQueryStarted(QueryStartedEvent.fromJObject(event))

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802 - a name of Spark
        self._on_progress(str(event.progress().json()))

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802 - a name of Spark
        """Nothing to do: no batch was run."""

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802 - a name of Spark
        from pyspark.sql.streaming.listener import QueryTerminatedEvent  # noqa: PLC0415 - imported only where used

        self._listener.onQueryTerminated(QueryTerminatedEvent.fromJObject(event))

    class Java:
        """What Py4J wants to know."""

        implements = (_LISTENER_CLASS,)


def take_reports_as_text(listener: StreamingQueryListener, on_progress: Callable[[str], None]) -> None:
    """Give a listener, before it is added, its progress reports as JSON and not as objects."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - imported only where it is used

    gateway = SparkContext._gateway  # noqa: SLF001 - what this module is for
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    wrapper = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper
    listener._jlistenerobj = wrapper(_TextReports(listener, on_progress))  # noqa: SLF001 - what this module is for


# Read limits


def row_limit(spark: SparkSession, rows: int) -> JavaObject:
    """A limit in rows for sources inside the JVM."""
    return _limits(spark).maxRows(rows)


def file_limit(spark: SparkSession, files: int) -> JavaObject:
    """A limit in files."""
    return _limits(spark).maxFiles(min(files, 2**31 - 1))


def byte_limit(spark: SparkSession, size_bytes: int) -> JavaObject:
    """A limit in bytes."""
    return _limits(spark).maxBytes(size_bytes)


def with_minimum(spark: SparkSession, minimum: JavaObject, limit: JavaObject) -> JavaObject:
    """A limit that keeps the smallest batch which the user configured beside it."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - what this module is for
    assert gateway is not None
    array = gateway.new_array(_limits(spark), 2)
    array[0], array[1] = minimum, limit
    return _limits(spark).compositeLimit(array)


def python_limit(spark: SparkSession, kind: str, field: str, units: int) -> JavaObject:
    """A limit for a Python source, which takes none but this class."""
    build = _jvm(spark).org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceReadLimit
    return build(json.dumps({field: units, "_type": kind}))


def python_reader_takes_limits(source: JavaObject) -> bool:
    """Whether the reader behind a Python source may be given a limit.

    Spark runs a ``SimpleDataSourceStreamReader`` as the same class as a reader with admission control, and its worker
    dies of any limit. What tells them apart is the Python object itself, which the source carries along.
    """
    from pyspark import cloudpickle  # noqa: PLC0415 - Spark is imported only where it is used
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415 - imported only where it is used

    command = _private_field(_private_field(source, "runner"), "func").command()
    data_source = cloudpickle.loads(bytes(command.unsafeArray()))
    return type(data_source).streamReader is not DataSource.streamReader


def _limits(spark: SparkSession) -> JavaObject:
    return _jvm(spark).org.apache.spark.sql.connector.read.streaming.ReadLimit


# Files of a file source


@dataclass(frozen=True, slots=True)
class FileCount:
    """Number of files and their total size."""

    files: int
    size_bytes: float


def files_of_batch(spark: SparkSession, source: JavaObject, log_offset: int, *, sample: int = 16) -> FileCount | None:
    """Files that a file source put into the batch with that log offset; sizes from a sample of them."""
    found = _private_field(source, "metadataLog").get(log_offset)
    if not found.isDefined():
        return None
    entries = found.get()
    if len(entries) == 0 or entries[0].batchId() != log_offset:
        return None  # a compacted log holds the files of all earlier batches too
    step = max(1, len(entries) // sample)
    sampled = [_file_size_bytes(spark, source, entries[index]) for index in range(0, len(entries), step)]
    return FileCount(len(entries), len(entries) * sum(sampled) / len(sampled))


def files_waiting(source: JavaObject) -> FileCount:
    """Files that a file source has listed and not yet read."""
    unread = _private_field(source, "unreadFiles")
    if unread is None or unread.isEmpty():
        return FileCount(0, 0.0)
    count = int(unread.size())
    step = max(1, count // 16)
    sizes = [float(unread.apply(index).size()) for index in range(0, count, step)]
    return FileCount(count, count * sum(sizes) / len(sizes))


def _file_size_bytes(spark: SparkSession, source: JavaObject, entry: JavaObject) -> float:
    path = _jvm(spark).org.apache.hadoop.fs.Path(_jvm(spark).java.net.URI(entry.path()))
    return float(_private_field(source, "fs").getFileStatus(path).getLen())


def _private_field(java_object: JavaObject, name: str) -> JavaObject:
    field = java_object.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java_object)


# Writers and executors


def writer_query_name(writer: object) -> str | None:
    """The name that a query will have, before it starts."""
    options = _private_field(writer._jwrite, "extraOptions")  # type: ignore[attr-defined]  # noqa: SLF001 - what this module is for
    found = options.get("queryName")
    return str(found.get()) if found.isDefined() else None


@dataclass(frozen=True, slots=True)
class ExecutorTotals:
    """Totals of one executor since it started."""

    executor_id: str
    cores: int
    task_s: float
    gc_s: float
    heap_peak_bytes: int | None


def executor_totals(spark: SparkSession) -> list[ExecutorTotals]:
    """Work, garbage collection and heap of all live executors."""
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - what this module is for
    summaries = context.statusStore().executorList(True)
    local = _is_local(spark)
    totals = []
    for index in range(summaries.size()):
        summary = summaries.apply(index)
        if summary.id() == "driver" and not local:
            continue
        peaks = summary.peakMemoryMetrics()
        heap = int(peaks.get().getMetricValue("JVMHeapMemory")) if peaks.isDefined() else 0
        totals.append(
            ExecutorTotals(
                executor_id=str(summary.id()),
                cores=int(summary.totalCores()),
                task_s=summary.totalDuration() / 1000.0,
                gc_s=summary.totalGCTime() / 1000.0,
                heap_peak_bytes=heap or None,
            )
        )
    return totals


def core_seconds(spark: SparkSession, group: str, after_job: int) -> tuple[float, int]:
    """Seconds that the finished jobs of a group kept cores busy, of those after one; and the last that was counted.

    The jobs of a streaming query are one group, under the id of its run.
    """
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()  # noqa: SLF001 - what this module is for
    total_s, last = 0.0, after_job
    for job_id in sorted(context.statusTracker().getJobIdsForGroup(group)):
        if job_id <= after_job:
            continue
        stages = store.job(job_id).stageIds()
        if str(store.job(job_id).status().toString()) == "RUNNING":
            break
        for index in range(stages.size()):
            total_s += store.lastStageAttempt(stages.apply(index)).executorRunTime() / 1000.0
        last = job_id
    return total_s, last


def rows_read(spark: SparkSession, group: str) -> int:
    """Rows that all jobs of a group have read so far, those of running tasks as of their last heartbeat."""
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()  # noqa: SLF001 - what this module is for
    total = 0
    for job_id in context.statusTracker().getJobIdsForGroup(group):
        stages = store.job(job_id).stageIds()
        total += sum(store.lastStageAttempt(stages.apply(index)).inputRecords() for index in range(stages.size()))
    return total


def engine_cores(spark: SparkSession) -> int:
    """Cores over all executors that are given work; at least one."""
    totals = executor_totals(spark)
    if not _is_local(spark):
        totals = [executor for executor in totals if _backend(spark).isExecutorActive(executor.executor_id)]
    return max(1, sum(executor.cores for executor in totals))


@dataclass(frozen=True, slots=True)
class LiveExecutor:
    """One registered executor.

    ``is_active`` says whether the scheduler gives it work: not once it leaves, and not while it is on standby.
    """

    executor_id: str
    added_s: float
    active_tasks: int
    total_tasks: int
    failed_tasks: int
    task_s: float
    is_active: bool


def live_executors(spark: SparkSession) -> list[LiveExecutor]:
    """All executors that are registered with the driver; none in local mode, whose only one cannot be changed."""
    if _is_local(spark):
        return []
    registered = _backend(spark).getExecutorIds()
    known = {registered.apply(index) for index in range(registered.size())}
    found = _context(spark).statusStore().executorList(True)
    summaries = [found.apply(index) for index in range(found.size())]
    return [
        LiveExecutor(
            executor_id=str(summary.id()),
            added_s=summary.addTime().getTime() / 1000.0,
            active_tasks=int(summary.activeTasks()),
            total_tasks=int(summary.totalTasks()),
            failed_tasks=int(summary.failedTasks()),
            task_s=summary.totalDuration() / 1000.0,
            is_active=bool(_backend(spark).isExecutorActive(summary.id())),
        )
        for summary in summaries
        if summary.id() in known
    ]


def failed_tasks(spark: SparkSession) -> int:
    """Tasks that failed since the application began, on executors that are gone as well."""
    found = _context(spark).statusStore().executorList(False)
    return sum(int(found.apply(index).failedTasks()) for index in range(found.size()))


def request_executors(spark: SparkSession, total: int) -> bool:
    """Ask the cluster for so many executors in all; those beyond them stay until they are released.

    Says whether the cluster's manager took note, not whether it has them.
    """
    none = _jvm(spark).scala.collection.immutable.HashMap()
    return bool(_context(spark).requestTotalExecutors(total, 0, none))


def release_executor(spark: SparkSession, executor_id: str) -> bool:
    """Let an executor finish its tasks, pass its blocks on and end; False for one that is gone or going already.

    The number asked for is left as it is: lower it before, or another executor comes in its place.
    """
    none = getattr(getattr(_jvm(spark).scala, "None$"), "MODULE$")
    info = _jvm(spark).org.apache.spark.scheduler.ExecutorDecommissionInfo("released by Penstock", none)
    return bool(_backend(spark).decommissionExecutor(executor_id, info, False, False))


def put_on_standby(spark: SparkSession, executor_id: str) -> None:
    """Give an executor no more work until it is called; what it runs it finishes.

    The scheduler offers no work to executors that it takes for leaving. Nobody tells the executor, so it stays.
    """
    none = getattr(getattr(_jvm(spark).scala, "None$"), "MODULE$")
    info = _jvm(spark).org.apache.spark.scheduler.ExecutorDecommissionInfo(_STANDBY_MESSAGE, none)
    _backend(spark).executorsPendingDecommission().put(executor_id, info)


def call_from_standby(spark: SparkSession, executor_id: str) -> None:
    """Give an executor on standby work from the next task on."""
    if is_on_standby(spark, executor_id):
        _backend(spark).executorsPendingDecommission().remove(executor_id)
        _backend(spark).reviveOffers()


def is_on_standby(spark: SparkSession, executor_id: str) -> bool:
    """Whether an executor that is given no work is on standby, and does not leave."""
    found = _backend(spark).executorsPendingDecommission().get(executor_id)
    return bool(found.isDefined()) and str(found.get().message()) == _STANDBY_MESSAGE


def is_graceful(spark: SparkSession) -> bool:
    """Whether executors of this application end on their own when they are released: Spark asks for settings."""
    conf = _context(spark).getConf()
    names = ("spark.decommission.enabled", "spark.storage.decommission.enabled")
    return all(str(conf.get(name, "false")).lower() == "true" for name in names)


def is_allocated_by_spark(spark: SparkSession) -> bool:
    """Whether Spark's own dynamic allocation has its hand on the executors."""
    return bool(_context(spark).executorAllocationManager().isDefined())


def _context(spark: SparkSession) -> JavaObject:
    return spark.sparkContext._jsc.sc()  # noqa: SLF001 - what this module is for


def _backend(spark: SparkSession) -> JavaObject:
    return _context(spark).schedulerBackend()


def last_report(query: StreamingQuery) -> str | None:
    """The newest progress report of a query as JSON, in one call; None before its first."""
    report = query._jsq.lastProgress()  # noqa: SLF001 - what this module is for
    return None if report is None else str(report.json())


def reports_after(query: StreamingQuery, batch_id: int | None) -> list[str]:
    """Progress reports as JSON, oldest first, that are newer than a batch; only the newest where there is none.

    One call where nothing is new: this is asked every second.
    """
    newest = query._jsq.lastProgress()  # noqa: SLF001 - what this module is for
    if newest is None:
        return []
    last_id = int(newest.batchId())
    # A smaller number is another run, from another checkpoint.
    if batch_id is None or last_id <= batch_id + 1:
        return [] if last_id == batch_id else [str(newest.json())]
    kept = query._jsq.recentProgress()  # noqa: SLF001 - what this module is for
    found: list[str] = []
    for index in range(len(kept) - 1, -1, -1):
        if int(kept[index].batchId()) <= batch_id:
            break
        found.append(str(kept[index].json()))
    return found[::-1]


def executor_heap_max_bytes(spark: SparkSession) -> int | None:
    """Largest heap an executor may have: the driver's own in local mode, else what was configured."""
    if _is_local(spark):
        return int(_jvm(spark).java.lang.Runtime.getRuntime().maxMemory())
    return int(spark.sparkContext._jsc.sc().executorMemory()) * 1024 * 1024  # noqa: SLF001 - what this module is for


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


def end_session(spark: SparkSession) -> None:
    """Stop a session and wait for the end of its JVM, which else outlives the program by a moment."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    gateway = SparkContext._gateway  # noqa: SLF001 - what this module is for
    spark.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return  # somebody else's JVM
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - the next session starts a JVM of its own
    gateway.shutdown()
    process.stdin.close()
    process.wait(timeout=_JVM_ENDS_WITHIN_S)
