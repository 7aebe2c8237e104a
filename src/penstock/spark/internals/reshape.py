"""Executors of another shape for an application that runs: a second resource profile that takes over its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.internals.handles import backend_of, context_of, jvm, private_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from penstock.model.sizing import EngineShape
    from penstock.spark.internals.handles import JavaObject

_PROFILES, _DEFAULT = "resourceProfileIdToResourceProfile", "defaultProfile"


def add_profile(spark: SparkSession, shape: EngineShape) -> int:
    """Make a resource profile for executors of a shape, and for their tasks, known to the application; gives its id.

    Nothing runs on such executors but what asks for the profile, until :func:`move_to_profile`.
    """
    java = jvm(spark).org.apache.spark.resource
    requests = java.ExecutorResourceRequests().memory(f"{shape.heap_mb}m").cores(shape.cores)
    requests = requests.memoryOverhead(f"{shape.overhead_mb}m")
    if shape.python_mb:
        requests = requests.pysparkMemory(f"{shape.python_mb}m")
    tasks = java.TaskResourceRequests().cpus(shape.task_cpus)
    profile = java.ResourceProfileBuilder().require(requests).require(tasks).build()
    _profiles(spark).put(profile.id(), profile)
    return int(profile.id())


def move_to_profile(spark: SparkSession, profile_id: int) -> None:
    """Run all jobs from now on on executors of a profile, and let tasks of those before go there as well.

    A profile of tasks alone asks for no executors of its own; Spark's scheduler then offers it all that there are.
    Without that a batch under way would wait for ever for executors that leave.
    """
    manager = context_of(spark).resourceProfileManager()
    before = manager.resourceProfileFromId(manager.defaultResourceProfile().id())
    anywhere = jvm(spark).org.apache.spark.resource.TaskResourceProfile(before.taskResources())
    anywhere.setResourceProfileId(before.id())
    _set_default(spark, manager.resourceProfileFromId(profile_id))
    if before.id() != profile_id:
        _profiles(spark).put(before.id(), anywhere)


def set_task_cpus(spark: SparkSession, cpus: int) -> None:
    """Have each task take so many cores, from the next stage on."""
    java = jvm(spark).org.apache.spark.resource
    manager = context_of(spark).resourceProfileManager()
    before = manager.resourceProfileFromId(manager.defaultResourceProfile().id())
    after = java.ResourceProfile(before.executorResources(), java.TaskResourceRequests().cpus(cpus).requests())
    after.setResourceProfileId(before.id())
    _profiles(spark).put(before.id(), after)
    _set_default(spark, after)


def request_profiles(spark: SparkSession, executors: Mapping[int, int]) -> bool:
    """Ask the cluster's manager for so many executors of each profile; whether it took note."""
    none = _scala_map(spark, {})
    numbers = _scala_map(spark, executors)
    waiting = _scala_map(spark, dict.fromkeys(executors, 0))
    hosts = _scala_map(spark, dict.fromkeys(executors, none))
    return bool(backend_of(spark).requestTotalExecutors(numbers, waiting, hosts))


def _set_default(spark: SparkSession, profile: JavaObject) -> None:
    """Give what asks for no profile another one."""
    manager = context_of(spark).resourceProfileManager()
    field = manager.getClass().getDeclaredField(_DEFAULT)
    field.setAccessible(True)
    field.set(manager, profile)


def _profiles(spark: SparkSession) -> JavaObject:
    return private_field(context_of(spark).resourceProfileManager(), _PROFILES)


def _scala_map(spark: SparkSession, entries: Mapping[int, object]) -> JavaObject:
    result = getattr(getattr(jvm(spark).scala.collection.immutable, "Map$"), "MODULE$").empty()
    for key, value in entries.items():
        result = result.updated(key, value)
    return result
