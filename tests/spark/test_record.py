"""What batches were told, beside a checkpoint: what is written, what is left out, and what is kept how long."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.model.directive import Directive
from penstock.model.shed_history import NOTHING_SHED
from penstock.spark import internals
from penstock.spark.answers import Answering
from penstock.spark.folders import LocalFolder
from penstock.spark.guard_spec import GuardSpec, SourceReading
from penstock.spark.record import BatchRecord, CheckpointRecord, RepaidState, SourceRange

NOW_S = 1_700_000_000.0
DAY_S = 86_400.0


def told(batch_id: int, ratio: float, *, planned_s: float = NOW_S) -> BatchRecord:
    ranges = (SourceRange({"row": 10 * batch_id}, {"row": 10 * batch_id + 10}),)
    return BatchRecord(Directive(batch_id, ratio, 0.1, NOW_S - 2.5, everything=ratio >= 1.0), planned_s, ranges, "f00d")


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path / "penstock")


def test_only_batches_that_shed_have_files_and_the_first_after_them(folder: LocalFolder) -> None:
    """While everything is kept nothing is written; the end of a storm is."""
    record = CheckpointRecord(folder)
    ratios = {0: 1.0, 1: 1.0, 2: 0.5, 3: 0.25, 4: 1.0, 5: 1.0, 6: 0.5}
    written = [batch_id for batch_id, ratio in ratios.items() if record.put(told(batch_id, ratio))]
    assert written == [2, 3, 4, 6]
    assert [each.batch_id for each in CheckpointRecord(folder).batches()] == [2, 3, 4, 6]


def test_a_batch_that_runs_again_is_told_the_same(folder: LocalFolder) -> None:
    """Ratio, floor and late moment come back as they were; without a file, what the batch before had sent along."""
    CheckpointRecord(folder).put(told(7, 0.5))
    again = CheckpointRecord(folder)
    assert again.told(7) == Directive(7, 0.5, 0.1, NOW_S - 2.5)
    assert again.told(8) == Directive(8, 0.5, 0.1, None)
    assert again.told(9) is None
    again.keep_all_after(7)
    assert CheckpointRecord(folder).told(8) == Directive(8, everything=True)


def test_the_end_of_governing_does_not_undo_what_a_batch_was_told(folder: LocalFolder) -> None:
    """A batch that was told meanwhile keeps to that: nobody writes over it."""
    record = CheckpointRecord(folder)
    record.put(told(7, 0.5))
    record.put(told(8, 0.25))
    record.keep_all_after(7)
    assert record.told(8) == told(8, 0.25).directive


def test_damaged_files_are_none(folder: LocalFolder, caplog: pytest.LogCaptureFixture) -> None:
    """Half a file, or one of somebody else, takes no query with it."""
    whole = json.loads(told(7, 0.5).to_bytes())
    damaged = (
        b"", b"{", b"[]", b"null", b'"text"', b"[" * 100_000, b'{"directive": {"batch_id": 1}}',
        *(json.dumps({**whole, name: wrong}).encode() for name in ("directive", "ranges") for wrong in ([1], 1, "x", {})
          if (name, wrong) != ("ranges", {})),
        json.dumps({**whole, "planned_s": []}).encode(),
        json.dumps({**whole, "directive": {**whole["directive"], "batch_id": float("inf")}}).encode(),
        json.dumps({**whole, "directive": {**whole["directive"], "keep_ratio": None}}).encode(),
    )  # fmt: skip
    for number, content in enumerate(damaged):
        folder.write(f"batches/{number}.json", content)
        assert CheckpointRecord(folder).read(number) is None
    folder.write("guards/f00d.json", b"null")
    assert CheckpointRecord(folder).guard("f00d") is None
    folder.write("repaid/3.json", b"{")
    assert CheckpointRecord(folder).marks() == {3: RepaidState.BEGUN}
    assert "cannot be read" in caplog.text


def test_the_record_of_another_batch_is_none(folder: LocalFolder) -> None:
    """A file that was copied over another says nothing of the batch by whose name it goes."""
    folder.write("batches/7.json", told(9, 0.5).to_bytes())
    record = CheckpointRecord(folder)
    assert record.read(7) is None
    assert not record.is_shedding


@pytest.mark.parametrize("costs", [[], [1], 5, "text", None, {"wrong": 5}, {"wrong": "no base 64"}, {"wrong": None}])
def test_damaged_costs_are_none_and_what_was_told_stands(
    folder: LocalFolder, costs: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows are kept and repaid as the batch was told, and those operators whose costs can be read have them."""
    whole = {**json.loads(told(7, 0.5).to_bytes()), "costs": costs}
    folder.write("batches/7.json", json.dumps(whole).encode())
    assert CheckpointRecord(folder).read(7) == told(7, 0.5)
    assert "rows cannot be read" in caplog.text
    if isinstance(costs, dict):
        folder.write("batches/7.json", json.dumps({**whole, "costs": {**costs, "right": "Y2VsbHM="}}).encode())
        found = CheckpointRecord(folder).read(7)
        assert found is not None
        assert found.costs == {"right": b"cells"}


