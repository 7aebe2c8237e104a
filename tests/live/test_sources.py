"""Every kind of source and trigger under a goal: limited in its own unit, or left alone with the reason on record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from live.helpers import (
    actions_of,
    batches_of,
    costly,
    limit_values,
    limited_rows,
    limits_in_force,
    load_rows,
    show,
    wait_for_batches,
    wait_until,
)
from penstock import Goal, Penstock
from penstock.model import ActionKind, Metric, QueryName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

Attach = Callable[..., Penstock]
GOAL = Goal(latency="4 seconds")


def start(rows: DataFrame, name: str, **trigger: Any) -> StreamingQuery:
    writer = rows.writeStream.format("noop").queryName(name)
    return (writer.trigger(**trigger) if trigger else writer).start()


def reason_left_alone(pen: Penstock, name: str) -> str:
    """The one reason on record for leaving the query's source alone."""
    (action,) = actions_of(pen.store, name, ActionKind.UNMANAGED)
    return action.reason


def read_on(query: StreamingQuery, batches: int) -> None:
    """See that the query lives and reads so many batches more."""
    wait_for_batches(query, len(batches_of(query)) + batches)


# -- files -------------------------------------------------------------------------------------------------------------


def write_files(folder: Path, count: int, rows: int = 10) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"part-{number:04}.json").write_text('{"n": 1}\n' * rows, encoding="utf-8")


def files(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    return spark.readStream.schema("n long").options(**options).json(str(folder))


def test_files_are_limited_in_files(spark: SparkSession, attach: Attach, tmp_path: Path) -> None:
    """The first batch reads one file, later ones more, and each file is read once."""
    write_files(tmp_path / "in", 60)
    pen = attach(goals={"files": GOAL})
    query = start(files(spark, tmp_path / "in"), "files")
    wait_until(lambda: sum(batch.rows for batch in batches_of(query)) >= 600, "last of the files")
    done = batches_of(query)
    assert done[0].rows == 10
    assert max(batch.rows for batch in done) > 10
    assert sum(batch.rows for batch in done) == 600
    assert {action.unit for action in actions_of(pen.store, "files", ActionKind.READ_LIMIT)} == {"files"}
    lags = [point.value for point in pen.store.points(QueryName("files"), Metric.LAG_ROWS)]
    # Waiting files are counted when the report is in; by then the next batch may have taken its own.
    assert lags[0] in {580, 590}
    assert query.exception() is None


def test_a_limit_in_files_of_the_user_is_an_upper_bound(spark: SparkSession, attach: Attach, tmp_path: Path) -> None:
    """No batch reads more than maxFilesPerTrigger, whatever would fit; afterwards the limit is as it was."""
    write_files(tmp_path / "in", 40)
    pen = attach(goals={"bounded": GOAL})
    query = start(files(spark, tmp_path / "in", maxFilesPerTrigger="3"), "bounded")
    wait_for_batches(query, 8)
    limits = limit_values(pen.store, "bounded")
    assert limits[0] == 1
    assert max(limits) == 3
    assert max(batch.rows for batch in batches_of(query)) == 30
    pen.release("bounded")
    assert limits_in_force(query) == ["MaxFiles: 3"]


def test_files_with_a_limit_in_bytes_are_limited_in_bytes(spark: SparkSession, attach: Attach, tmp_path: Path) -> None:
    """Where the user set maxBytesPerTrigger the limit is in bytes and never above it."""
    write_files(tmp_path / "in", 60, rows=100)
    pen = attach(goals={"bytes": GOAL}, settings={"admission.first_batch_bytes": 1000})
    query = start(files(spark, tmp_path / "in", maxBytesPerTrigger="9000"), "bytes")
    done = wait_for_batches(query, 6)
    wait_until(lambda: len(limit_values(pen.store, "bytes")) >= 2, "second limit")
    assert {action.unit for action in actions_of(pen.store, "bytes", ActionKind.READ_LIMIT)} == {"bytes"}
    limits = limit_values(pen.store, "bytes")
    assert limits[0] == 1000
    assert max(limits) <= 9000
    assert done[0].rows == 100
    assert max(batch.rows for batch in done) <= 1000
    pen.release("bytes")
    assert limits_in_force(query) == ["MaxBytes: 9000"]


def test_a_file_larger_than_the_limit_does_not_wedge(spark: SparkSession, attach: Attach, tmp_path: Path) -> None:
    """A single file above the limit in bytes is read all the same, and so is what comes after it."""
    write_files(tmp_path / "in", 3, rows=5000)
    pen = attach(goals={"large": GOAL}, settings={"admission.first_batch_bytes": 100})
    query = start(files(spark, tmp_path / "in", maxBytesPerTrigger="1000000"), "large")
    wait_until(lambda: sum(batch.rows for batch in batches_of(query)) == 15_000, "last of the large files")
    assert limit_values(pen.store, "large")[0] == 100
    assert query.exception() is None


# -- sources that are left alone ---------------------------------------------------------------------------------------


def test_the_rate_sources_are_left_alone(spark: SparkSession, attach: Attach) -> None:
    """Both make their rows by themselves: nothing is limited, the reason is recorded, the queries run on."""
    pen = attach(goals={"rate": GOAL, "fixed": GOAL})
    rate = start(spark.readStream.format("rate").option("rowsPerSecond", "200").load(), "rate")
    fixed = start(spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "70").load(), "fixed")
    assert {batch.rows for batch in wait_for_batches(fixed, 5)} == {70}
    wait_for_batches(rate, 3)
    assert "the rate source makes as many rows as its rowsPerSecond says" in reason_left_alone(pen, "rate")
    assert "the rate-micro-batch source makes a fixed number of rows" in reason_left_alone(pen, "fixed")
    assert limit_values(pen.store, "rate") == limit_values(pen.store, "fixed") == []


