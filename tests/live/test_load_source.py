"""The data source ``penstock.load``: its reader on a clock moved by hand, then inside real queries."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)

from live.helpers import wait_until
from penstock.errors import InvalidProfileError, InvalidSettingError
from penstock.model.profile import LoadProfile
from penstock.spark.load import LoadBatchReader, LoadDataSource, LoadStreamReader, register
from penstock.spark.load_options import LoadOptions
from penstock.spark.load_rows import LoadTruth, arrow_batch
from penstock.spark.trace import load_profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

EPOCH_MS = 1_700_000_000_000
TRACES = Path(__file__).parents[3] / "shared" / "traces" / "rates"


class HandClock:
    """A clock that stands still until it is set."""

    def __init__(self, now_ms: int = EPOCH_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """The time it was set to."""
        return self.now_ms


def reader(clock: HandClock, **options: str) -> LoadStreamReader:
    return LoadStreamReader(LoadOptions.parse({"profile": "constant:rate=10", **options}), clock_ms=clock)


# -- the reader, without Spark -----------------------------------------------------------------------------------------


def test_rows_become_available_with_the_clock() -> None:
    """The first offset takes the present moment as epoch; afterwards rows follow the profile from there."""
    clock = HandClock()
    source = reader(clock)
    start = source.initialOffset()
    assert start == {"row": 0, "epoch_ms": EPOCH_MS}
    clock.now_ms += 2500
    assert source.latestOffset(start, ReadAllAvailable()) == {"row": 25, "epoch_ms": EPOCH_MS}
    assert source.initialOffset() == start


@pytest.mark.parametrize(
    ("limit", "row"),
    [
        (ReadAllAvailable(), 100),
        (ReadMaxRows(30), 40),
        (ReadMaxRows(1000), 100),
        (ReadMaxRows(0), 10),
        (ReadMinRows(90), 100),
        (ReadMinRows(91), 10),
        (ReadMaxFiles(1), 17),
        (ReadMaxBytes(1), 17),
    ],
)
def test_every_kind_of_limit_is_answered(limit: ReadLimit, row: int) -> None:
    """Limits in rows are obeyed; limits in files or bytes leave the source's own limit of 7 rows in force."""
    clock = HandClock(EPOCH_MS + 10_000)
    source = reader(clock, maxRowsPerBatch="7")
    assert source.latestOffset({"row": 10, "epoch_ms": EPOCH_MS}, limit)["row"] == row


def test_the_default_limit_is_the_option() -> None:
    """Without maxRowsPerBatch the source asks for no limit."""
    assert reader(HandClock(), maxRowsPerBatch="7").getDefaultReadLimit() == ReadMaxRows(7)
    assert reader(HandClock()).getDefaultReadLimit() == ReadAllAvailable()


def test_a_restart_keeps_the_epoch_of_its_checkpoint() -> None:
    """A new reader takes the epoch from the start offset, not from its own clock, and reports the lag by it."""
    source = reader(HandClock(EPOCH_MS + 60_000))
    assert source.reportLatestOffset() is None
    assert source.latestOffset({"row": 5, "epoch_ms": EPOCH_MS}, ReadMaxRows(1)) == {"row": 6, "epoch_ms": EPOCH_MS}
    assert source.reportLatestOffset() == {"row": 600, "epoch_ms": EPOCH_MS}


def test_a_clock_set_back_never_takes_rows_back() -> None:
    """When the wall clock jumps to before the epoch, the end of the batch stays at its start."""
    source = reader(HandClock(EPOCH_MS - 60_000))
    assert source.latestOffset({"row": 5, "epoch_ms": EPOCH_MS}, ReadAllAvailable())["row"] == 5


def test_a_replayed_first_batch_has_the_epoch_of_its_end() -> None:
    """After a crash in the first batch the start is made anew, but the rows keep the recorded epoch."""
    parts = reader(HandClock()).partitions({"row": 0, "epoch_ms": EPOCH_MS + 9}, {"row": 3, "epoch_ms": EPOCH_MS})
    assert {part.epoch_ms for part in parts} == {EPOCH_MS}
    assert [(part.first, part.end) for part in parts] == [(0, 1), (1, 3)]


