"""The directive of a batch: as a task finds it in its Python worker, and as the driver finds it while it plans.

A guard is asked for in the driver, before any task runs (:func:`directive_of_batch`); an operator works in Python
workers, each of which asks for itself (:func:`directive_of_task`). Both ask the same server.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext

from penstock.model.directive import Directive
from penstock.model.shed_history import UNKNOWN
from penstock.spark import internals
from penstock.spark.directives import (
    ENDPOINT_PROPERTY,
    FALLBACK_PROPERTY,
    TIMEOUT_PROPERTY,
    TOKEN_PROPERTY,
    Question,
    ask,
)
from penstock.spark.guard_counts import counts
from penstock.spark.guard_filters import NOBODY
from penstock.spark.pools import pools

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("penstock")

QUERY_ID_PROPERTY = "sql.streaming.queryId"
RUN_ID_PROPERTY = "spark.jobGroup.id"
BATCH_ID_PROPERTY = "streaming.sql.batchId"
TIMEOUT_S = 0.5
"""How long a batch waits for its directive.

An answer takes a few milliseconds; where driver and tasks fight for the same cores, or the driver collects garbage,
some tenths of a second. Latency goals are a second and more, so half a second, once a minute and worker, is what a
driver that answers nothing may cost.
"""
_REMEMBERED = 64
_TOLD = 4096
"""Batches of a driver whose directives are at hand when their reports come; those of a thousand queries, four each."""


@dataclass(frozen=True, slots=True)
class TaskDirective:
    """A directive with the costs that an operator asked for; ``answered`` says whether the driver gave it."""

    directive: Directive
    costs: bytes | None = None
    answered: bool = False


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task belongs: the run of a query and its batch, a stage, a partition, and which attempt at that it is."""

    run_id: str
    batch_id: int
    stage: int
    partition: int
    attempt: int


_UNGOVERNED = TaskDirective(Directive(0, everything=True, history=UNKNOWN))
_remembered: OrderedDict[Question, TaskDirective] = OrderedDict()
_told: OrderedDict[tuple[str, int], list[float]] = OrderedDict()
_connections: dict[str, internals.JavaObject] = {}


def directive_of_task(operator: str | None = None) -> TaskDirective:
    """What the driver wants of this task's batch; without an answer what it sent along to fall back on.

    Remembered in this process, for all partitions of the batch that it gets: a batch must not be told two things.
    """
    context = TaskContext.get()
    read = _nothing if context is None else context.getLocalProperty
    question = _question(read, operator)
    return _UNGOVERNED if question is None else _answered(question, read)


def place_of_task() -> TaskPlace | None:
    """Where this task belongs; None for one that is no part of a query's batch."""
    context = TaskContext.get()
    question = None if context is None else _question(context.getLocalProperty)
    if context is None or question is None:
        return None
    return TaskPlace(
        question.run_id, question.batch_id, context.stageId(), context.partitionId(), context.taskAttemptId()
    )


def directive_of_batch() -> str:
    """The directive of the batch that is planned on this thread, as the numbers of its array. Never raises.

    An error would be the query's, which would end by it.
    """
    question, found = None, _UNGOVERNED
    try:
        question = _question(internals.batch_property)
        if question is not None:
            found = _answered(question, internals.batch_property)
    except Exception:
        logger.exception("a batch could not ask for its directive: it keeps everything")
    values = found.directive.to_array(answered=found.answered)
    if question is not None:
        # Also after an error: what is on record for a batch is corrected by what it was really told.
        _note(question, values)
        pools.join(question.run_id)
    return ",".join(map(repr, [*values, *_counting(question, values)]))


def _counting(question: Question | None, values: list[float]) -> list[float]:
    """What a batch is told for the sake of its counts: which rows tell their arrival, and with what number."""
    if question is not None:
        try:
            return counts.begin(question.query_id, question.run_id, question.batch_id, values)
        except Exception:
            logger.exception("the rows of a batch will not be counted")
    return [NOBODY, 0.0]


def _note(question: Question, values: list[float]) -> None:
    connection = internals.thread_connection()
    if connection is not None:
        _connections[question.run_id] = connection
    _told[question.run_id, question.batch_id] = values
    while len(_told) > _TOLD:
        _told.popitem(last=False)


def told(run_id: str, batch_id: int) -> list[float] | None:
    """What a batch of this driver was told, as an array; None for one that did not ask, or asked long ago."""
    return _told.get((run_id, batch_id))


def end_asking(run_id: str) -> None:
    """End the connection on which the thread of a query that is over asked."""
    counts.forget(run_id)
    internals.end_connection(_connections.pop(run_id, None))
    pools.forget(run_id)


def _question(read: Callable[[str], str | None], operator: str | None = None) -> Question | None:
    """Which batch this is; None for a batch frame, which nobody governs."""
    query_id = read(QUERY_ID_PROPERTY)
    if not query_id:
        return None
    return Question(query_id, read(RUN_ID_PROPERTY) or "", int(read(BATCH_ID_PROPERTY) or 0), operator)


def _answered(question: Question, read: Callable[[str], str | None]) -> TaskDirective:
    found = _remembered.get(question)
    if found is None:
        found = _remembered[question] = _asked(question, read)
        while len(_remembered) > _REMEMBERED:
            _remembered.popitem(last=False)
    return found


def _nothing(_: str) -> str | None:
    return None


def _asked(question: Question, read: Callable[[str], str | None]) -> TaskDirective:
    endpoint, token = read(ENDPOINT_PROPERTY), read(TOKEN_PROPERTY)
    if endpoint and token:
        answer = ask(endpoint, token, question, float(read(TIMEOUT_PROPERTY) or TIMEOUT_S))
        if answer is not None:
            return TaskDirective(answer.directive, answer.costs, answered=True)
    return TaskDirective(_fallback(read(FALLBACK_PROPERTY), question.batch_id))


def _fallback(text: str | None, batch_id: int) -> Directive:
    if text:
        try:
            return Directive.from_json(text).as_fallback(batch_id)
        except (ValueError, TypeError, KeyError):
            logger.warning("the directive to fall back on cannot be read, so everything is kept: %.100r", text)
    return Directive(batch_id, everything=True)