class Span(InputPartition):
    """Rows from one number up to another."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first, self.end = first, end


class OldReader(DataSourceStreamReader):
    """A reader of the time before admission control: ten rows more whenever it is asked."""

    def __init__(self) -> None:
        self.row = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Begin."""
        return {"row": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - Spark's old signature
        """Go on by ten rows."""
        self.row += 10
        return {"row": self.row}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Span]:  # type: ignore[override]
        """One task."""
        return [Span(start["row"], end["row"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:  # type: ignore[override]
        """The numbers."""
        assert isinstance(partition, Span)
        return ((number,) for number in range(partition.first, partition.end))


class LimitedReader(OldReader):
    """A reader with 100,000 rows and a limit of its own."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - a name of Spark
        """Obey."""
        assert isinstance(limit, ReadMaxRows | ReadAllAvailable), f"what limit is {limit}?"
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 100_000
        return {"row": min(100_000, start["row"] + most)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """A limit below what the first batch of a governed start may read."""
        return ReadMaxRows(123)


class SimpleReader(SimpleDataSourceStreamReader):
    """A reader that reads while it plans."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Begin."""
        return {"row": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:  # type: ignore[override]
        """Twenty rows more."""
        row = start["row"]
        return iter([(number,) for number in range(row, row + 20)]), {"row": row + 20}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:  # type: ignore[override]  # noqa: N802 - a name of Spark
        """The same again."""
        return iter([(number,) for number in range(start["row"], end["row"])])


class OldSource(DataSource):
    """A source with the old reader."""

    @classmethod
    def name(cls) -> str:
        """The name to pass to ``format``."""
        return cls.__name__

    def schema(self) -> str:
        """One number."""
        return "n long"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """The old one."""
        return OldReader()


class LimitedSource(OldSource):
    """A source with a reader that has a limit of its own."""

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """The one with the limit."""
        return LimitedReader()


class SimpleSource(DataSource):
    """A source with the simple reader only."""

    @classmethod
    def name(cls) -> str:
        """The name to pass to ``format``."""
        return cls.__name__

    def schema(self) -> str:
        """One number."""
        return "n long"

    def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802 - as above
        """The simple one."""
        return SimpleReader()


@pytest.fixture
def by_value() -> Iterator[None]:
    """Send this module's classes to the Python workers whole, since they cannot import a test module."""
    import sys  # noqa: PLC0415 - only this fixture needs it

    from pyspark import cloudpickle  # noqa: PLC0415 - imported only where it is used

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.usefixtures("by_value")
@pytest.mark.parametrize(
    ("source", "rows", "reason"),
    [
        (OldSource, 10, "has no admission control: give its reader latestOffset(start, limit)"),
        (SimpleSource, 20, "its SimpleDataSourceStreamReader takes no limit"),
    ],
)
def test_python_sources_without_admission_control_are_left_alone(
    spark: SparkSession, attach: Attach, source: type[DataSource], rows: int, reason: str
) -> None:
    """A limit would kill them: they read on as they like, and the record says why."""
    spark.dataSource.register(source)
    pen = attach(goals={"alone": GOAL})
    query = start(spark.readStream.format(source.name()).load(), "alone", processingTime="100 milliseconds")
    done = wait_for_batches(query, 4)
    assert {batch.rows for batch in done} == {rows}
    assert reason in reason_left_alone(pen, "alone")
    assert limit_values(pen.store, "alone") == []
    read_on(query, 2)


@pytest.mark.usefixtures("by_value")
def test_a_limit_in_rows_of_a_python_source_is_an_upper_bound(spark: SparkSession, attach: Attach) -> None:
    """A reader whose own limit is 123 rows never gets a larger one."""
    spark.dataSource.register(LimitedSource)
    pen = attach(goals={"own": GOAL})
    query = start(spark.readStream.format("LimitedSource").load(), "own")
    done = wait_for_batches(query, 8)
    assert {batch.rows for batch in done} == {123}
    assert limit_values(pen.store, "own") == [123]
    assert limited_rows(query) == [123]


# -- several sources ---------------------------------------------------------------------------------------------------


def test_two_sources_share_by_their_lag(spark: SparkSession, attach: Attach) -> None:
    """The one with ten times the backlog gets about ten times the rows; both together fit into the budget."""
    pen = attach(goals={"union": Goal(latency=3)})
    large = costly(load_rows(spark, "constant:rate=0,backlog=40000000"), 4)
    small = costly(load_rows(spark, "constant:rate=0,backlog=4000000"), 4)
    query = start(large.union(small), "union")
    first = wait_for_batches(query, 1)[0]
    assert first.rows == 1000
    wait_until(lambda: len(limit_values(pen.store, "union")) >= 12, "twelfth limit")
    newest = {action.target: action.value for action in actions_of(pen.store, "union", ActionKind.READ_LIMIT)}
    assert set(newest) == {"source 0", "source 1"}
    show(f"limits of the two sources: {newest}")
    assert newest["source 0"] is not None
    assert newest["source 1"] is not None
    assert newest["source 0"] / newest["source 1"] == pytest.approx(10, rel=0.25)
    parts = {point.subject for point in pen.store.points(QueryName("union"), Metric.LAG_ROWS)}
    assert parts == {"", "source 0", "source 1"}
    assert actions_of(pen.store, "union", ActionKind.FAULT) == []


def test_a_join_of_two_streams_is_governed(spark: SparkSession, attach: Attach) -> None:
    """Both sides of a stream-stream join have a limit, and the query reads on."""
    pen = attach(goals={"join": Goal(latency=6)})
    left = load_rows(spark, "constant:rate=100,backlog=3000").select("offset")
    right = load_rows(spark, "constant:rate=100,backlog=3000", seed="2").select("offset")
    query = start(left.join(right, "offset"), "join")
    done = wait_for_batches(query, 3)
    assert done[0].rows == 1000
    targets = {action.target for action in actions_of(pen.store, "join", ActionKind.READ_LIMIT)}
    assert targets == {"source 0", "source 1"}
    assert len(limited_rows(query)) == 2


# -- triggers ----------------------------------------------------------------------------------------------------------


def test_processing_time_shortens_the_batch(spark: SparkSession, attach: Attach) -> None:
    """Rows wait up to a trigger interval, so with one of 3 s a goal of 4 s leaves 1 s for the batch."""
    pen = attach(goals={"timed": GOAL})
    query = start(load_rows(spark, "constant:rate=1000,backlog=5000"), "timed", processingTime="3 seconds")
    assert wait_for_batches(query, 2)[0].rows == 1000
    assert actions_of(pen.store, "timed", ActionKind.GOVERN)[0].expected["target_batch_s"] == pytest.approx(1.0)


def test_available_now_is_cut_into_batches_and_ends(spark: SparkSession, attach: Attach) -> None:
    """All rows are read, in more than one batch, and the query ends by itself."""
    pen = attach(goals={"available": GOAL})
    query = start(load_rows(spark, "constant:rate=0,backlog=20000"), "available", availableNow=True)
    wait_until(lambda: query.awaitTermination(1), "end of AvailableNow")
    done = batches_of(query)
    assert done[0].rows == 1000
    assert len(done) > 1
    assert sum(batch.rows for batch in done) == 20_000
    assert limit_values(pen.store, "available")[0] == 1000


@pytest.mark.filterwarnings("ignore:Trigger.Once:FutureWarning", "ignore:.*once.*:DeprecationWarning")
def test_once_reads_everything_and_is_left_alone(spark: SparkSession, attach: Attach) -> None:
    """A query that runs a single batch must read all of it there."""
    pen = attach(goals={"once": GOAL})
    query = start(load_rows(spark, "constant:rate=0,backlog=20000"), "once", once=True)
    wait_until(lambda: query.awaitTermination(1), "end of Once")
    assert [batch.rows for batch in batches_of(query)] == [20_000]
    assert "reads everything in one batch and must not be cut" in reason_left_alone(pen, "once")
    assert limit_values(pen.store, "once") == []


def test_continuous_processing_is_only_observed(spark: SparkSession, attach: Attach, tmp_path: Path) -> None:
    """It has no batches to limit: the record says so, nothing breaks, and epochs are committed."""
    pen = attach(goals={"continuous": GOAL})
    rows = spark.readStream.format("rate").option("rowsPerSecond", "100").option("numPartitions", "1").load()
    writer = rows.writeStream.format("noop").queryName("continuous").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(continuous="200 milliseconds").start()
    wait_until((tmp_path / "commits" / "2").exists, "third epoch of the continuous query")
    assert "continuous processing" in reason_left_alone(pen, "continuous")
    assert actions_of(pen.store, "continuous", ActionKind.FAULT) == []
    assert query.exception() is None
    assert query.isActive


def test_rows_survive_moving_limits(spark: SparkSession, attach: Attach, tmp_path: Path) -> None:
    """Under moving limits every row from first to last is written once, in order of batches without a gap."""
    attach(goals={"whole": GOAL})
    rows = load_rows(spark, "constant:rate=0,backlog=15000").select("offset")
    writer = rows.writeStream.format("parquet").queryName("whole").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "rows"))
    wait_until(lambda: query.awaitTermination(1), "end of AvailableNow")
    written = spark.read.parquet(str(tmp_path / "rows")).selectExpr("min(offset)", "max(offset)", "count(*)").first()
    assert tuple(written or ()) == (0, 14_999, 15_000)
    logged = sorted(int(path.name) for path in (tmp_path / "c" / "offsets").iterdir() if path.name.isdigit())
    ends = [
        json.loads((tmp_path / "c" / "offsets" / str(n)).read_text(encoding="utf-8").splitlines()[-1]) for n in logged
    ]
    assert logged == list(range(len(logged)))
    assert [end["row"] for end in ends] == sorted(end["row"] for end in ends)