def test_available_now_stops_the_clock() -> None:
    """Rows that arrive after the preparation are neither read nor reported; a minimum does not block the end."""
    clock = HandClock()
    source = reader(clock, profile="constant:rate=10,backlog=50")
    source.prepareForTriggerAvailableNow()
    clock.now_ms += 10_000
    start = source.initialOffset()
    assert start["epoch_ms"] == EPOCH_MS
    end = source.latestOffset(start, ReadMinRows(1000))
    assert (end["row"], source.reportLatestOffset()) == (50, end)
    assert source.latestOffset(end, ReadAllAvailable()) == end


def test_rows_do_not_depend_on_how_they_are_cut() -> None:
    """The same stretch in one batch or in several is the same Arrow data."""
    options = LoadOptions.parse({"profile": "sine:mean=50,amplitude=40,period=60,seconds=600", "content": "clicks"})
    truth = LoadTruth(options.profile, EPOCH_MS)
    whole = arrow_batch(options.content, truth, 100, 1100)
    cut = pa.Table.from_batches(
        [arrow_batch(options.content, truth, first, first + 250) for first in range(100, 1100, 250)]
    )
    assert cut.combine_chunks().to_batches()[0].equals(whole)


def test_timestamps_are_arrival_times() -> None:
    """The column holds what the truth computes, to the microsecond."""
    truth = LoadTruth(LoadProfile.constant(8), EPOCH_MS)
    batch = arrow_batch(LoadOptions.parse({"profile": "constant:rate=8"}).content, truth, 0, 16)
    micros = np.array(batch.column("timestamp").cast(pa.int64()))
    assert micros[0] == EPOCH_MS * 1000 + 125_000
    assert np.allclose(micros / 1e6, truth.arrival_epoch_s(np.arange(16)), atol=1e-6)


def test_rows_of_another_profile_are_refused() -> None:
    """A checkpoint beyond the end of a changed profile is an error that says so, not a row of the year -290,000."""
    with pytest.raises(InvalidProfileError, match="it ends after 80 rows, but offset 80 is asked for"):
        LoadTruth(LoadProfile.constant(8, seconds=10), EPOCH_MS).arrival_epoch_us(np.arange(81))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'penstock.load profile' = None is not allowed: it must be given, such as constant:rate=1000"),
        ({"content": "words"}, "content' = 'words' is not allowed: one of plain, clicks"),
        ({"partitions": "two"}, "partitions' = 'two' is not allowed: a whole number"),
        ({"partitions": "0"}, "partitions' = '0' is not allowed: a whole number from 1 to 1000"),
        ({"maxRowsPerBatch": "0"}, "maxRowsPerBatch' = '0' is not allowed: a whole number from 1"),
        ({"startEpochSeconds": "nan"}, "startEpochSeconds' = 'nan' is not allowed: a number from 0"),
        ({"fraudShare": "0.1"}, "no such option with content plain"),
        ({"content": "clicks", "fraudShare": "2"}, "fraudShare' = 2.0 is not allowed: a number from 0 to 1"),
        ({"content": "clicks", "fanOut": "x"}, "fanOut' = 'x' is not allowed: a whole number"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    """A refusal names the option, its value and what is allowed."""
    given = options if not options else {"profile": "constant:rate=1", **options}
    with pytest.raises(InvalidSettingError) as refusal:
        LoadDataSource(given)
    assert message in str(refusal.value)


def test_batch_of_an_endless_profile_needs_its_rows() -> None:
    """Reading all of a profile that never ends is refused; one that ends is read up to its end only."""
    with pytest.raises(InvalidSettingError, match="the profile never ends, so it must be given"):
        LoadBatchReader(LoadOptions.parse({"profile": "constant:rate=1"})).partitions()
    ends = LoadOptions.parse({"profile": "constant:rate=1,seconds=9", "firstOffset": "4", "rows": "100"})
    assert [(part.first, part.end) for part in LoadBatchReader(ends).partitions()] == [(4, 6), (6, 9)]


def test_trace_files_are_read_plain_and_packed(tmp_path: Path) -> None:
    """A gzip file gives the same profile as the plain one; what is not gzip, text or there is refused."""
    table = "second,rate\n0,100\n60,300\n"
    plain, packed, broken = tmp_path / "load.csv", tmp_path / "load.csv.gz", tmp_path / "broken.csv.gz"
    plain.write_text(table, encoding="utf-8")
    packed.write_bytes(gzip.compress(table.encode()))
    broken.write_bytes(table.encode())
    assert load_profile(f"file:{plain}") == load_profile(f"file:{packed}")
    with pytest.raises(InvalidProfileError, match="is not a gzip file"):
        load_profile(f"file:{broken}")
    with pytest.raises(InvalidProfileError, match="cannot be read"):
        load_profile(f"file:{tmp_path}/none.csv")
    plain.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InvalidProfileError, match="is not text in UTF-8"):
        load_profile(f"file:{plain}")


