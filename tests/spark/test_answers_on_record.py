"""What a finished batch reports of what it kept to, against what stands beside its checkpoint."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.model import Mode
from penstock.model.directive import Directive
from penstock.model.shed_history import ShedHistory
from penstock.spark.answers import Answering
from penstock.spark.collector import REQUESTED
from penstock.spark.directives import Answer, Question
from penstock.spark.folders import LocalFolder
from penstock.spark.operator_worker import costs_from_bytes
from penstock.spark.record import BatchRecord, CheckpointRecord, SourceRange

RANGE = SourceRange({"row": 10}, {"row": 20})


@pytest.fixture
def record(tmp_path: Path) -> CheckpointRecord:
    return CheckpointRecord(LocalFolder(tmp_path / "penstock"))


def confirm(record: CheckpointRecord, used: Directive) -> None:
    """Report a batch of a governed query."""
    watched = SimpleNamespace(
        name="clicks", record=record, guard=None, is_governed=True, is_told=True, uncommitted_batch=None,
        answering=threading.Lock(), shed=ShedHistory(),
    )  # fmt: skip
    observed = {"directive": used.to_array(answered=False)}
    progress = {
        "runId": "run-1",
        "batchId": used.batch_id,
        "timestamp": "2026-01-02T03:04:05.678Z",
        "observedMetrics": {REQUESTED: observed},
        "sources": [{"startOffset": RANGE.start, "endOffset": RANGE.end}],
    }
    Answering.__new__(Answering).confirm(cast("Any", watched), progress)


def test_a_batch_without_an_answer_is_put_on_record_by_its_report(record: CheckpointRecord) -> None:
    """It kept to what was sent along, with its floor: it is owed like any other, offsets and all."""
    record.put(BatchRecord(Directive(6, 0.5, 0.1, 1e9), 1.0, (RANGE,)))
    confirm(record, Directive(7, 0.5, 0.1))
    found = record.read(7)
    assert found is not None
    assert replace(found, history=ShedHistory()) == BatchRecord(Directive(7, 0.5, 0.1), 1767323045.678, (RANGE,))


def test_a_report_that_says_what_is_on_record_changes_nothing(record: CheckpointRecord) -> None:
    """What was told stands as it is, with the moment at which the batch was planned."""
    told = BatchRecord(Directive(7, 0.5, 0.1, 1e9), 1.0, (RANGE,), "f00d")
    record.put(told)
    confirm(record, told.directive)
    assert record.read(7) == told


def test_a_batch_that_kept_everything_after_a_storm_ends_it(record: CheckpointRecord) -> None:
    """Told to shed and not heard of it, or not governed any more: nothing of it is owed."""
    record.put(BatchRecord(Directive(7, 0.5, 0.1), 1.0, (RANGE,)))
    confirm(record, Directive(7, everything=True))
    assert not record.is_shedding
    record.put(BatchRecord(Directive(8, 0.5, 0.1), 1.0, (RANGE,)))
    confirm(record, Directive(9, everything=True))
    assert [(each.batch_id, each.sheds) for each in record.batches()] == [(7, False), (8, True), (9, False)]


@pytest.mark.parametrize("costs", [{"another operator": b"cells"}, {"an operator": b"damaged"}, {}])
def test_costs_under_a_wrong_name_or_damaged_are_none(record: CheckpointRecord, costs: dict[str, bytes]) -> None:
    """An operator of which nothing is known keeps the ratio of its batch, and knows no costs: it draws uniformly."""
    record.put(BatchRecord(Directive(7, 0.5, 0.1), 1.0, (RANGE,), None, costs))
    watched = SimpleNamespace(
        name="clicks", record=CheckpointRecord(record._folder), is_governed=True, is_told=True, uncommitted_batch=7,
        answers={}, answering=threading.Lock(), query=SimpleNamespace(runId="run-1"), last_answered=None,
        last_ratio=1.0, shed=ShedHistory(),
        remember=lambda *_: None, planned=lambda _: None,
    )  # fmt: skip
    answering = Answering.__new__(Answering)
    answering._plant = cast("Any", SimpleNamespace(find=lambda _: watched))
    answering._loop = cast("Any", SimpleNamespace(logic=SimpleNamespace(query=lambda _: None)))
    answering._operators = []
    answer = answering.answer(Question("id-1", "run-1", 7, "an operator"))
    assert answer is not None
    assert (answer.directive.keep_ratio, answer.directive.keep_floor) == (0.5, 0.1)
    assert costs_from_bytes(answer.costs) is None
    assert costs_from_bytes(Answer.from_bytes(answer.to_bytes()).costs) is None


@pytest.mark.parametrize(("mode", "again"), [(Mode.OBSERVE, True), (Mode.ACT, False)])
def test_a_batch_that_nobody_decides_about_keeps_everything_when_it_runs_again(
    record: CheckpointRecord, mode: Mode, *, again: bool
) -> None:
    """Where nothing is applied nothing that sheds is sent along, so it must not run again as the one before it."""
    record.put(BatchRecord(Directive(7, 0.5, 0.1), 1.0, (RANGE,)))
    watched = SimpleNamespace(
        name="clicks", record=record, is_governed=True, is_told=True, uncommitted_batch=7, answers={},
        answering=threading.Lock(), query=SimpleNamespace(runId="run-1"), shed=ShedHistory(), planned=lambda _: None,
    )  # fmt: skip
    answering = Answering.__new__(Answering)
    answering._plant = cast("Any", SimpleNamespace(find=lambda _: watched))
    answering._loop = cast("Any", SimpleNamespace(answer=lambda _: None, mode=mode))
    assert answering.answer(Question("id-1", "run-1", 8)) is None
    told = CheckpointRecord(record._folder).told(8)
    assert told is not None
    assert told.everything is again


def test_while_everything_is_kept_nothing_is_written(record: CheckpointRecord) -> None:
    """A query that keeps up leaves no files."""
    for batch_id in range(5):
        confirm(record, Directive(batch_id, everything=True))
    assert record.batches() == []
