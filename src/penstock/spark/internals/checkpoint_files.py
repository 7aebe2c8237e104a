"""Files in and around a checkpoint, through the same manager that writes Spark's own logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.internals.handles import jvm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from penstock.spark.internals.handles import JavaObject


def checkpoint_root(execution: JavaObject) -> str:
    """Where a query keeps its checkpoint, with its scheme."""
    return str(execution.resolvedCheckpointRoot())


def checkpoint_files(spark: SparkSession, location: str) -> JavaObject:
    """The manager that Spark would use for a checkpoint at a location."""
    found = jvm(spark).org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    return found.create(_path(spark, location), _hadoop_conf(spark))


def read_file(spark: SparkSession, manager: JavaObject, location: str) -> bytes | None:
    """What is in a file; None where there is none."""
    path = _path(spark, location)
    if not manager.exists(path):
        return None
    stream = manager.open(path)
    try:
        return bytes(stream.readAllBytes())
    finally:
        stream.close()


def write_file(spark: SparkSession, manager: JavaObject, location: str, content: bytes, *, outside: str) -> None:
    """Put a file in the place of whatever was there, in one step; folders are made, but ``outside`` must be there."""
    path = _path(spark, location)
    parent = path.getParent()
    if not manager.exists(parent):
        if not manager.exists(_path(spark, outside)):
            raise FileNotFoundError(f"{outside} is gone")
        manager.mkdirs(parent)
    stream = manager.createAtomic(path, True)
    try:
        stream.write(bytearray(content))
    except BaseException:
        stream.cancel()
        raise
    stream.close()


def make_folder(spark: SparkSession, location: str) -> None:
    """Make a folder and all around it, if it is not there."""
    manager = checkpoint_files(spark, location)
    if not manager.exists(_path(spark, location)):
        manager.mkdirs(_path(spark, location))


def list_files(spark: SparkSession, manager: JavaObject, location: str) -> list[str]:
    """Names of the files in a folder; none where there is no such folder."""
    path = _path(spark, location)
    return [str(each.getPath().getName()) for each in manager.list(path)] if manager.exists(path) else []


def delete_file(spark: SparkSession, manager: JavaObject, location: str) -> None:
    """Delete a file, if there is one."""
    manager.delete(_path(spark, location))


def missing_files(spark: SparkSession, addresses: Sequence[str]) -> list[str]:
    """Those of some files that are gone, by their addresses as Spark writes them."""
    gone = []
    for address in addresses:
        path = jvm(spark).org.apache.hadoop.fs.Path(jvm(spark).java.net.URI(address))
        if not path.getFileSystem(_hadoop_conf(spark)).exists(path):
            gone.append(address)
    return gone


def repartition_state(spark: SparkSession, location: str, partitions: int) -> None:
    """Give the state of a query that does not run another number of partitions, by a batch of its own.

    Raises
    ------
    AttributeError
        Before Spark 4.2, which has no such operation.
    """
    spark._streamingCheckpointManager.repartition(location, partitions)  # noqa: SLF001 - what this package is for


def _path(spark: SparkSession, location: str) -> JavaObject:
    return jvm(spark).org.apache.hadoop.fs.Path(location)


def _hadoop_conf(spark: SparkSession) -> JavaObject:
    return spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - what this package is for