@pytest.mark.skipif(not TRACES.is_dir(), reason="the public traces are not beside this checkout")
def test_public_traces_are_read_whole() -> None:
    """Every public trace gives as many rows as its rates times its steps."""
    files = sorted(TRACES.glob("*.csv*"))
    assert files
    for file in files:
        profile = load_profile(f"file:{file},gaps=hold")
        expected = float(np.sum(profile.rates[:-1] * np.diff(profile.seconds)))
        assert profile.rows_by(profile.duration_s) == profile.total_rows == pytest.approx(expected, abs=1)


# -- inside Spark ------------------------------------------------------------------------------------------------------


def stream(spark: SparkSession, **options: str) -> DataFrame:
    register(spark)
    return spark.readStream.format("penstock.load").options(**options).load()


def run_available(rows: DataFrame, folder: Path, checkpoint: Path | None = None) -> StreamingQuery:
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint or folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    wait_until(lambda: query.awaitTermination(1), "end of AvailableNow")
    return query


def written(spark: SparkSession, folder: Path) -> pa.Table:
    return spark.read.parquet(str(folder / "rows")).orderBy("offset").toArrow().combine_chunks()


def logged_end(checkpoint: Path) -> dict[str, Any]:
    newest = max(
        (file for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()), key=lambda f: int(f.name)
    )
    tree: dict[str, Any] = json.loads(newest.read_text(encoding="utf-8").splitlines()[-1])
    return tree


@pytest.mark.live
@pytest.mark.timeout(900)
def test_bounded_batches_read_exactly_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    """1,000 waiting rows at 300 a batch are four batches, which end by themselves and hold the rows as computed."""
    options = {"profile": "constant:rate=0,backlog=1000", "content": "clicks", "seed": "6", "maxRowsPerBatch": "300"}
    query = run_available(stream(spark, **options), tmp_path)
    batches = [batch.numInputRows for batch in query.recentProgress if batch.numInputRows]
    assert batches == [300, 300, 300, 100]
    parsed = LoadOptions.parse(options)
    truth = LoadTruth(parsed.profile, logged_end(tmp_path / "checkpoint")["epoch_ms"])
    expected = pa.Table.from_batches([arrow_batch(parsed.content, truth, 0, 1000)])
    assert written(spark, tmp_path).to_pylist() == expected.to_pylist()


