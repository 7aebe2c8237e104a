"""The rows that one batch read, read again: from Kafka, from files, from the load source."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from penstock.errors import RepayError
from penstock.spark import internals
from penstock.spark.load import register
from penstock.spark.load_options import FORMAT as LOAD_FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.folders import Folder
    from penstock.spark.guard_spec import SourceReading
    from penstock.spark.record import SourceRange

_STREAM_ONLY = frozenset(
    {"startingoffsets", "endingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "maxoffsetspertrigger",
     "minoffsetspertrigger", "maxtriggerdelay", "subscribe", "subscribepattern", "assign", "failondataloss",
     "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "cleansource", "sourcearchivedir",
     "path", "maxrowsperbatch", "firstoffset", "rows", "startepochseconds"}
)  # fmt: skip
_FILE_FORMATS = frozenset({"json", "csv", "text", "parquet", "orc", "avro", "xml", "binaryfile"})
_GLOB = re.compile(r"[*?{\[]")
_FIRST_FILES = -1
"""Spark's log of files numbers its entries from zero: the first batch starts behind this one."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What a source still has of a batch: parts (offsets, rows or files) that are there, and that are gone."""

    there: int
    gone: int
    unit: str

    @property
    def is_whole(self) -> bool:
        """Whether nothing is gone."""
        return self.gone == 0


