"""When there is room to repay, and that one batch at a time is."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import InvalidMomentError, RepayError, StoreError
from penstock.model import Application, Mode, QueryName
from penstock.model.application import REPAY_NEVER, REPAY_WHEN_IDLE, QueryDeclaration
from penstock.model.decision import ActuatorOff, Decision, Repayment
from penstock.model.directive import Directive
from penstock.model.goal import MAX_PRIORITY, MIN_PRIORITY
from penstock.settings import Settings
from penstock.spark import internals
from penstock.spark.attach import Penstock
from penstock.spark.folders import open_folder
from penstock.spark.idle_repay import FIRST_PAUSE_S, LONGEST_PAUSE_S, POOL, IdleRepayer, cannot_get_better, has_room
from penstock.spark.pools import pool_of
from penstock.spark.record import BatchRecord, CheckpointRecord, RepaidState, SourceRange
from penstock.spark.repay import OwedBatch, Repay, RepayState, checkpoint_of
from penstock.spark.repay_sources import Remains
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

    def debt(self) -> tuple[list[OwedBatch], list[OwedBatch]]:
        """What is left, all of which can be repaid."""
        self.asked += 1
        if self.error is not None:
            raise self.error
        return [OwedBatch(number, 0.0, RepayState.OWED, 0.5) for number in range(self.left)], []

    def run_batch(self, batch_id: int, _: object) -> None:
        """Repay one."""
        assert batch_id == 0
        if self.may_end is not None:
            self.may_end.wait(10.0)
        self.left -= 1


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


def repayer(
    clock: Clock | None = None, told: list[Decision] | None = None, properties: list[tuple[str, str]] | None = None
) -> IdleRepayer:
    pools, words = [] if properties is None else properties, [] if told is None else told
    context = SimpleNamespace(setLocalProperty=lambda *found: pools.append(found))
    return IdleRepayer(cast("Any", SimpleNamespace(sparkContext=context)), words.extend, clock=clock or Clock())


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


class Retention:
    """A source that has lost all or half of what some batches read, 100 rows each."""

    def __init__(self, lost: dict[int, int]) -> None:
        self.lost = lost

    def remains(self, found: SourceRange) -> Remains:
        """What is there of a batch, which starts at a hundred times its number."""
        gone = self.lost.get(found.start["row"] // 100, 0)
        return Remains(100 - gone, gone, "rows")


def test_a_lost_batch_does_not_keep_the_others_from_being_repaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What retention has taken is told of once and put on record; all else is repaid, and asked for it is refused."""
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "5").touch()
    record = CheckpointRecord(open_folder(str(tmp_path / "penstock")))
    for number in range(6):
        ranges = (SourceRange({"row": 100 * number}, {"row": 100 * number + 100}),)
        record.put(BatchRecord(Directive(number, 0.25), 10.0 + number, ranges if number != 4 else ()))
    source, done, told = Retention({0: 100, 1: 40}), list[int](), list[Decision]()
    monkeypatch.setattr(Repay, "_source", lambda *_: source)
    monkeypatch.setattr(Repay, "frame_of", lambda *_: SimpleNamespace(coalesce=lambda _: "rows"))

    def opened() -> Repay:
        return Repay(cast("Any", None), str(tmp_path))

    work = repayer(told=told)
    work.take_on(QueryName("clicks"), opened, lambda _, number: done.append(number))
    for _ in range(5):
        work.look()
        finish(work)
        if done == [2]:
            source.lost[3] = 100
    assert done == [2, 5], "the third is lost as well before it could be repaid"
    lost, unclear, second, late, fifth = told
    for decision in told:
        assert isinstance(decision, Repayment)
    assert (lost.target, lost.value, lost.unit) == ("2 batches, 0 to 1", 140.0, "rows")
    assert "the source has lost 140 of the 200 rows of it" in lost.reason
    assert (unclear.target, unclear.reason) == ("batch 4", "what was kept is not known")
    assert (second.target, second.value) == ("batch 2", 100.0)
    assert "told to keep 0.25 of its rows" in second.reason
    assert (late.target, fifth.target) == ("batch 3", "batch 5")
    assert [each.is_repaid for each in told if isinstance(each, Repayment)] == [False, False, True, False, True]
    lines = [line.getMessage() for line in caplog.records]
    assert [line.split(" cannot be repaid: ")[0] for line in lines] == [
        f"what query clicks dropped in {which}" for which in ("2 batches, 0 to 1", "batch 4", "batch 3")
    ]
    assert record.marks() == {2: RepaidState.DONE, 5: RepaidState.DONE}
    with pytest.raises(RepayError, match="4 of 6 batches cannot be repaid in full, the first is batch 0"):
        opened().run(lambda *_: None)


