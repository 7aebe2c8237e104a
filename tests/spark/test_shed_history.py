"""What batches are told of rows that were dropped before them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.model import QueryName
from penstock.model.decision import KeepRatio
from penstock.model.directive import LATE_PART, Directive
from penstock.model.shed_history import ShedHistory
from penstock.settings import DirectiveSettings
from penstock.spark import directive_task, internals
from penstock.spark.answers import Answering
from penstock.spark.collector import REQUESTED
from penstock.spark.directives import FALLBACK_PROPERTY, Question
from penstock.spark.folders import LocalFolder
from penstock.spark.internals import Ability
from penstock.spark.plant import SparkPlant
from penstock.spark.record import CheckpointRecord
from penstock.spark.watched import WatchedQuery


def keep(batch_id: int, ratio: float, late_before_s: float | None = None) -> KeepRatio:
    return KeepRatio(
        query=QueryName("q"), cause="c", reason="r", batch_id=batch_id, keep_ratio=ratio, keep_floor=0.0,
        late_before_s=late_before_s, everything=ratio >= 1.0,
    )  # fmt: skip


@pytest.fixture
def answering() -> Answering:
    plant = SimpleNamespace(missing=(), tell=lambda *_: None)
    nobody = cast("Any", None)
    return Answering(nobody, nobody, cast("Any", plant), [], DirectiveSettings(enabled=False))


def watched() -> Any:
    query = SimpleNamespace(runId="run-1")
    answering = threading.Lock()
    return SimpleNamespace(shed=ShedHistory(), last_answered=None, last_ratio=1.0, query=query, answering=answering)


def test_a_batch_is_told_of_those_before_it(answering: Answering) -> None:
    """One that keeps everything knows that an earlier one did not, and when."""
    query = watched()
    assert answering._with_history(query, Directive.from_decision(keep(0, 1.0))).history == ShedHistory()
    shed = answering._with_history(query, Directive.from_decision(keep(1, 0.3))).history
    assert shed.largest_weight(0.0) == pytest.approx(2**1.5)
    later = answering._with_history(query, Directive.from_decision(keep(2, 1.0))).history
    assert later == shed
    assert later.largest_weight(later.moments_s[0] + 1.0) == 1.0


def test_late_rows_count_with_their_own_weight(answering: Answering) -> None:
    """A batch that keeps late rows at an eighth of its ratio has weights eight times as large."""
    query = watched()
    found = answering._with_history(query, Directive.from_decision(keep(0, 0.4, late_before_s=5.0))).history
    assert found.largest_weight(0.0) == pytest.approx(2**4.5)
    assert Directive.from_decision(keep(0, 0.4, late_before_s=5.0)).least_ratio == 0.4 * LATE_PART


def test_a_batch_without_an_answer_counts_as_the_one_before(answering: Answering) -> None:
    """It fell back on what that one was told, which the driver did not see."""
    query = watched()
    answering._with_history(query, Directive.from_decision(keep(4, 0.3)))
    query.shed = ShedHistory()
    found = answering._with_history(query, Directive.from_decision(keep(6, 1.0))).history
    assert found.largest_weight(0.0) > 1.0


# What earlier runs dropped


def with_record(folder: Path, **more: Any) -> Any:
    """A query that begins beside a checkpoint."""
    record = CheckpointRecord(LocalFolder(folder / "penstock"))
    return SimpleNamespace(**{**vars(watched()), "record": record, "name": "q", "guard": None, **more})


def put(answering: Answering, query: Any, decisions: list[KeepRatio]) -> None:
    """Tell batches what was decided, on record."""
    query.running = lambda _: None
    for decision in decisions:
        answering._on_record(query, Question("id", "run", decision.batch_id), Directive.from_decision(decision))


def begin(answering: Answering, query: Any, monkeypatch: pytest.MonkeyPatch, next_batch: int) -> None:
    """Begin with the batch that comes next."""
    monkeypatch.setattr(internals, "next_batch", lambda _: next_batch)
    monkeypatch.setattr(internals, "uncommitted_batch", lambda _: None)
    query.execution = object()
    answering.introduce(query, answering.told_before(query, starting=True))


def test_what_an_earlier_run_dropped_long_ago_is_not_forgotten(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Batches that kept everything lie between the last one that dropped rows and the restart, and it is told when."""
    first = with_record(tmp_path)
    put(answering, first, [keep(5, 0.25), keep(6, 0.5), *(keep(number, 1.0) for number in range(7, 21))])
    again = with_record(tmp_path)
    begin(answering, again, monkeypatch, 21)
    assert again.shed == first.shed
    assert answering._with_history(again, Directive.from_decision(keep(21, 1.0))).history == first.shed