def test_what_is_owed_outlives_what_spark_keeps(folder: LocalFolder) -> None:
    """Old batches go once they are repaid or too old; the newest stay, whatever they are."""
    record = CheckpointRecord(folder, keep_batches=3, keep_days=2.0)
    for batch_id in range(10):
        record.put(told(batch_id, 0.5, planned_s=NOW_S if batch_id >= 2 else NOW_S - 3 * DAY_S))
    for batch_id in (2, 3, 5, 9):
        record.mark(batch_id, RepaidState.DONE)
    record.mark(4, RepaidState.BEGUN)
    assert record.clean(NOW_S) == 4
    assert [each.batch_id for each in record.batches()] == [4, 5, 6, 7, 8, 9]
    record.mark(4, RepaidState.DONE)
    assert record.clean(NOW_S) == 2
    assert [each.batch_id for each in record.batches()] == [6, 7, 8, 9]
    assert record.clean(NOW_S + 3 * DAY_S) == 1
    assert [each.batch_id for each in record.batches()] == [7, 8, 9]
    assert record.marks() == {9: RepaidState.DONE}


class CountingFolder:
    """A folder in memory that counts what is read and listed."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.listed = 0

    def read(self, name: str) -> bytes | None:
        """Read and count."""
        self.asked.append(name)
        return self.contents.get(name)

    def write(self, name: str, content: bytes) -> None:
        """Write."""
        self.contents[name] = content

    def names(self, inside: str) -> list[str]:
        """List and count."""
        self.listed += 1
        return [name.removeprefix(f"{inside}/") for name in self.contents if name.startswith(f"{inside}/")]

    def delete(self, name: str) -> None:
        """Delete."""
        self.contents.pop(name, None)


def test_cleaning_reads_only_marks_of_batches_that_it_looks_at() -> None:
    """However many batches are repaid: where each file is a request to a remote disk, the rest costs nothing."""
    folder = CountingFolder()
    record = CheckpointRecord(folder, keep_batches=10)
    for batch_id in range(300):
        record.put(told(batch_id, 0.5))
        if batch_id != 5:
            record.mark(batch_id, RepaidState.DONE)
    folder.asked.clear()
    assert record.clean(NOW_S) == 5
    assert len([name for name in folder.asked if name.startswith("repaid/")]) <= 6
    record.mark(5, RepaidState.DONE)
    assert record.clean(NOW_S) == 285
    assert sorted(record.marks()) == list(range(290, 300))


@pytest.mark.parametrize("is_governed", [True, False])
def test_a_start_reads_as_many_files_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, *, is_governed: bool
) -> None:
    """It is on the query's own thread: the newest files are read, and the folder is listed once."""
    monkeypatch.setattr(internals, "plan_now", lambda _: None)
    costs = []
    for files in (100, 10_000):
        folder = CountingFolder()
        for batch_id in range(files):
            folder.write(f"batches/{batch_id}.json", told(batch_id, 0.5).to_bytes())
        monkeypatch.setattr(internals, "next_batch", lambda _, files=files: files)
        monkeypatch.setattr(internals, "uncommitted_batch", lambda _, files=files: files)
        watched: Any = SimpleNamespace(
            name="clicks", record=CheckpointRecord(folder), answering=threading.Lock(), shed=NOTHING_SHED,
            execution=None, uncommitted_batch=None, tell_alone=lambda: None,
        )  # fmt: skip
        answering = Answering.__new__(Answering)
        answering._plant = cast("Any", SimpleNamespace(missing={}, tell=lambda *_: None))
        if is_governed:
            assert [each.batch_id for each in answering.told_before(watched, starting=True)] == [files - 1, files]
        else:
            answering.replay(watched)
        costs.append((len(folder.asked), folder.listed))
    assert costs[0] == costs[1]
    assert costs[0][1] == 1


def test_a_guard_comes_back_without_secrets(folder: LocalFolder) -> None:
    """What is needed to draw again is on record once; a password is not."""
    reading = SourceReading.of("kafka", {"subscribe": "clicks", "kafka.sasl.jaas.config": "user and password"}, "{}")
    spec = GuardSpec(7, ("topic", "partition", "offset"), arrival="timestamp", source=reading, is_at_source=True)
    name = CheckpointRecord(folder).put_guard(spec)
    assert CheckpointRecord(folder).guard(name) == spec
    assert b"password" not in (folder.read(f"guards/{name}.json") or b"")
    assert folder.names("guards") == [f"{name}.json"]


def test_a_deleted_checkpoint_does_not_come_back(tmp_path: Path) -> None:
    """Spark refuses a new checkpoint that is not empty: what is written late must not make one of it."""
    record = CheckpointRecord(LocalFolder(tmp_path / "checkpoint" / "penstock"))
    with pytest.raises(FileNotFoundError):
        record.put(told(7, 0.5))
    assert list(tmp_path.iterdir()) == []