class SourceAgain:
    """Reads batches of one source again.

    Parameters
    ----------
    spark
        The session.
    checkpoint
        Folder of the query's checkpoint: the log of a file source and Kafka's first offsets are in it.
    reading
        How the source was asked for.
    options
        Options in place of, or beside, those on record, such as passwords.

    Raises
    ------
    RepayError
        A source that cannot be read again, or options that are not on record.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: Folder, reading: SourceReading, options: Mapping[str, str]
    ) -> None:
        self._spark, self._checkpoint, self._reading = spark, checkpoint, reading
        missing = [name for name in reading.left_out if name not in options]
        if missing:
            raise RepayError(
                f"option {missing[0]!r} of the source is not on record, as it looks like a secret: pass it in options="
            )
        self._options = {**reading.options, **options}
        self._files: dict[int, list[str]] | None = None
        self._earliest: dict[tuple[str, int], int] = {}
        kind = reading.format.lower()
        if kind == LOAD_FORMAT:
            register(spark)
        elif kind != "kafka" and kind not in _FILE_FORMATS:
            raise RepayError(
                f"source {reading.format!r} cannot be read again by offsets: only Kafka, files and {LOAD_FORMAT} can"
            )
        self._kind = "files" if kind in _FILE_FORMATS else kind

    def remains(self, found: SourceRange) -> Remains:
        """What is still there of a batch."""
        if self._kind == "kafka":
            parts = self._kafka_parts(found)
            whole = sum(max(0, end - start) for start, end in parts.values())
            there = sum(max(0, end - max(start, self._first_kept(part))) for part, (start, end) in parts.items())
            return Remains(there, whole - there, "offsets")
        if self._kind == "files":
            paths = self._paths(found)
            gone = internals.missing_files(self._spark, paths)
            return Remains(len(paths) - len(gone), len(gone), "files")
        first, end = self._load_rows(found)
        return Remains(end - first, 0, "rows")

    def rows(self, found: SourceRange) -> DataFrame:
        """The rows of a batch, as far as they are there."""
        if self._kind == "kafka":
            return self._kafka(found)
        return self._from_files(found) if self._kind == "files" else self._load(found)

    def _plain_options(self) -> dict[str, str]:
        return {name: value for name, value in self._options.items() if name.lower() not in _STREAM_ONLY}

    # Kafka

    def _kafka(self, found: SourceRange) -> DataFrame:
        starts: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), (start, end) in self._kafka_parts(found).items():
            first = min(end, max(start, self._first_kept((topic, partition))))
            starts.setdefault(topic, {})[str(partition)] = first
            ends.setdefault(topic, {})[str(partition)] = end
        assigned = {topic: sorted(map(int, parts)) for topic, parts in ends.items()}
        # Exactly these partitions: a topic that has got more since would not fit the offsets.
        reader = (
            self._spark.read.format("kafka").options(**self._plain_options()).option("assign", json.dumps(assigned))
        )
        return (
            reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends))
            # Rows that vanish while they are read must be heard of.
            .option("failOnDataLoss", "true").load()
        )  # fmt: skip

    def _kafka_parts(self, found: SourceRange) -> dict[tuple[str, int], tuple[int, int]]:
        """Start and end by topic and partition; a partition that is new in the batch starts at zero, as in Spark."""
        start = self._first_kafka_offsets() if found.start is None else found.start
        return {
            (topic, int(partition)): (int(start.get(topic, {}).get(partition, 0)), int(end))
            for topic, parts in found.end.items()
            for partition, end in parts.items()
        }

    def _first_kafka_offsets(self) -> dict[str, dict[str, int]]:
        content = self._checkpoint.read("sources/0/0")
        if content is None:
            raise RepayError(
                "the first offsets of the Kafka source are not in its checkpoint (sources/0/0): it is damaged"
            )
        # A version, or an old mark of a few bytes, and the offsets.
        text = content.decode()
        offsets: dict[str, dict[str, int]] = json.loads(text[text.index("{") :])
        return offsets

    def _first_kept(self, part: tuple[str, int]) -> int:
        if part not in self._earliest:
            client = {
                name.removeprefix("kafka."): value
                for name, value in self._options.items()
                if name.startswith("kafka.") and not name.endswith(".deserializer")
            }
            self._earliest.update(internals.earliest_offsets(self._spark, client, [part]))
        return self._earliest[part]

    # Files

    def _from_files(self, found: SourceRange) -> DataFrame:
        schema = T.StructType.fromJson(json.loads(self._reading.schema_json))
        paths = self._paths(found)
        gone = set(internals.missing_files(self._spark, paths))
        reader = self._spark.read.format(self._reading.format).schema(schema).options(**self._plain_options())
        path = self._options.get("path", "")
        if path and not _GLOB.search(path):
            # Partition columns come from the folders between here and the file.
            reader = reader.option("basePath", path)
        return reader.load([each for each in paths if each not in gone])

    def _paths(self, found: SourceRange) -> list[str]:
        first = _FIRST_FILES if found.start is None else int(found.start["logOffset"])
        last, log = int(found.end["logOffset"]), self._file_log()
        missing = [number for number in range(first + 1, last + 1) if number not in log]
        if missing:
            raise RepayError(
                f"entry {missing[0]} is not in the file source's log (sources/0): the checkpoint is damaged"
            )
        return [path for number in range(first + 1, last + 1) for path in log[number]]

    def _file_log(self) -> dict[int, list[str]]:
        """Files by the entry of the source's log that brought them; compacted entries hold those of all before."""
        if self._files is None:
            files: dict[int, set[str]] = {}
            for name in self._checkpoint.names("sources/0"):
                lines = (self._checkpoint.read(f"sources/0/{name}") or b"").decode().splitlines()
                for line in lines[1:]:
                    entry = json.loads(line)
                    files.setdefault(int(entry["batchId"]), set()).add(str(entry["path"]))
            self._files = {number: sorted(paths) for number, paths in files.items()}
        return self._files

    # The load source

    def _load(self, found: SourceRange) -> DataFrame:
        first, end = self._load_rows(found)
        reader = self._spark.read.format(LOAD_FORMAT).options(**self._plain_options())
        return (
            reader.option("firstOffset", str(first)).option("rows", str(end - first))
            .option("startEpochSeconds", repr(found.end["epoch_ms"] / 1000)).load()
        )  # fmt: skip

    def _load_rows(self, found: SourceRange) -> tuple[int, int]:
        options = {name.lower(): value for name, value in self._options.items()}
        first: Any = options.get("firstoffset", 0) if found.start is None else found.start["row"]
        return int(first), int(found.end["row"])
