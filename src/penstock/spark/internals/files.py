"""Files of a file source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.internals.handles import jvm, private_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.internals.handles import JavaObject


@dataclass(frozen=True, slots=True)
class FileCount:
    """Number of files and their total size."""

    files: int
    size_bytes: float


def files_of_batch(spark: SparkSession, source: JavaObject, log_offset: int, *, sample: int = 16) -> FileCount | None:
    """Files that a file source put into the batch with that log offset; sizes from a sample of them."""
    found = private_field(source, "metadataLog").get(log_offset)
    if not found.isDefined():
        return None
    entries = found.get()
    if len(entries) == 0 or entries[0].batchId() != log_offset:
        return None  # a compacted log holds the files of all earlier batches too
    step = max(1, len(entries) // sample)
    sampled = [_file_size_bytes(spark, source, entries[index]) for index in range(0, len(entries), step)]
    return FileCount(len(entries), len(entries) * sum(sampled) / len(sampled))


def files_waiting(source: JavaObject) -> FileCount:
    """Files that a file source has listed and not yet read."""
    unread = private_field(source, "unreadFiles")
    if unread is None or unread.isEmpty():
        return FileCount(0, 0.0)
    count = int(unread.size())
    step = max(1, count // 16)
    sizes = [float(unread.apply(index).size()) for index in range(0, count, step)]
    return FileCount(count, count * sum(sizes) / len(sizes))


def _file_size_bytes(spark: SparkSession, source: JavaObject, entry: JavaObject) -> float:
    path = jvm(spark).org.apache.hadoop.fs.Path(jvm(spark).java.net.URI(entry.path()))
    return float(private_field(source, "fs").getFileStatus(path).getLen())
