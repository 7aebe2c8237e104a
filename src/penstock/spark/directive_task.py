"""The directive of the batch that a task belongs to, as found inside its Python worker."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext

from penstock.model.directive import Directive
from penstock.model.shed_history import UNKNOWN
from penstock.spark.directives import (
    ENDPOINT_PROPERTY,
    FALLBACK_PROPERTY,
    TIMEOUT_PROPERTY,
    TOKEN_PROPERTY,
    Question,
    ask,
)

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


@dataclass(frozen=True, slots=True)
class TaskDirective:
    """A directive with the costs that an operator asked for; ``answered`` says whether the driver gave it."""

    directive: Directive
    costs: bytes | None = None
    answered: bool = False


_remembered: OrderedDict[Question, TaskDirective] = OrderedDict()


def directive_of_task(operator: str | None = None) -> TaskDirective:
    """What the driver wants of this task's batch; without an answer what it sent along to fall back on.

    Remembered in this process, for all partitions of the batch that it gets: a batch must not be told two things.
    """
    context = TaskContext.get()
    read: Callable[[str], str | None] = context.getLocalProperty if context is not None else _nothing
    query_id, batch_id = read(QUERY_ID_PROPERTY), int(read(BATCH_ID_PROPERTY) or 0)
    if not query_id:
        # A batch frame: nobody governs it.
        return TaskDirective(Directive(batch_id, everything=True, history=UNKNOWN))
    question = Question(query_id, read(RUN_ID_PROPERTY) or "", batch_id, operator)
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
