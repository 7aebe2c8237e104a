"""Dropped rows on a real session: told the same again, and repaid to the last one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import functions as fn

from live.helpers import load_rows, wait_until
from live.kafka_helpers import fill, kafka_rows, new_topic
from live.repay_helpers import Kept, Keys, keys_of, run, shed
from penstock import Goal
from penstock.errors import InvalidSettingError, RepayError
from penstock.model import ActionKind, Application, QueryName
from penstock.model.application import REPAY_WHEN_IDLE, QueryDeclaration
from penstock.spark import internals
from penstock.spark.folders import SparkFolder, open_folder
from penstock.spark.idle_repay import POOL
from penstock.spark.record import CheckpointRecord, RepaidState
from penstock.spark.repay import Repay, RepayState

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from penstock import Penstock
    from penstock.kafka.broker import Cluster
    from penstock.model import Action

    Attach = Callable[..., Penstock]

pytestmark = [pytest.mark.live, pytest.mark.timeout(750)]

GOAL = Goal(latency="3 seconds", minimum_accuracy=0.05)
RATIOS = (1.0, 0.5, 0.25, 0.1)


def ratio_of(batch_id: int) -> float:
    """Another ratio in each batch; every fourth keeps everything."""
    return RATIOS[batch_id % len(RATIOS)]


def backlog(spark: SparkSession, rows: int = 100_000, **options: str) -> DataFrame:
    """Rows that are all there, half of which arrived before :func:`half_late`."""
    epoch_s = str(time.time() - 100.0)
    profile = f"constant:rate={rows / 100.0:g},seconds=100"
    return load_rows(spark, profile, startEpochSeconds=epoch_s, maxRowsPerBatch="1000", **options)


def half_late(batch_id: int) -> float:
    """A moment before which some of the rows of the early batches arrived, and none of those after."""
    return time.time() - 99.0


def test_a_batch_that_runs_again_keeps_its_rows_whatever_changed(
    stopping: SparkSession, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal, store, name and governing change between two attempts at a batch; what it keeps does not."""
    kept = Kept(["offset"], fail_at=(1, 2, 5, 6, 7, 8, 10))
    checkpoint = tmp_path / "checkpoint"
    options = {"startEpochSeconds": str(time.time() - 100.0), "maxRowsPerBatch": "1000"}

    def attempt(
        name: str, *, ratio: float | None, until: int | None = None, release_in: int | None = None, **how: object
    ) -> None:
        pen = attach(**how)
        if ratio is not None:
            shed(pen, monkeypatch, lambda _: ratio, half_late)
        rows = pen.guard(load_rows(stopping, "constant:rate=1000,seconds=100", **options))

        def sink(frame: DataFrame, batch_id: int) -> None:
            if batch_id == release_in:
                pen.release(name)
            kept(frame, batch_id)

        run(rows, sink, checkpoint, name, until=until)
        pen.detach()

    attempt("first", ratio=0.5, goals={"first": GOAL})
    attempt("first", ratio=0.2, goals={"first": Goal(latency="60 seconds", minimum_accuracy=0.9)})
    attempt("renamed", ratio=0.3, goals={"renamed": GOAL})
    attempt("not governed", ratio=None)
    attempt("first", ratio=0.6, goals={"first": GOAL})
    attempt("first", ratio=None, goals={"first": GOAL}, settings={"observe.only": True})
    attempt("first", ratio=0.4, goals={"first": GOAL}, release_in=9)
    attempt("first", ratio=0.4, goals={"first": GOAL}, until=11)
    again = {batch_id: found for batch_id, found in kept.attempts.items() if len(found) > 1}
    assert sorted(again) == [1, 2, 5, 6, 7, 8, 10]
    assert [batch_id for batch_id, (one, other) in again.items() if one != other] == []
    sizes = {batch_id: len(found[-1]) for batch_id, found in kept.attempts.items()}
    assert 0 < sizes[1] < 900, "it was told to shed when it ran first"
    assert 0 < sizes[2] < 900
    assert sizes[6] == 1000, "nobody governed it"
    assert 0 < sizes[7] < 900, "it shed before nothing was applied any more"
    assert sizes[8] == 1000, "nothing was applied"
    assert 0 < sizes[9] < 900
    assert sizes[10] == 1000, "it was released"
    assert 0 < sizes[11] < 900


