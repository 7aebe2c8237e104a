"""A value that the driver gives while a batch is optimised: once a batch, without a job, and without a worker."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.spark.internals.callbacks import OnlyCallbacks, callback_gateway

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.internals.handles import JavaObject

FUNCTION_CLASS = "org.apache.spark.sql.api.java.UDF1"
EVALUATED_BY = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
"""The rule of Spark's optimiser that works out what can be worked out in the driver."""


class _Asked:
    """Spark's interface of a function of one argument, which is not needed."""

    def __init__(self, answer: Callable[[], str]) -> None:
        self._answer = answer

    def call(self, _: object) -> str:
        return self._answer()


def asked_text(spark: SparkSession, answer: Callable[[], str], name: str) -> DataFrame:
    """A frame of one row and one column, whose text the driver gives whenever a plan that reads it is optimised.

    Spark optimises the plan of every micro-batch anew, on the query's own thread, and works a projection of a local
    relation out there and then. So ``answer`` is called once for every mention of the frame in a batch, and must not
    raise: its error would be the query's.
    """
    from pyspark.sql.classic.column import Column, _to_seq  # noqa: PLC0415 - imported only where it is used

    gateway = callback_gateway()
    function = gateway.jvm.org.apache.spark.sql.functions.udf(
        OnlyCallbacks(_Asked(answer), FUNCTION_CLASS, ("call",)),
        gateway.jvm.org.apache.spark.sql.types.DataTypes.StringType,
    )
    one_row = spark.sql("SELECT * FROM VALUES (0L) AS t(id)")
    called = function.apply(_to_seq(spark.sparkContext, [one_row["id"]._jc]))  # noqa: SLF001 - what this package is for
    return one_row.select(Column(called).alias(name))


def is_asked(spark: SparkSession) -> bool:
    """Whether the driver works out what it is asked for; not where the rule that does it is switched off."""
    return EVALUATED_BY not in str(spark.conf.get("spark.sql.optimizer.excludedRules", "") or "")


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
