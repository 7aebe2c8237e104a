"""The fluent form: a stream writer that carries a goal."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Self

from penstock.spark import internals
from penstock.spark.internals import Ability
from penstock.spark.plan_check import check_writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.model import Goal
    from penstock.spark.attach import Penstock


class GovernedWriter:
    """A ``DataStreamWriter`` with a goal: everything that a writer can do, and ``with_...`` for what it must deliver.

    Examples
    --------
    ::

        pen.govern(df.writeStream).with_priority(5).with_minimum_accuracy(0.7).with_latency("5 seconds").start()
    """

    def __init__(self, penstock: Penstock, writer: DataStreamWriter, goal: Goal) -> None:
        self._penstock = penstock
        self._writer = writer
        self._goal = goal

    def with_latency(self, latency: str | float) -> Self:
        """Set how old a row may be when its result is out."""
        return self._with(latency=latency)

    def with_minimum_accuracy(self, minimum_accuracy: float) -> Self:
        """Set the smallest share of rows that must be kept."""
        return self._with(minimum_accuracy=minimum_accuracy)

    def with_priority(self, priority: int) -> Self:
        """Set who gives way first when capacity is short: the lower one."""
        return self._with(priority=priority)

    def with_weight(self, weight: float) -> Self:
        """Set what an output row counts in the weighted throughput."""
        return self._with(weight=weight)

    def start(self, *args: Any, **kwargs: Any) -> StreamingQuery:  # noqa: ANN401 - a writer's own arguments
        """Start the query under its goal; arguments are those of ``DataStreamWriter.start``."""
        return self._under_goal(self._writer.start, args, kwargs)

    def toTable(self, *args: Any, **kwargs: Any) -> StreamingQuery:  # noqa: ANN401, N802 - as above; Spark's name
        """Start the query under its goal, into a table; arguments are those of ``DataStreamWriter.toTable``."""
        return self._under_goal(self._writer.toTable, args, kwargs)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the writer has
        attribute = getattr(self._writer, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the writer takes
            result = attribute(*args, **kwargs)
            return self if result is self._writer else result

        return call

    def _under_goal(
        self, start: Callable[..., StreamingQuery], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> StreamingQuery:
        if self._goal.minimum_accuracy < 1.0:
            # Nothing runs yet: whoever starts the query is told at once what dropped rows would make wrong.
            check_writer(self._writer).require()
        name = self._name(kwargs)
        before = self._penstock.expect(name, self._goal)
        try:
            return start(*args, **kwargs)
        except BaseException:
            # A start that fails must not leave its goal for the next query of that name.
            self._penstock.expect(name, before)
            raise

    def _with(self, **changes: object) -> Self:
        self._goal = self._goal.with_(**changes)
        return self

    def _name(self, start_arguments: dict[str, Any]) -> str:
        """The name the query will run under; one is given to a query that has none, since its goal is found by it."""
        name = start_arguments.get("queryName")
        if name is None and Ability.WRITER_NAME not in self._penstock.missing:
            name = internals.writer_query_name(self._writer)
        if name is None:
            name = f"query_{uuid.uuid4().hex[:8]}"  # a memory sink makes a view of it
            self._writer.queryName(name)
        return str(name)
