"""Executors of another shape for an application that runs: a second resource profile that takes over its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.internals.handles import backend_of, context_of, jvm, private_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from penstock.model.sizing import EngineShape
    from penstock.spark.internals.handles import JavaObject

_PROFILES = "resourceProfileIdToResourceProfile"


def add_profile(spark: SparkSession, shape: EngineShape) -> int:
    """Make a resource profile for executors of a shape known to the application, and give its id."""
    java = jvm(spark).org.apache.spark.resource
    requests = java.ExecutorResourceRequests().memory(f"{shape.heap_mb}m").cores(shape.cores)
    requests = requests.memoryOverhead(f"{shape.overhead_mb}m")
    if shape.python_mb:
        requests = requests.pysparkMemory(f"{shape.python_mb}m")
    profile = java.ResourceProfileBuilder().require(requests).build()
    _profiles(spark).put(profile.id(), profile)
    return int(profile.id())


def open_to_all_executors(spark: SparkSession, cpus: int) -> None:
    """Let tasks of the default profile run on executors of any profile, each on so many cores.

    A profile of tasks alone asks for no executors of its own; Spark's scheduler then offers it all that there are.
    """
    java = jvm(spark).org.apache.spark.resource
    requests = java.TaskResourceRequests().cpus(cpus)
    anywhere = java.TaskResourceProfile(requests.requests())
    anywhere.setResourceProfileId(0)
    _profiles(spark).put(0, anywhere)


def may_run_on(spark: SparkSession, profile_id: int) -> bool:
    """Whether tasks of the default profile may run on executors of a profile."""
    return bool(context_of(spark).resourceProfileManager().canBeScheduled(0, profile_id))


def request_profiles(spark: SparkSession, executors: Mapping[int, int]) -> bool:
    """Ask the cluster's manager for so many executors of each profile; whether it took note."""
    none = _scala_map(spark, {})
    numbers = _scala_map(spark, executors)
    waiting = _scala_map(spark, dict.fromkeys(executors, 0))
    hosts = _scala_map(spark, dict.fromkeys(executors, none))
    return bool(backend_of(spark).requestTotalExecutors(numbers, waiting, hosts))


def _profiles(spark: SparkSession) -> JavaObject:
    return private_field(context_of(spark).resourceProfileManager(), _PROFILES)


def _scala_map(spark: SparkSession, entries: Mapping[int, object]) -> JavaObject:
    result = getattr(getattr(jvm(spark).scala.collection.immutable, "Map$"), "MODULE$").empty()
    for key, value in entries.items():
        result = result.updated(key, value)
    return result
