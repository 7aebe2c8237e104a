"""When there is room to repay, and that one batch at a time is."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import InvalidMomentError, RepayError, StoreError
from penstock.model import QueryName
from penstock.model.directive import Directive
from penstock.spark.folders import open_folder
from penstock.spark.idle_repay import FIRST_PAUSE_S, LONGEST_PAUSE_S, IdleRepayer, cannot_get_better, has_room
from penstock.spark.record import BatchRecord, CheckpointRecord, SourceRange
from penstock.spark.repay import Repay, checkpoint_of
from penstock.store import MemoryStore


def query(*, arrival: float | None = 1000.0, cost_s: float = 1e-4, is_short: bool = False, batches: int = 9) -> Any:
    model = SimpleNamespace(read_cost_s=cost_s / 4, work_cost_s=cost_s * 3 / 4, batches=batches)
    return SimpleNamespace(arrival_rows_per_s=arrival, batch_time=model, is_short=is_short)


def test_room_is_what_all_queries_leave_together() -> None:
    """A tenth and four tenths of the time leave half; more than that, or one query that is short, leaves none."""
    assert has_room([], 0.5)
    assert has_room([query(), query(arrival=3999.0)], 0.5)
    assert not has_room([query(), query(arrival=4500.0)], 0.5)
    assert not has_room([query(is_short=True)], 0.5)


def test_nothing_known_is_no_room() -> None:
    """A query whose arrivals or costs are not known may need everything."""
    assert not has_room([query(arrival=None)], 0.5)
    assert not has_room([query(batches=0)], 0.5)


class Owing:
    """What a query owes, in batches; a batch waits until it may end."""

    def __init__(self, batches: int, may_end: threading.Event | None = None, *, error: Exception | None = None) -> None:
        self.left, self.may_end, self.error = batches, may_end, error
        self.asked = 0

    def run(self, _: object, *, most: int) -> int:
        """Repay no more than so many."""
        self.asked += 1
        if self.error is not None:
            raise self.error
        if self.may_end is not None:
            self.may_end.wait(10.0)
        done = min(self.left, most)
        self.left -= done
        return done


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


def repayer(clock: Clock | None = None) -> IdleRepayer:
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    return IdleRepayer(cast("Any", SimpleNamespace(sparkContext=context)), clock=clock or Clock())


def take_on(work: IdleRepayer, name: str, owing: Owing) -> None:
    work.take_on(QueryName(name), lambda: cast("Any", owing), lambda *_: None)


def finish(work: IdleRepayer) -> None:
    thread = work._thread
    assert thread is not None
    thread.join(10.0)
    assert not thread.is_alive()


def test_one_batch_at_a_time() -> None:
    """A look while a batch is being repaid begins no other; the next look after it does."""
    may_end = threading.Event()
    owing, work = Owing(2, may_end), repayer()
    work.take_on(QueryName("clicks"), lambda: cast("Any", owing), lambda *_: None)
    for _ in range(3):
        work.look()
    may_end.set()
    finish(work)
    assert (owing.asked, owing.left) == (1, 1)
    work.look()
    finish(work)
    assert (owing.asked, owing.left) == (2, 0)


def test_what_cannot_get_better_is_tried_once_and_hinders_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A query whose rows were drawn by chance is left alone after one word; the next one is repaid."""
    clock = Clock()
    bad, good, work = Owing(1, error=RepayError("its rows were drawn by chance")), Owing(1), repayer(clock)
    take_on(work, "bad", bad)
    take_on(work, "good", good)
    for _ in range(3):
        work.look()
        finish(work)
        clock.now_s += 2 * LONGEST_PAUSE_S
    assert (bad.asked, good.left) == (1, 0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("what query bad dropped cannot be repaid, and it is not tried again: RepayError: its rows")
    work.close()


@pytest.mark.parametrize(
    "error",
    [OSError("no route to host"), StoreError("another program holds it"), RepayError("not yet", may_pass=True)],
    ids=lambda error: type(error).__name__,
)
def test_what_may_get_better_is_tried_again_after_a_growing_pause(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Each failure doubles the pause up to an hour, names the fault, and hinders no other query; then it is repaid."""
    clock = Clock()
    owing, good, work = Owing(1, error=error), Owing(99), repayer(clock)
    take_on(work, "clicks", owing)
    take_on(work, "good", good)
    pause_s, pauses_s = FIRST_PAUSE_S, []
    for failure in range(1, 12):
        work.look()
        finish(work)
        assert (owing.asked, good.left) == (failure, 99 - 2 * failure + 1)
        clock.now_s += pause_s * 0.99
        work.look()
        finish(work)
        assert owing.asked == failure, "it is left alone for the whole pause"
        clock.now_s += pause_s * 0.011
        pauses_s.append(pause_s)
        pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
    assert pauses_s[:3] == [10.0, 20.0, 40.0]
    assert pauses_s[-1] == LONGEST_PAUSE_S
    lines = [record.getMessage() for record in caplog.records]
    what = f"{type(error).__name__}: {error}"
    assert lines[1] == f"what query clicks dropped could not be repaid, and is tried again in 20 s: {what}"
    assert len(lines) == 11
    assert [record.exc_info is not None for record in caplog.records] == [True] + 10 * [False]

    owing.error = None
    work.look()
    finish(work)
    assert owing.left == 0
    owing.error = error
    clock.now_s += 1.0
    work.look()
    finish(work)
    assert caplog.records[-1].getMessage().endswith(f"is tried again in {FIRST_PAUSE_S:g} s: {what}"), "it begins anew"


def test_nothing_is_begun_while_everything_waits() -> None:
    """A look within the pause of the only query makes no thread."""
    owing, work = Owing(1, error=OSError("no route to host")), repayer()
    take_on(work, "clicks", owing)
    work.look()
    finish(work)
    thread = work._thread
    work.look()
    assert work._thread is thread


def test_what_is_given_anew_is_tried_at_once() -> None:
    """Whoever mends the function and gives it again neither waits for the pause nor is dropped for the old one."""
    refused, meanwhile, again, work = Owing(1, error=RepayError("no")), Owing(1), Owing(1), repayer()

    def open_and_replace() -> Any:
        take_on(work, "clicks", meanwhile)
        return refused

    work.take_on(QueryName("clicks"), open_and_replace, lambda *_: None)
    work.look()
    finish(work)
    work.look()
    finish(work)
    assert (refused.asked, meanwhile.left) == (1, 0)
    take_on(work, "clicks", Owing(1, error=OSError("no route to host")))
    work.look()
    finish(work)
    take_on(work, "clicks", again)
    work.look()
    finish(work)
    assert again.left == 0


def test_what_is_not_known_yet_may_be_later() -> None:
    """A query that has not started has told nobody of its checkpoint: that is no reason to give it up."""
    with pytest.raises(RepayError) as refusal:
        checkpoint_of(MemoryStore(), "clicks")
    assert not cannot_get_better(refusal.value)
    assert cannot_get_better(InvalidMomentError("when?"))


def test_a_batch_whose_report_has_not_come_is_waited_for(tmp_path: Path) -> None:
    """It is unclear what it kept to until then; one that never can be repaid beside it is a refusal for good."""
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "8").touch()
    record = CheckpointRecord(open_folder(str(tmp_path / "penstock")))
    record.put(BatchRecord(Directive(8, 0.5), 10.0))
    with pytest.raises(RepayError, match="is unclear") as refusal:
        Repay(cast("Any", None), str(tmp_path)).run(lambda *_: None)
    assert not cannot_get_better(refusal.value)
    record.put(BatchRecord(Directive(7, 0.5), 9.0, (SourceRange(None, {"row": 5}),), "no such guard"))
    with pytest.raises(RepayError, match="no guard on record") as refusal:
        Repay(cast("Any", None), str(tmp_path)).run(lambda *_: None)
    assert cannot_get_better(refusal.value)
