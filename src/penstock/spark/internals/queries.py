"""Running queries: their plans, triggers, sources and batches, and messages to their tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from penstock.spark.internals.handles import class_name, private_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.internals.handles import JavaObject

_SHORTEST_WAIT_MS = 1
"""Spark takes no wait of none."""


def execution_of(query: StreamingQuery) -> JavaObject:
    """The object that runs a classic query's batches."""
    wrapper = query._jsq  # noqa: SLF001 - what this package is for
    return wrapper.streamingQuery() if hasattr(wrapper, "streamingQuery") else wrapper


def is_micro_batch(execution: JavaObject) -> bool:
    """Whether the query runs in micro-batches (continuous processing has no read limits)."""
    return class_name(execution).endswith("MicroBatchExecution")


def is_over(query: StreamingQuery) -> bool:
    """Whether the thread of a query has ended, well or not."""
    try:
        return bool(query._jsq.awaitTermination(_SHORTEST_WAIT_MS))  # noqa: SLF001 - what this package is for
    except StreamingQueryException:
        return True


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


def plan_mentions(execution: JavaObject, text: str) -> bool:
    """Whether the query's plan contains a text, such as the name of an observation; its sources must exist already."""
    return text in str(execution.logicalPlan().toString())


def sources_of(execution: JavaObject) -> list[JavaObject]:
    """The distinct sources, in the order in which progress reports list them; empty before they are created."""
    found: list[JavaObject] = []
    sequence = execution.sources()
    for index in range(sequence.size()):
        source = sequence.apply(index)
        if not any(source.equals(known) for known in found):
            found.append(source)
    return found


def unwrapped(source: JavaObject) -> JavaObject:
    """The source inside the wrapper that Spark puts around some of them for AvailableNow."""
    return source.delegate() if class_name(source).startswith("AvailableNow") else source


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


def is_batch_planned(execution: JavaObject, batch_id: int) -> bool:
    """Whether the offsets of a batch are decided, so that a limit that is set from now on says nothing to it."""
    context = execution.getLatestExecutionContext()
    newest = context.batchId()
    return bool(newest > batch_id or (newest == batch_id and context.isCurrentBatchConstructed()))


def _offset_json(progress: JavaObject, source: JavaObject) -> str | None:
    found = progress.get(source)
    return str(found.get().json()) if found.isDefined() else None


def send_to_tasks(execution: JavaObject, key: str, value: str) -> None:
    """Set a property that every task of the batches planned from now on can read.

    Spark copies the settings of the query's own session that begin with ``spark`` into the local properties of tasks.
    """
    execution.sparkSessionForStream().sessionState().conf().setConfString(key, value)


def writer_query_name(writer: object) -> str | None:
    """The name that a query will have, before it starts."""
    options = private_field(writer._jwrite, "extraOptions")  # type: ignore[attr-defined]  # noqa: SLF001 - what this package is for
    found = options.get("queryName")
    return str(found.get()) if found.isDefined() else None


def next_batch(execution: JavaObject) -> int:
    """The batch that a starting query will run first: the one left behind, else the one after the last."""
    planned = execution.offsetLog().getLatestBatchId()
    if not planned.isDefined():
        return 0
    left_behind = uncommitted_batch(execution)
    return int(planned.get()) + 1 if left_behind is None else left_behind


def uncommitted_batch(execution: JavaObject) -> int | None:
    """The batch that an earlier run of a query planned and did not finish; it will run again. None where there is none.

    To be asked before the first batch is planned.
    """
    planned, committed = execution.offsetLog().getLatestBatchId(), execution.commitLog().getLatestBatchId()
    if not planned.isDefined() or (committed.isDefined() and committed.get() >= planned.get()):
        return None
    return int(planned.get())
