"""The data source ``penstock.load``: rows that arrive by the wall clock along a load profile, with real lag.

::

    register(spark)
    rows = spark.readStream.format("penstock.load").option("profile", "constant:rate=5000").load()

The moment at which the profile starts, the epoch, is part of every offset, so it stands in the checkpoint. Rows and
their arrival times are functions of offset, seed, profile and epoch alone: a restarted query reads the same again.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.spark.load_options import FORMAT, LoadOptions, refusal
from penstock.spark.load_rows import LoadTruth, arrow_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

ROWS_PER_ARROW_BATCH: Final = 50_000


def register(spark: SparkSession) -> None:
    """Make ``penstock.load`` known to a session."""
    spark.dataSource.register(LoadDataSource)


class LoadPartition(InputPartition):
    """A stretch of rows that one task makes."""

    def __init__(self, first: int, end: int, epoch_ms: int) -> None:
        super().__init__((first, end, epoch_ms))
        self.first = first
        self.end = end
        self.epoch_ms = epoch_ms


def split_rows(first: int, end: int, epoch_ms: int, partitions: int) -> list[LoadPartition]:
    """Cut a stretch of rows into parts whose sizes differ by one at most; parts without rows are left out.

    Examples
    --------
    >>> [(part.first, part.end) for part in split_rows(10, 15, epoch_ms=0, partitions=2)]
    [(10, 12), (12, 15)]
    """
    bounds = [first + (end - first) * place // partitions for place in range(partitions + 1)]
    parts = pairwise(bounds)
    return [LoadPartition(start, stop, epoch_ms) for start, stop in parts if stop > start]


def _read_part(options: LoadOptions, part: LoadPartition) -> Iterator[pa.RecordBatch]:
    truth = LoadTruth(options.profile, part.epoch_ms)
    for first in range(part.first, part.end, ROWS_PER_ARROW_BATCH):
        yield arrow_batch(options.content, truth, first, min(first + ROWS_PER_ARROW_BATCH, part.end))


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class LoadDataSource(DataSource):
    """Entry point for Spark; the options are checked here, so that a mistake shows at ``load()``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        # The profile's file is read here, once: executors may not see it, and every task would read it again.
        self._load = LoadOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """The name to pass to ``format``."""
        return FORMAT

    def schema(self) -> str:
        """Offset and arrival time of the row, then what the content has."""
        return self._load.columns

    def streamReader(self, schema: StructType) -> LoadStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Give the reader of a streaming query."""
        return LoadStreamReader(self._load)

    def reader(self, schema: StructType) -> LoadBatchReader:  # noqa: ARG002 - Spark's signature
        """Give the reader of ``spark.read``."""
        return LoadBatchReader(self._load)


class LoadBatchReader(DataSourceReader):
    """Reads ``rows`` rows from ``firstOffset`` on at once, or all of a profile that ends, arrived or not."""

    def __init__(self, options: LoadOptions, *, clock_ms: Callable[[], int] = _wall_clock_ms) -> None:
        self._options = options
        self._epoch_ms = options.start_epoch_ms if options.start_epoch_ms is not None else clock_ms()

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks."""
        options, total = self._options, self._options.profile.total_rows
        if options.rows is None and total is None:
            raise refusal("rows", None, "the profile never ends, so it must be given")
        end = total if options.rows is None else options.first_offset + options.rows
        if end is not None and total is not None:
            end = min(end, total)
        assert end is not None
        parts = split_rows(options.first_offset, max(end, options.first_offset), self._epoch_ms, options.partitions)
        # Spark takes an empty list for one part of unknown kind and would read that.
        return parts or [LoadPartition(0, 0, self._epoch_ms)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the rows of one task."""
        assert isinstance(partition, LoadPartition)
        return _read_part(self._options, partition)


class LoadStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands out what has arrived, and tells how much that is.

    An offset is ``{"row": n, "epoch_ms": e}``: the first n rows are read, and the profile started at e.
    """

    def __init__(self, options: LoadOptions, *, clock_ms: Callable[[], int] = _wall_clock_ms) -> None:
        self._options = options
        self._clock_ms = clock_ms
        self._epoch_ms: int | None = None
        self._prepared_ms: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Start the profile: at the given epoch, or now."""
        if self._epoch_ms is None:
            # A run of AvailableNow reads what had arrived when it was prepared: the epoch may not lie behind that.
            now_ms = self._clock_ms() if self._prepared_ms is None else self._prepared_ms
            self._epoch_ms = now_ms if self._options.start_epoch_ms is None else self._options.start_epoch_ms
        return {"row": self._options.first_offset, "epoch_ms": self._epoch_ms}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Give the end of the next batch: what has arrived, within the limit, and never before the start."""
        # A checkpoint knows better than this process when the profile started.
        self._epoch_ms = int(start["epoch_ms"])
        row = int(start["row"])
        end = max(self._arrived(self._epoch_ms), row)
        if isinstance(limit, ReadMinRows):
            # AvailableNow would wait for ever for rows that it must not see.
            enough = end - row >= limit.min_rows or self._prepared_ms is not None
            end = end if enough else row
        else:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            if most is None and not isinstance(limit, ReadAllAvailable):
                # A limit in files or bytes says nothing here, and is no reason to end a query.
                most = self._options.max_rows_per_batch
            end = end if most is None else min(end, row + max(most, 0))
        return {"row": end, "epoch_ms": self._epoch_ms}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit of the option ``maxRowsPerBatch``, or none."""
        rows = self._options.max_rows_per_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 - Spark's name
        """What has arrived by now, read or not: the query's progress shows its lag by it."""
        if self._epoch_ms is None:
            return None
        return {"row": self._arrived(self._epoch_ms), "epoch_ms": self._epoch_ms}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop the clock: what arrives later is not read in this run."""
        self._prepared_ms = self._clock_ms()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan the tasks of a batch.

        The epoch is that of the end: when a query died in its very first batch, the start is made anew and has a
        later epoch, but the end stands in the checkpoint.
        """
        return split_rows(int(start["row"]), int(end["row"]), int(end["epoch_ms"]), self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the rows of one task."""
        assert isinstance(partition, LoadPartition)
        return _read_part(self._options, partition)

    def _arrived(self, epoch_ms: int) -> int:
        now_ms = self._clock_ms() if self._prepared_ms is None else self._prepared_ms
        return LoadTruth(self._options.profile, epoch_ms).rows_by_epoch_ms(now_ms)
