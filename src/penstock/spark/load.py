"""The data source ``penstock.load``: rows that arrive by the wall clock along a load profile, with real lag.

::

    register(spark)
    rows = spark.readStream.format("penstock.load").option("profile", "constant:rate=5000").load()

The moment at which the profile starts, the epoch, is part of every offset, so it stands in the checkpoint. Rows and
their arrival times are functions of offset, seed, profile and epoch alone: a restarted query reads the same again.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.errors import InvalidProfileError, InvalidSettingError
from penstock.model.rows import ClicksContent, PlainContent, content_parameters
from penstock.spark.trace import load_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from penstock.model.profile import LoadProfile

    Content = PlainContent | ClicksContent

FORMAT: Final = "penstock.load"
ROWS_PER_ARROW_BATCH: Final = 50_000
_CONTENTS: Final[Mapping[str, type[Content]]] = {"plain": PlainContent, "clicks": ClicksContent}
_COLUMNS: Final = {
    "plain": "key long, value double",
    "clicks": "ip string, userID string, eventType string",
}
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_EVENT_TYPES: Final = pa.array(["display", "click"])


def register(spark: SparkSession) -> None:
    """Make ``penstock.load`` known to a session."""
    spark.dataSource.register(LoadDataSource)


# -- what is asked for -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of the source, read and checked.

    Examples
    --------
    >>> options = LoadOptions.parse({"profile": "constant:rate=100", "content": "clicks", "fraudShare": "0.1"})
    >>> options.content.fraud_share, options.partitions
    (0.1, 2)
    >>> LoadOptions.parse({"profile": "constant:rate=100", "partitions": "0"})
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidSettingError: setting 'penstock.load partitions' = '0' is not allowed: \
a whole number from 1 to 1000
    """

    profile: LoadProfile
    content: Content
    partitions: int = 2
    max_rows_per_batch: int | None = None
    start_epoch_ms: int | None = None
    first_offset: int = 0
    rows: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> LoadOptions:
        """Read options as Spark passes them; their case does not matter."""
        options = {key.lower(): value for key, value in given.items()}
        content_name = options.get("content", "plain").strip().lower()
        if content_name not in _CONTENTS:
            raise _refusal("content", options["content"], f"one of {', '.join(_CONTENTS)}")
        _refuse_unknown(options, content_name)
        epoch_s = _number(options, "startEpochSeconds", 0, 1e11)
        return cls(
            profile=_profile(options),
            content=_content(options, _CONTENTS[content_name]),
            partitions=_whole(options, "partitions", 1, 1000) or 2,
            max_rows_per_batch=_whole(options, "maxRowsPerBatch", 1, 2**53),
            start_epoch_ms=None if epoch_s is None else round(epoch_s * 1000),
            first_offset=_whole(options, "firstOffset", 0, 2**53) or 0,
            rows=_whole(options, "rows", 0, 2**53),
        )

    @property
    def columns(self) -> str:
        """The schema in Spark's words."""
        content = "plain" if isinstance(self.content, PlainContent) else "clicks"
        return f"offset long, timestamp timestamp, {_COLUMNS[content]}"


_OWN_OPTIONS: Final = (
    "profile", "content", "partitions", "maxRowsPerBatch", "startEpochSeconds", "firstOffset", "rows",
)  # fmt: skip


def option_names(content: str) -> list[str]:
    """Every option that the source takes with a content.

    Examples
    --------
    >>> option_names("plain")[-3:]
    ['seed', 'keys', 'zipf']
    """
    return [*_OWN_OPTIONS, *(_camel(name) for name in content_parameters(_CONTENTS[content]))]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def _refusal(option: str, value: object, allowed: str) -> InvalidSettingError:
    return InvalidSettingError(f"{FORMAT} {option}", value, allowed)


def _refuse_unknown(options: Mapping[str, str], content: str) -> None:
    known = option_names(content)
    for key, value in options.items():
        if key not in {name.lower() for name in known}:
            raise _refusal(key, value, f"no such option with content {content}; it takes {', '.join(known)}")


def _profile(options: Mapping[str, str]) -> LoadProfile:
    if "profile" not in options:
        raise _refusal("profile", None, "it must be given, such as constant:rate=1000")
    return load_profile(options["profile"])


def _content(options: Mapping[str, str], kind: type[Content]) -> Content:
    values: dict[str, Any] = {}
    for name, number in content_parameters(kind).items():
        text = options.get(_camel(name).lower())
        if text is not None:
            values[name] = _read(_camel(name), text, whole=number is int)
    try:
        return kind(**values)
    except InvalidSettingError as error:
        raise _refusal(_camel(error.key), error.value, error.allowed) from error