@pytest.mark.live
@pytest.mark.timeout(900)
def test_a_restart_reads_every_row_once_with_its_own_time(spark: SparkSession, tmp_path: Path) -> None:
    """A query stopped under load and started again from its checkpoint misses, repeats and changes no row."""
    options = {"profile": "sine:mean=800,amplitude=700,period=3,seconds=30,end=repeat,backlog=500", "zipf": "1.0"}
    writer = stream(spark, maxRowsPerBatch="400", **options).writeStream.format("parquet")
    first = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "rows"))
    try:
        while len([batch for batch in first.recentProgress if batch.numInputRows]) < 2:
            assert not first.awaitTermination(0.2), "the query ended by itself"
    finally:
        first.stop()
    stopped_at = logged_end(tmp_path / "checkpoint")
    run_available(stream(spark, **options), tmp_path)
    end = logged_end(tmp_path / "checkpoint")
    assert end["epoch_ms"] == stopped_at["epoch_ms"]
    assert end["row"] > stopped_at["row"]
    parsed = LoadOptions.parse(options)
    truth = LoadTruth(parsed.profile, end["epoch_ms"])
    expected = pa.Table.from_batches([arrow_batch(parsed.content, truth, 0, end["row"])])
    assert written(spark, tmp_path).to_pylist() == expected.to_pylist()


@pytest.mark.live
@pytest.mark.timeout(900)
def test_a_batch_that_was_never_committed_is_read_again_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """A crash in the very first batch, before its commit, gives the same rows and times in the second run."""
    options = {"profile": "constant:rate=500,backlog=200", "content": "clicks"}
    before, after = tmp_path / "before", tmp_path / "after"
    run_available(stream(spark, **options), before)
    shutil.copytree(before / "checkpoint", after / "checkpoint")
    for file in [*(after / "checkpoint" / "commits").glob("*0"), *(after / "checkpoint" / "commits").glob(".*0.crc")]:
        file.unlink()
    first_rows = written(spark, before)
    run_available(stream(spark, **options), after)
    again = written(spark, after)
    assert again.num_rows > first_rows.num_rows
    assert again.slice(0, first_rows.num_rows).to_pylist() == first_rows.to_pylist()


@pytest.mark.live
@pytest.mark.timeout(900)
def test_progress_shows_the_lag(spark: SparkSession, tmp_path: Path) -> None:
    """While less is read than arrives, the latest offset runs ahead of the end of the batch by the rows that wait."""
    rows = stream(spark, profile="constant:rate=1000,backlog=5000", maxRowsPerBatch="100")
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        while len([batch for batch in query.recentProgress if batch.numInputRows]) < 3:
            assert not query.awaitTermination(0.2), "the query ended by itself"
        batches = [batch for batch in query.recentProgress if batch.numInputRows][:3]
    finally:
        query.stop()
    assert [batch.numInputRows for batch in batches] == [100, 100, 100]
    source = [batch.sources[0] for batch in batches]
    latest = [json.loads(str(entry.latestOffset))["row"] for entry in source]
    ends = [json.loads(str(entry.endOffset))["row"] for entry in source]
    assert ends == [100, 200, 300]
    assert latest[0] >= 5000
    assert latest[0] < latest[1] < latest[2]


@pytest.mark.live
@pytest.mark.timeout(900)
def test_a_mistake_shows_at_load(spark: SparkSession) -> None:
    """A bad profile is refused before any query starts, with the reason in the message."""
    with pytest.raises(AnalysisException, match="no shape 'square'; known shapes: constant"):
        stream(spark, profile="square:rate=5")


@pytest.mark.live
@pytest.mark.timeout(900)
def test_rows_can_be_read_as_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """``spark.read`` gives a stretch of rows at once, from a trace file too, with the timestamps of the given epoch."""
    trace = tmp_path / "load.csv"
    trace.write_text("second,rate\n0,100\n60,300\n", encoding="utf-8")
    register(spark)
    options = {"profile": f"file:{trace}", "startEpochSeconds": "1700000000", "firstOffset": "5990", "seed": "2"}
    rows = spark.read.format("penstock.load").options(**options, rows="20", partitions="3").load()
    parsed = LoadOptions.parse(options)
    expected = arrow_batch(parsed.content, LoadTruth(parsed.profile, EPOCH_MS), 5990, 6010)
    assert rows.orderBy("offset").toArrow().to_pylist() == expected.to_pylist()
    assert rows.rdd.getNumPartitions() == 3
