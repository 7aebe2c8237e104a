"""Read limits: those in force, and new ones of the class that a source knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import jvm, private_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.internals.handles import JavaObject


def read_limit_of(execution: JavaObject, source: JavaObject) -> JavaObject:
    """The read limit in force for a source."""
    return execution.uniqueSources().apply(source)


def set_read_limit(execution: JavaObject, source: JavaObject, limit: JavaObject) -> None:
    """Put a read limit in force from the next planned batch on.

    The limit must be of a class that the source knows: any other kills the query with a match error.
    """
    getattr(execution, "uniqueSources_$eq")(execution.uniqueSources().updated(source, limit))


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
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - what this package is for
    assert gateway is not None
    array = gateway.new_array(_limits(spark), 2)
    array[0], array[1] = minimum, limit
    return _limits(spark).compositeLimit(array)


def python_limit(spark: SparkSession, kind: str, field: str, units: int) -> JavaObject:
    """A limit for a Python source, which takes none but this class."""
    build = jvm(spark).org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceReadLimit
    return build(json.dumps({field: units, "_type": kind}))


def python_reader_takes_limits(source: JavaObject) -> bool:
    """Whether the reader behind a Python source may be given a limit.

    Spark runs a ``SimpleDataSourceStreamReader`` as the same class as a reader with admission control, and its worker
    dies of any limit. What tells them apart is the Python object itself, which the source carries along.
    """
    from pyspark import cloudpickle  # noqa: PLC0415 - Spark is imported only where it is used
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415 - imported only where it is used

    command = private_field(private_field(source, "runner"), "func").command()
    data_source = cloudpickle.loads(bytes(command.unsafeArray()))
    return type(data_source).streamReader is not DataSource.streamReader


def _limits(spark: SparkSession) -> JavaObject:
    return jvm(spark).org.apache.spark.sql.connector.read.streaming.ReadLimit
