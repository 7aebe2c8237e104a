"""A value that the driver gives while a batch is optimised: once a batch, without a job, and without a worker."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.spark.internals.callbacks import OnlyCallbacks, callback_gateway

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.spark.internals.handles import JavaObject

FUNCTION_CLASS = "org.apache.spark.sql.api.java.UDF1"
FOLDED_BY = "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"
"""The rule of Spark's optimiser that works out what is the same for all rows."""
EVALUATED_BY = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
"""The rule of Spark's optimiser that works out what can be worked out in the driver."""


class _Asked:
    """Spark's interface of a function of one argument, which is not needed."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self._answer = answer

    def call(self, _: object) -> object:
        return self._answer()


def _asking(answer: Callable[[], object], gateway: JavaObject) -> JavaObject:
    """Spark's own wrapper around a function of Python's."""
    return gateway.jvm.org.apache.spark.sql.functions.udf(
        OnlyCallbacks(_Asked(answer), FUNCTION_CLASS, ("call",)),
        gateway.jvm.org.apache.spark.sql.types.DataTypes.StringType,
    )


def folded_text(answer: Callable[[], str]) -> Column:
    """A text that the driver gives whenever a plan that mentions it is optimised, as if it had always stood there.

    Spark works out what is the same for all rows while it optimises the plan of a micro-batch, on the query's own
    thread, and what it found takes the place of the call. Nothing of a subquery is left, nor planned, nor waited for.
    ``answer`` is called once for every mention, and must not raise.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - imported only where it is used

    gateway = callback_gateway()
    spark, to_scala = gateway.jvm.org.apache.spark.sql, gateway.jvm.org.apache.spark.api.python.PythonUtils
    expressions, types = spark.catalyst.expressions, spark.types
    # Bytes, as Py4J makes Spark's own kind of them, while a text would have to be made one in another call. And by
    # Spark's wrapper, since the JVM asks a literal for its hash and its text, and Python would have to answer.
    function = _asking(lambda: answer().encode(), gateway).f()
    target = expressions.Literal(function, types.ObjectType(gateway.jvm.java.lang.Class.forName("scala.Function1")))
    arguments = to_scala.toSeq([expressions.Literal.create("", types.DataTypes.StringType)])
    called = expressions.objects.Invoke(
        target, "apply", types.DataTypes.BinaryType, arguments, to_scala.toSeq([]), True, False, True
    )
    return ClassicColumn(spark.classic.ExpressionUtils.column(called)).cast("string")


def is_folded(spark: SparkSession) -> bool:
    """Whether the driver works out what is the same for all rows; not where the rule that does it is switched off."""
    return FOLDED_BY not in _excluded_rules(spark)


def asked_text(spark: SparkSession, answer: Callable[[], str], name: str) -> DataFrame:
    """A frame of one row and one column, whose text the driver gives whenever a plan that reads it is optimised.

    Spark optimises the plan of every micro-batch anew, on the query's own thread, and works a projection of a local
    relation out there and then. So ``answer`` is called once for every mention of the frame in a batch, and must not
    raise: its error would be the query's.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - imported only where it is used
    from pyspark.sql.classic.column import _to_seq  # noqa: PLC0415 - imported only where it is used

    gateway = callback_gateway()
    function = _asking(answer, gateway)
    one_row = spark.sql("SELECT * FROM VALUES (0L) AS t(id)")
    called = function.apply(_to_seq(spark.sparkContext, [one_row["id"]._jc]))  # noqa: SLF001 - what this package is for
    return one_row.select(ClassicColumn(called).alias(name))


def is_asked(spark: SparkSession) -> bool:
    """Whether the driver works out what it is asked for; not where the rule that does it is switched off."""
    return EVALUATED_BY not in _excluded_rules(spark)


def _excluded_rules(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.optimizer.excludedRules", "") or "")


def batch_property(name: str) -> str | None:
    """A property of the batch that is planned on the JVM's side of this thread.

    What Penstock sends to tasks (:func:`~penstock.spark.internals.queries.send_to_tasks`) is read from the settings
    of the query's session: Spark makes properties of them only when tasks are sent, and a thread may have inherited
    those of another query.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    context = SparkContext._active_spark_context  # noqa: SLF001 - what this package is for
    if context is None:
        return None
    if name.startswith("spark.penstock."):
        found = _settings_class(context._jvm).get().getConfString(name, None)  # noqa: SLF001 - as above
    else:
        found = context.getLocalProperty(name)
    return None if found is None else str(found)


@lru_cache(maxsize=1)
def _settings_class(jvm: JavaObject) -> JavaObject:
    """Spark's class of settings, found once: Py4J asks the JVM for every part of its name, and a batch waits for it."""
    return jvm.org.apache.spark.sql.internal.SQLConf