def test_what_was_dropped_outlives_the_files_of_its_batches(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One file is read, however many there are: the newest, which stays when those before it are deleted."""
    first = with_record(tmp_path)
    put(answering, first, [keep(1, 0.1), keep(2, 1.0), keep(300, 0.5), keep(301, 1.0)])
    for number in (1, 2, 300):
        (tmp_path / "penstock" / "batches" / f"{number}.json").unlink()
    again = with_record(tmp_path)
    begin(answering, again, monkeypatch, 400)
    assert again.shed == first.shed
    put(answering, again, [keep(400, 0.7), keep(401, 1.0)])
    third = with_record(tmp_path)
    begin(answering, third, monkeypatch, 402)
    assert third.shed.moments_s[1:] == first.shed.moments_s[1:]
    assert third.shed.moments_s[0] > first.shed.moments_s[0]


@pytest.mark.parametrize("ends", [False, True])
def test_a_storm_without_an_end_on_record_lasts_until_the_start(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, ends: bool
) -> None:
    """Batches after the last one on record may have kept to what that one was told."""
    put(answering, with_record(tmp_path), [keep(5, 0.25), *([keep(6, 1.0)] if ends else [])])
    before_s = time.time()
    again = with_record(tmp_path)
    begin(answering, again, monkeypatch, 21)
    assert again.shed.largest_weight(0.0) > 2.0
    assert (again.shed.largest_weight(before_s) == 1.0) is ends


@pytest.mark.parametrize("damage", ["half", "no history"])
def test_what_cannot_be_read_may_have_dropped_anything(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str
) -> None:
    """Half a file, and one that does not tell what was before it, leave nothing exact that began before them."""
    put(answering, with_record(tmp_path), [keep(5, 0.9), keep(6, 1.0)])
    newest = tmp_path / "penstock" / "batches" / "6.json"
    values = json.loads(newest.read_text())
    del values["history"]
    newest.write_text('{"directive"' if damage == "half" else json.dumps(values))
    again = with_record(tmp_path)
    begin(answering, again, monkeypatch, 21)
    assert again.shed.largest_weight(values["planned_s"]) > 1000.0
    assert again.shed.largest_weight(time.time() + 1.0) == 1.0


def test_a_fresh_checkpoint_has_lost_nothing(
    answering: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither one without a record, nor one whose batches all kept everything."""
    query = with_record(tmp_path)
    begin(answering, query, monkeypatch, 0)
    put(answering, query, [keep(number, 1.0) for number in range(3)])
    assert query.shed == ShedHistory()
    again = with_record(tmp_path)
    begin(answering, again, monkeypatch, 3)
    assert again.shed == ShedHistory()


def test_a_query_that_nobody_governs_is_told_what_earlier_runs_dropped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It asks nobody, and its batches keep everything and know what is missing."""
    told: list[Any] = []
    plant = SimpleNamespace(missing=(), tell=lambda *_: told.append("asks"))
    nobody = cast("Any", None)
    answering = Answering(nobody, nobody, cast("Any", plant), [], DirectiveSettings(enabled=False))
    first = with_record(tmp_path)
    put(answering, first, [keep(5, 0.25), keep(6, 1.0)])
    again = with_record(tmp_path, tell_alone=lambda: told.append(again.shed), execution=object(), has_guard=True)
    monkeypatch.setattr(internals, "next_batch", lambda _: 21)
    monkeypatch.setattr(internals, "uncommitted_batch", lambda _: None)
    answering.replay(again)
    assert told == [first.shed]


# What holds without an answer


@pytest.fixture
def properties(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the tasks of a query can read."""
    found: dict[str, str] = {}
    monkeypatch.setattr(internals, "send_to_tasks", lambda _, key, value: found.update({key: value}))
    monkeypatch.setattr(internals, "execution_of", lambda _: object())
    return found


@pytest.fixture
def plant() -> SparkPlant:
    return SparkPlant(cast("Any", SimpleNamespace()), frozenset({Ability.RECORD}))


def running(plant: SparkPlant) -> WatchedQuery:
    """A query with a guard that is governed."""
    query = SimpleNamespace(id="id-1", runId="run-1", name="q", isActive=True)
    found = plant.watch(cast("Any", query))
    found.has_guard = found.is_governed = True
    return found


def fallback(properties: dict[str, str]) -> Directive:
    return Directive.from_json(properties[FALLBACK_PROPERTY])


@pytest.mark.parametrize("how", ["suspended", "no answer", "introduced", "restored"])
def test_a_batch_without_an_answer_knows_what_was_dropped(
    plant: SparkPlant, properties: dict[str, str], answering: Answering, how: str
) -> None:
    """Whatever is in force then: nothing is applied for now, a decision to keep everything, or nobody to ask."""
    query = running(plant)
    answering._plant = plant
    answering._with_history(query, Directive.from_decision(keep(5, 0.25)))
    plant.apply(keep(5, 0.25))
    time.sleep(0.01)
    if how == "suspended":
        plant.suspend(query.name)
    elif how == "no answer":
        plant.apply(keep(6, 1.0))
    elif how == "introduced":
        answering.introduce(query, ())
    else:
        plant.restore(query.name)
    told = fallback(properties)
    assert (told.everything, told.history.largest_weight(query.shed.moments_s[0])) == (True, 2**1.5)
    assert told.history.largest_weight(time.time() + 1.0) == 1.0


def test_what_was_sent_along_may_have_held_until_something_else_is(
    plant: SparkPlant, properties: dict[str, str]
) -> None:
    """Where batches cannot ask, nobody but their reports says what they kept to, and those come later."""
    running(plant)
    plant.apply(keep(5, 0.25))
    before_s = time.time()
    plant.apply(keep(7, 1.0))
    assert fallback(properties).history.largest_weight(before_s) > 1.0
    plant.apply(keep(8, 0.5))
    plant.apply(keep(9, 1.0))
    assert fallback(properties).history.largest_weight(0.0) > 2.0


def test_a_report_without_an_answer_tells_what_was_dropped(answering: Answering, tmp_path: Path) -> None:
    """It goes into the history and on record, where a later run finds it."""
    query = with_record(tmp_path, is_governed=True, is_told=True, uncommitted_batch=None)
    observed = {"directive": Directive(7, 0.25).to_array(answered=False)}
    progress = {
        "runId": "run-1", "batchId": 7, "timestamp": "2026-01-02T03:04:05.678Z",
        "observedMetrics": {REQUESTED: observed}, "sources": [],
    }  # fmt: skip
    answering.confirm(query, progress)
    assert query.shed.largest_weight(0.0) == 2**1.5
    newest = query.record.read(7)
    assert newest.history == query.shed


def test_a_batch_that_heard_nothing_is_known_to_the_next_one(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was to keep everything, and kept to what was sent along; its report may come after the next one has asked."""
    query = watched()
    answering._with_history(query, Directive.from_decision(keep(6, 1.0)))
    told = Directive(6, 0.25).to_array(answered=False)
    monkeypatch.setattr(directive_task, "told", lambda _, batch_id: told if batch_id == 6 else None)
    found = answering._with_history(query, Directive.from_decision(keep(7, 1.0)))
    assert found.history.largest_weight(0.0) == 2**1.5