def _read(option: str, text: str, *, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError as error:
        raise _refusal(option, text, "a whole number" if whole else "a number") from error


def _whole(options: Mapping[str, str], option: str, low: int, high: int) -> int | None:
    value = _number(options, option, low, high, whole=True)
    return None if value is None else int(value)


def _number(options: Mapping[str, str], option: str, low: float, high: float, *, whole: bool = False) -> float | None:
    text = options.get(option.lower())
    if text is None:
        return None
    value = _read(option, text, whole=whole)
    if not math.isfinite(value) or not low <= value <= high:
        raise _refusal(option, text, f"a {'whole ' if whole else ''}number from {low:.16g} to {high:.16g}")
    return value


# -- when rows arrive --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadTruth:
    """When every row arrives by the wall clock, to hold measured latencies and lags against.

    Examples
    --------
    >>> from penstock.model.profile import LoadProfile
    >>> truth = LoadTruth.from_offset(LoadProfile.constant(10), '{"row": 7, "epoch_ms": 1700000000000}')
    >>> truth.arrival_epoch_s([0, 9]).tolist(), truth.rows_by_epoch_s(1700000002.5)
    ([1700000000.1, 1700000001.0], 25)
    """

    profile: LoadProfile
    epoch_ms: int

    @classmethod
    def from_offset(cls, profile: LoadProfile, offset: str | Mapping[str, int]) -> LoadTruth:
        """Take the epoch from an offset as it stands in a query's progress or checkpoint."""
        tree = json.loads(offset) if isinstance(offset, str) else offset
        return cls(profile, int(tree["epoch_ms"]))

    def arrival_epoch_s(self, offsets: ArrayLike) -> NDArray[np.float64]:
        """When rows arrive, in seconds since 1970; infinity for rows that never do."""
        return self.epoch_ms / 1000 + self.profile.arrival_s(offsets)

    def arrival_epoch_us(self, offsets: ArrayLike) -> NDArray[np.int64]:
        """When rows arrive, in whole microseconds since 1970, as the column ``timestamp`` has it."""
        arrivals_us = np.rint(self.profile.arrival_s(offsets) * 1e6)
        if not np.all(np.isfinite(arrivals_us)):
            raise InvalidProfileError(
                f"load profile: it ends after {self.profile.total_rows} rows, but offset {np.max(offsets)} is asked "
                "for: a query must be restarted with the profile it was started with, or from a new checkpoint"
            )
        return self.epoch_ms * 1000 + arrivals_us.astype(np.int64)

    def rows_by_epoch_s(self, epoch_s: float) -> int:
        """How many rows have arrived at a moment given in seconds since 1970."""
        return self.rows_by_epoch_ms(epoch_s * 1000)

    def rows_by_epoch_ms(self, epoch_ms: float) -> int:
        """How many rows have arrived at a moment given in milliseconds since 1970."""
        return self.profile.rows_by((epoch_ms - self.epoch_ms) / 1000)


# -- rows as Arrow -----------------------------------------------------------------------------------------------------


def arrow_batch(content: Content, truth: LoadTruth, first: int, end: int) -> pa.RecordBatch:
    """Make the rows from ``first`` up to but not including ``end``."""
    offsets = np.arange(first, end, dtype=np.int64)
    columns = {
        "offset": pa.array(offsets),
        "timestamp": pa.array(truth.arrival_epoch_us(offsets)).view(_TIMESTAMP),
    }
    if isinstance(content, PlainContent):
        columns["key"] = pa.array(content.keys_of(offsets))
        columns["value"] = pa.array(content.values_of(offsets))
    else:
        ips, users = _pools(content)
        rows = content.columns(offsets)
        columns["ip"] = ips.take(pa.array(rows.ip))
        columns["userID"] = users.take(pa.array(rows.user))
        columns["eventType"] = _EVENT_TYPES.take(pa.array(rows.is_click.view(np.int8)))
    return pa.RecordBatch.from_pydict(columns)


@lru_cache(maxsize=4)
def _pools(content: ClicksContent) -> tuple[pa.StringArray, pa.StringArray]:
    # Kept between tasks: a Python worker lives on, and the pools cost as much as a hundred thousand rows.
    return pa.array(content.ip_pool()), pa.array(content.user_pool())


# -- the source --------------------------------------------------------------------------------------------------------


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
            raise _refusal("rows", None, "the profile never ends, so it must be given")
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
