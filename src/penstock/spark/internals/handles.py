"""Handles on objects inside the JVM, which the rest of this package shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JavaObject = Any
"""A handle on an object inside the JVM; Py4J has no types for these."""


def jvm(spark: SparkSession) -> JavaObject:
    """The packages of the JVM behind a session."""
    return spark._jvm  # noqa: SLF001 - what this package is for


def context_of(spark: SparkSession) -> JavaObject:
    """The context of a session, as Scala sees it."""
    return spark.sparkContext._jsc.sc()  # noqa: SLF001 - what this package is for


def backend_of(spark: SparkSession) -> JavaObject:
    """The part of the scheduler that knows the executors."""
    return context_of(spark).schedulerBackend()


def is_local(spark: SparkSession) -> bool:
    """Whether the driver is its own and only executor."""
    return str(spark.sparkContext.master).startswith("local")


def class_name(java_object: JavaObject) -> str:
    """Simple name of a JVM object's class."""
    return str(java_object.getClass().getSimpleName())


def private_field(java_object: JavaObject, name: str) -> JavaObject:
    """The value of a field that is not meant to be read from outside."""
    field = java_object.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java_object)