def test_what_was_done_is_done_though_it_cannot_be_recorded(caplog: pytest.LogCaptureFixture) -> None:
    """A store that fails is no failure of the repayment: the next batch is repaid at once."""

    def refuse(_: object) -> None:
        raise StoreError("another program holds it")

    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    work, owing = IdleRepayer(cast("Any", SimpleNamespace(sparkContext=context)), refuse, clock=Clock()), Owing(2)
    take_on(work, "clicks", owing)
    for _ in range(2):
        work.look()
        finish(work)
    assert owing.left == 0
    assert [line.getMessage() for line in caplog.records] == 2 * [
        "what became of the rows that query clicks dropped could not be recorded"
    ]


def test_a_declared_query_without_a_function_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """It is said with the remedy and put on record; a function that is given right after the start prevents it."""
    told: list[Decision] = []
    work, names = repayer(told=told), [QueryName("clicks"), QueryName("views")]
    work.miss(names)
    take_on(work, "views", Owing(0))
    assert not told
    for _ in range(3):
        work.miss(names)
    (word,) = told
    assert isinstance(word, ActuatorOff)
    assert word.query == "clicks"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == word.reason
    assert "declared with repay = 'when idle'" in line
    assert "pen.on_repay('clicks', function)" in line


@pytest.mark.parametrize(("mode", "looks"), [(Mode.ACT, 1), (Mode.OBSERVE, 0)])
def test_a_cycle_looks_for_what_is_owed_unless_it_only_observes(mode: Mode, looks: int) -> None:
    """With room it looks once, where decisions are applied; of queries to be repaid it asks for those that started."""
    looked: list[bool] = []
    missed: list[str] = []
    declared = {"clicks": REPAY_WHEN_IDLE, "later": REPAY_WHEN_IDLE, "views": REPAY_NEVER}
    queries = {QueryName(name): QueryDeclaration(repay=repay) for name, repay in declared.items()}
    logic = SimpleNamespace(application=Application(queries), governed=(), query=None, scaling=None)
    pen = SimpleNamespace(
        mode=mode,
        loop=SimpleNamespace(logic=logic),
        events=SimpleNamespace(look=lambda: None, started_names={"clicks", "views"}),
        settings=Settings(),
        _idle_repay=SimpleNamespace(look=lambda: looked.append(True), miss=missed.extend),
        _learned=SimpleNamespace(write_when_due=lambda *_: None),
        _deleted_s=math.inf,
        _file=None,
    )
    assert Penstock._look_around(cast("Any", pen)) == ()
    assert (len(looked), missed) == (looks, ["clicks"])


def test_what_is_repaid_waits_for_batches() -> None:
    """Its jobs are in a own pool, behind those of governed queries: of equal ones the first by name goes first."""
    properties: list[tuple[str, str]] = []
    work = repayer(properties=properties)
    take_on(work, "clicks", Owing(1))
    work.look()
    finish(work)
    assert properties == [(internals.POOL_PROPERTY, POOL)]
    assert all(pool_of(priority) < POOL for priority in range(MIN_PRIORITY, MAX_PRIORITY + 1))