def repaid_and_kept(repay: Repay, kept: Kept, columns: list[str]) -> tuple[Keys, dict[int, int]]:
    """What was dropped, by batch; none of it may have been kept."""
    dropped: Keys = set()
    sizes: dict[int, int] = {}
    for batch in repay:
        found = keys_of(batch.frame, columns)
        assert not found & kept.rows
        assert not found & dropped
        dropped |= found
        sizes[batch.batch_id] = len(found)
    return dropped, sizes


def test_the_load_source_gives_back_every_dropped_row_once(
    stopping: SparkSession, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept and repaid rows are all rows, by batches that shed, late rows included; a second time there is nothing."""
    kept, checkpoint = Kept(["offset"]), tmp_path / "checkpoint"
    pen = attach(goals={"clicks": GOAL})
    shed(pen, monkeypatch, ratio_of, half_late)
    run(pen.guard(backlog(stopping)), kept, checkpoint, "clicks", until=len(RATIOS))
    last = max(kept.attempts)
    repay = pen.repay("clicks")
    owed = repay.batches()
    assert [each.batch_id for each in owed] == [number for number in range(last + 1) if ratio_of(number) < 1.0]
    assert {each.state for each in owed} == {RepayState.OWED}
    dropped, sizes = repaid_and_kept(repay, kept, ["offset"])
    whole = kept.rows | dropped
    assert sorted(whole) == [(number,) for number in range(len(whole))]
    assert sorted(sizes) == [each.batch_id for each in owed]
    assert {each.state for each in repay.batches()} == {RepayState.REPAID}
    assert list(pen.repay("clicks")) == []
    with pytest.raises(RepayError, match="nothing is owed"):
        pen.repay("clicks").frame()


def test_a_repayment_that_fails_goes_on_where_it_was(
    stopping: SparkSession, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that are done stay done; the one that was begun comes again, with the same rows and number."""
    kept, checkpoint = Kept(["offset"]), tmp_path / "checkpoint"
    pen = attach(goals={"clicks": GOAL})
    shed(pen, monkeypatch, lambda _: 0.5, lambda _: None)
    run(pen.guard(backlog(stopping)), kept, checkpoint, "clicks", until=4)
    sink = Kept(["offset"], fail_at=(2,))
    with pytest.raises(RuntimeError, match="batch 2 fails"):
        pen.repay("clicks").run(sink)
    states = {each.batch_id: each.state for each in pen.repay("clicks").batches()}
    assert [states[number] for number in range(4)] == ["repaid", "repaid", "begun", "owed"]
    assert Repay(stopping, str(checkpoint)).run(sink) == len(states) - 2
    assert sink.attempts[2][0] == sink.attempts[2][1]
    assert [len(found) for number, found in sorted(sink.attempts.items()) if number != 2] == [1] * (len(states) - 1)
    whole = sink.rows | kept.rows
    assert len(whole) == len(sink.rows) + len(kept.rows) == 1 + max(whole)[0]


def test_what_is_owed_is_repaid_when_there_is_room(
    stopping: SparkSession, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop repays batch after batch once the query that shed needs the engine no more."""
    name = QueryName("clicks")
    application = Application({name: QueryDeclaration(GOAL, repay=REPAY_WHEN_IDLE)})
    pen = attach(application=application, settings={"observe.executors_every_s": 0.5})
    kept, repaid = Kept(["offset"]), Kept(["offset"])
    with pytest.raises(InvalidSettingError, match=r"queries\.views\.repay"):
        pen.on_repay("views", repaid)
    shed(pen, monkeypatch, lambda _: 0.5, lambda _: None)
    run(pen.guard(backlog(stopping)), kept, tmp_path / "checkpoint", "clicks", until=3)
    wait_until(lambda: not pen.loop.logic.governed, "end of governing")
    pools = set()

    def repay(frame: DataFrame, batch_id: int) -> None:
        pools.add(stopping.sparkContext.getLocalProperty(internals.POOL_PROPERTY))
        repaid(frame, batch_id)

    pen.on_repay("clicks", repay)

    def is_repaid() -> bool:
        return {each.state for each in pen.repay("clicks").batches(ask_source=False)} == {RepayState.REPAID}

    wait_until(is_repaid, "repayment by the loop")
    whole = kept.rows | repaid.rows
    assert len(whole) == len(kept.rows) + len(repaid.rows) == 1 + max(whole)[0]
    assert pools == {POOL}
    wait_until(lambda: len(repayments(pen)) == len(repaid.attempts), "the last record")
    assert [each.target for each in repayments(pen)] == [f"batch {number}" for number in sorted(repaid.attempts)]
    assert {(each.value, each.unit) for each in repayments(pen)} == {(1000.0, "rows")}
    assert "dropped was repaid as of" in str(pen.explain("clicks"))


def repayments(pen: Penstock) -> list[Action]:
    """What is on record of repaying when there is room."""
    return [entry.action for entry in pen.store.actions(kinds=(ActionKind.REPAY,))]


def test_moments_choose_batches(
    stopping: SparkSession, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since is included and until is not."""
    kept, checkpoint = Kept(["offset"]), tmp_path / "checkpoint"
    pen = attach(goals={"clicks": GOAL})
    shed(pen, monkeypatch, lambda _: 0.5, lambda _: None)
    run(pen.guard(backlog(stopping)), kept, checkpoint, "clicks", until=4)
    times = {each.batch_id: each.planned_s for each in pen.repay("clicks").batches()}
    chosen = pen.repay("clicks", since=times[1], until=times[3]).batches()
    assert [each.batch_id for each in chosen] == [1, 2]


def write_files(folder: Path, first: int, files: int) -> None:
    """Files of 200 rows each, in folders by day."""
    for number in range(first, first + files):
        place = folder / f"day={number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        rows = [{"id": 200 * number + row, "user": f"u{(200 * number + row) % 97}"} for row in range(200)]
        beside = place / f".{number}.json"
        beside.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        beside.rename(place / f"{number}.json")


def test_files_give_back_every_dropped_row_once(
    stopping: SparkSession, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard with a key on files: what is repaid is the rows of the keys that were dropped; a lost file is told."""
    write_files(tmp_path / "in", 0, 12)
    kept, checkpoint = Kept(["id", "day"]), tmp_path / "checkpoint"
    pen = attach(goals={"files": GOAL})
    shed(pen, monkeypatch, lambda number: 0.3 if number % 2 else 0.6, lambda _: None)
    reader = stopping.readStream.format("json").schema("id long, user string, day int").option("maxFilesPerTrigger", 2)
    rows = pen.guard(reader.load(str(tmp_path / "in")), key="user", arrival=None)
    run(rows, kept, checkpoint, "files", until=3, count=2400)
    dropped, sizes = repaid_and_kept(pen.repay("files"), kept, ["id", "day"])
    assert sorted(sizes) == sorted(kept.attempts)
    assert kept.rows | dropped == {(200 * number + row, number % 2) for number in range(12) for row in range(200)}
    assert len(kept.rows) + len(dropped) == 2400
    record = CheckpointRecord(open_folder(str(checkpoint / "penstock")))
    record.mark(3, RepaidState.BEGUN)
    for path in list((tmp_path / "in").rglob("*.json")):
        path.unlink()
    (state,) = [each for each in pen.repay("files").batches() if each.batch_id == 3]
    assert (state.state, state.remains and state.remains.there) == (RepayState.GONE, 0)
    with pytest.raises(RepayError, match="has not kept all its rows"):
        pen.repay("files").run(lambda *_: None)


def test_what_cannot_be_drawn_again_is_refused(
    stopping: SparkSession, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows drawn by chance, and a guard behind a select that nobody repeats, are refused with what to do."""
    write_files(tmp_path / "in", 0, 3)
    pen = attach(goals={"chance": GOAL, "behind": GOAL})
    shed(pen, monkeypatch, lambda _: 0.5, lambda _: None)
    reader = stopping.readStream.format("json").schema("id long, user string, day int").option("maxFilesPerTrigger", 1)
    files = reader.load(str(tmp_path / "in"))
    run(pen.guard(files, arrival=None), Kept(["id"]), tmp_path / "chance", "chance", until=2)
    with pytest.raises(RepayError, match="by chance"):
        pen.repay("chance").frame()
    kept = Kept(["id"])

    def prepare(rows: DataFrame) -> DataFrame:
        return rows.where("id % 2 = 0").withColumn("who", fn.upper("user"))

    run(pen.guard(prepare(files), key="who", arrival=None), kept, tmp_path / "behind", "behind", until=2)
    with pytest.raises(RepayError, match="does not stand right behind its source"):
        pen.repay("behind").frame()
    with pytest.raises(RepayError, match="'who', which is not there"):
        pen.repay("behind", rows=lambda rows: rows).frame()
    dropped = keys_of(pen.repay("behind", rows=prepare).frame(), ["id"])
    assert kept.rows | dropped == {(number,) for number in range(0, 600, 2)}
    assert not kept.rows & dropped


def test_a_checkpoint_elsewhere_serves(
    stopping: SparkSession, attach: Attach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Python cannot reach the checkpoint, Spark's own files do: here through a mounted file system."""
    mount = "fs.viewfs.mounttable.elsewhere.link./data"
    stopping.sparkContext._jsc.hadoopConfiguration().set(mount, f"file://{tmp_path}")
    checkpoint = "viewfs://elsewhere/data/checkpoint"
    kept = Kept(["offset"], fail_at=(3,))
    pen = attach(goals={"clicks": GOAL})
    shed(pen, monkeypatch, lambda _: 0.5, lambda _: None)
    rows = pen.guard(backlog(stopping))
    run(rows, kept, checkpoint, "clicks")
    shed(pen, monkeypatch, lambda _: 0.1, lambda _: None)
    run(rows, kept, checkpoint, "clicks", until=5)
    assert kept.attempts[3][0] == kept.attempts[3][1]
    assert isinstance(open_folder(checkpoint, stopping), SparkFolder)
    assert (tmp_path / "checkpoint" / "penstock" / "batches" / "3.json").exists()
    dropped, _ = repaid_and_kept(pen.repay("clicks"), kept, ["offset"])
    whole = kept.rows | dropped
    assert sorted(whole) == [(number,) for number in range(len(whole))]


def test_kafka_gives_back_every_dropped_row_once_and_tells_what_is_lost(
    stopping: SparkSession, attach: Attach, kafka: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept and repaid records are all records; where the broker has deleted some, their number is told."""
    topic = new_topic(kafka, 20_000, partitions=3)
    columns = ["partition", "offset"]
    kept, checkpoint = Kept(columns), tmp_path / "checkpoint"
    pen = attach(goals={"clicks": GOAL})
    shed(pen, monkeypatch, ratio_of, lambda _: None)
    run(pen.guard(kafka_rows(stopping, kafka, topic)), kept, checkpoint, "clicks", until=3)
    fill(kafka, topic, 5_000, first=20_000)
    run(pen.guard(kafka_rows(stopping, kafka, topic)), kept, checkpoint, "clicks", until=max(kept.attempts) + 1)
    dropped, sizes = repaid_and_kept(pen.repay("clicks"), kept, columns)
    reader = stopping.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    everything = reader.option("subscribe", topic).load()
    assert len(kept.attempts) >= 4
    whole = kept.rows | dropped
    assert whole <= keys_of(everything, columns)
    assert len(whole) == _rows_read(checkpoint)
    first = min(sizes)
    delete_records(kafka, topic, partition=0)
    CheckpointRecord(open_folder(str(checkpoint / "penstock"))).mark(first, RepaidState.BEGUN)
    (state,) = [each for each in pen.repay("clicks").batches() if each.batch_id == first]
    assert state.state is RepayState.GONE
    assert state.remains is not None
    assert state.remains.gone > 0
    with pytest.raises(RepayError, match="has not kept all its rows"):
        pen.repay("clicks").frame()
    rest = keys_of(pen.repay("clicks", partial=True).frame(), columns)
    assert rest
    assert {partition for partition, _ in rest} == {1, 2}


def _rows_read(checkpoint: Path) -> int:
    """Records up to the last committed batch; the topic was read from its beginning."""
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    text = (checkpoint / "offsets" / str(last)).read_text(encoding="utf-8")
    (ends,) = json.loads(text.splitlines()[-1]).values()
    return sum(ends.values())


def delete_records(cluster: Cluster, topic: str, *, partition: int) -> None:
    """Delete all records of a partition, as a retention would."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, partition, OFFSET_END)]).values():
        deleted.result()
