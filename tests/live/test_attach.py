"""Attach, govern, adopt, release, detach: on queries that run."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as fn

import penstock
from live.helpers import (
    actions_of,
    batches_of,
    limit_values,
    limited_rows,
    limits_in_force,
    load_rows,
    wait_for_batches,
    wait_until,
)
from patience import PATIENCE_S
from penstock import Goal, Penstock
from penstock.errors import AlreadyAttachedError, StoreError, UnknownQueryError
from penstock.model import APPLICATION, Action, ActionKind, Metric, Mode, QueryName, RecordedAction
from penstock.model.decision import Decision
from penstock.spark import internals, watched
from penstock.spark.internals import Ability, Member
from penstock.spark.sources import describe_sources
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

Attach = Callable[..., Penstock]
STEADY = "constant:rate=2000,backlog=20000"


def start(rows: DataFrame, name: str | None = None) -> StreamingQuery:
    writer = rows.writeStream.format("noop")
    return (writer if name is None else writer.queryName(name)).start()


# -- observed ----------------------------------------------------------------------------------------------------------


def test_every_query_is_observed(spark: SparkSession, attach: Attach) -> None:
    """Rates, batch time by phase, lag, state and executors of a query without a goal; its read limit never moves."""
    pen = attach(settings={"observe.executors_every_s": 0.5})
    rows = load_rows(spark, STEADY, maxRowsPerBatch="3000").groupBy((fn.col("key") % 50).alias("k")).count()
    query = rows.writeStream.outputMode("complete").format("noop").queryName("observed").start()
    before = limits_in_force(query) if internals.is_planned(internals.execution_of(query)) else None
    name, engine = QueryName("observed"), APPLICATION
    wait_for_batches(query, 4)
    wait_until(lambda: pen.store.points(engine, Metric.EXECUTOR_HEAP_PEAK_BYTES), "point of an executor's heap")
    wait_until(lambda: len(pen.store.points(name, Metric.ARRIVAL_ROWS_PER_S)) >= 3, "third arrival rate")
    done = {batch.batch_id: batch for batch in batches_of(query)}

    def values(metric: Metric, subject: str = "") -> dict[int | None, float]:
        return {p.batch_id: p.value for p in pen.store.points(name, metric) if p.subject == subject}

    recorded = values(Metric.BATCH_ROWS)
    assert recorded[0] == done[0].rows == 3000
    assert done[0].lag_rows is not None
    assert done[1].lag_rows is not None
    assert {batch_id: recorded[batch_id] for batch_id in done if batch_id in recorded} == {
        batch_id: done[batch_id].rows for batch_id in done if batch_id in recorded
    }
    assert values(Metric.BATCH_DURATION_S)[1] == pytest.approx(done[1].duration_s)
    phases = {p.subject for p in pen.store.points(name, Metric.BATCH_DURATION_S)} - {""}
    assert {"addBatch", "latestOffset", "queryPlanning", "walCommit"} <= phases
    assert values(Metric.BATCH_DURATION_S, "addBatch")[1] < done[1].duration_s
    assert values(Metric.LAG_ROWS)[0] == done[0].lag_rows
    assert values(Metric.PROCESSED_ROWS_PER_S)[1] == pytest.approx(done[1].rows / done[1].duration_s)
    arrived_rows = done[1].rows + done[1].lag_rows - done[0].lag_rows
    elapsed_s = done[1].planned_s - done[0].planned_s
    assert values(Metric.ARRIVAL_ROWS_PER_S)[1] == pytest.approx(arrived_rows / elapsed_s)
    assert values(Metric.STATE_ROWS)[0] == 50
    assert values(Metric.STATE_BYTES)[0] > 0

    busy, gc, peak, most = (
        [point.value for point in pen.store.points(engine, metric)]
        for metric in (
            Metric.EXECUTOR_BUSY_FRACTION, Metric.EXECUTOR_GC_FRACTION,
            Metric.EXECUTOR_HEAP_PEAK_BYTES, Metric.EXECUTOR_HEAP_MAX_BYTES,
        )
    )  # fmt: skip
    assert max(busy) > 0
    assert 0 <= max(gc) < 1
    assert 0 < max(peak) <= most[0] <= 1.1 * 2**30
    assert actions_of(pen.store, "observed") == []
    assert limited_rows(query) == [3000]
    assert before in (None, limits_in_force(query))


def test_a_query_that_ran_before_the_attach_is_observed(spark: SparkSession, attach: Attach) -> None:
    """Penstock may come later than the query, and the query may have no name: its id takes the place."""
    query = start(load_rows(spark, STEADY, maxRowsPerBatch="1000"))
    pen = attach()
    wait_until(lambda: pen.store.points(QueryName(str(query.id)), Metric.BATCH_ROWS), "point of the nameless query")
    assert pen.watched(str(query.id)).query.id == query.id


# -- governed ----------------------------------------------------------------------------------------------------------


def test_the_fluent_form_limits_the_first_batch(spark: SparkSession, attach: Attach) -> None:
    """A governed start on a backlog reads no more than the first limit, and records its goal."""
    pen = attach()
    writer = load_rows(spark, "constant:rate=0,backlog=200000").writeStream.format("noop").queryName("fluent")
    query = pen.govern(writer).with_priority(5).with_minimum_accuracy(0.7).with_latency("5 seconds").start()
    done = wait_for_batches(query, 4)
    assert done[0].rows == pen.settings.admission.first_batch_rows == 1000
    govern, first = actions_of(pen.store, "fluent")[:2]
    assert (govern.kind, govern.cause) == (ActionKind.GOVERN, "start")
    assert govern.details["priority"] == 5
    assert govern.details["minimum_accuracy"] == 0.7
    assert govern.details["latency_s"] == 5
    assert (first.kind, first.value, first.unit) == (ActionKind.READ_LIMIT, 1000, "rows")
    wait_until(lambda: len(limit_values(pen.store, "fluent")) > 2, "third limit")
    assert pen.store.points(QueryName("fluent"), Metric.READ_LIMIT_ROWS)


def test_the_fluent_form_names_a_query_without_a_name(spark: SparkSession, attach: Attach) -> None:
    """Options and trigger pass through, and a query without a name gets one under which its goal is kept."""
    pen = attach()
    rows = load_rows(spark, "constant:rate=0,backlog=3000")
    query = (
        pen.govern(rows.writeStream).format("noop").trigger(processingTime="1 second").with_latency(8).with_weight(2)
    ).start()
    assert re.fullmatch(r"query.[0-9a-f]{8}", query.name)
    assert wait_for_batches(query, 2)[0].rows == 1000
    govern = actions_of(pen.store, query.name, ActionKind.GOVERN)[0]
    assert govern.details["weight"] == 2
    assert govern.expected["target_batch_s"] == 8 * pen.settings.admission.batch_share_of_goal


def test_goals_govern_queries_whose_code_stays_as_it_is(spark: SparkSession, attach: Attach) -> None:
    """A goal given by name at attach time holds from the first batch of an unmodified query."""
    pen = attach(goals={"unmodified": Goal(latency="5 seconds")})
    query = start(load_rows(spark, "constant:rate=0,backlog=100000"), "unmodified")
    other = start(load_rows(spark, "constant:rate=0,backlog=70000"), "other")
    assert wait_for_batches(query, 2)[0].rows == 1000
    assert wait_for_batches(other, 1)[0].rows == 70_000
    assert actions_of(pen.store, "other") == []
    assert actions_of(pen.store, "unmodified", ActionKind.GOVERN)[0].cause == "start"


def test_a_goal_without_latency_leaves_admission_alone(spark: SparkSession, attach: Attach) -> None:
    """Priority and accuracy alone do not touch what a query reads."""
    pen = attach(goals={"calm": Goal(priority=9)})
    query = start(load_rows(spark, "constant:rate=0,backlog=50000"), "calm")
    assert wait_for_batches(query, 1)[0].rows == 50_000
    assert [action.kind for action in actions_of(pen.store, "calm")] == [ActionKind.GOVERN]


@pytest.mark.parametrize("how", ["name", "id", "itself", "at attach"])
def test_a_running_query_is_adopted(spark: SparkSession, attach: Attach, how: str) -> None:
    """By name, by id, by the object, or by a goal for a query that runs already; the limit holds soon after."""
    query = start(load_rows(spark, "constant:rate=20000,backlog=20000"), "adopted")
    goal = Goal(latency="4 seconds")
    if how == "at attach":
        wait_for_batches(query, 2)
        pen = attach(goals={"adopted": goal})
    else:
        pen = attach()
        pen.adopt({"name": "adopted", "id": str(query.id), "itself": query}[how], goal)
    govern = actions_of(pen.store, "adopted", ActionKind.GOVERN)
    assert [(action.cause, action.details["latency_s"]) for action in govern] == [("adopt", 4.0)]
    wait_until(lambda: limit_values(pen.store, "adopted"), "limit")
    wait_until(lambda: limited_rows(query), "limit in force")
    run_id, seen = str(query.runId), len(batches_of(query))
    done = wait_for_batches(query, seen + 3)
    assert {batch.run_id for batch in done} == {run_id}
    assert actions_of(pen.store, "adopted", ActionKind.FAULT) == []


OWN_ROWS = 7_654_321
"""A query's own limit, which those of Penstock do not reach in the first batches of a start."""

# -- let go of ---------------------------------------------------------------------------------------------------------


def test_detach_puts_everything_back(spark: SparkSession, attach: Attach) -> None:
    """Own limits as before, no listener, no more records; the query runs on and a second detach does nothing."""
    store = MemoryStore()
    listeners = spark._jsparkSession.streams().listListeners  # type: ignore[attr-defined]
    before = len(listeners())
    pen = attach(store=store, goals={"free": Goal(latency=4)})
    query = start(load_rows(spark, STEADY, maxRowsPerBatch=str(OWN_ROWS)), "free")
    wait_for_batches(query, 3)
    assert limited_rows(query) != [OWN_ROWS]
    assert len(listeners()) == before + 1
    closed_with: list[list[RecordedAction]] = []
    close = store.close
    store.close = lambda: (closed_with.append(store.actions()), close())  # type: ignore[method-assign,func-returns-value,assignment]
    pen.detach()
    assert limited_rows(query) == [OWN_ROWS]
    assert len(listeners()) == before
    assert closed_with[0][-1].action.kind is ActionKind.RELEASE
    seen = len(batches_of(query))
    wait_for_batches(query, seen + 3)
    assert limited_rows(query) == [OWN_ROWS]
    pen.detach()
    assert len(closed_with) == 1
    with pytest.raises(StoreError):
        store.actions()


def test_the_end_of_a_with_block_detaches(spark: SparkSession, stopping: SparkSession) -> None:
    """The hold is a context manager."""
    query = start(load_rows(spark, STEADY), "block")
    with penstock.attach(spark, store=MemoryStore()) as pen:
        pen.adopt("block", Goal(latency=4))
        wait_until(lambda: limited_rows(query), "limit in force")
    assert limited_rows(query) == []


def test_release_gives_back_one_query(spark: SparkSession, attach: Attach) -> None:
    """The released query has its own limit again and stays observed; the other one stays governed."""
    pen = attach(goals={"released": Goal(latency=4), "kept": Goal(latency=4)})
    released = start(load_rows(spark, STEADY, maxRowsPerBatch=str(OWN_ROWS)), "released")
    kept = start(load_rows(spark, STEADY, maxRowsPerBatch=str(OWN_ROWS)), "kept")
    wait_for_batches(released, 2)
    wait_for_batches(kept, 2)
    pen.release("released")
    assert limited_rows(released) == [OWN_ROWS]
    assert limited_rows(kept) != [OWN_ROWS]
    decided = len(actions_of(pen.store, "released"))
    assert actions_of(pen.store, "released")[-1].kind is ActionKind.RELEASE
    points = len(pen.store.points(QueryName("released"), Metric.BATCH_ROWS))
    wait_until(
        lambda: len(pen.store.points(QueryName("released"), Metric.BATCH_ROWS)) > points + 2, "point after release"
    )
    assert len(actions_of(pen.store, "released")) == decided
    assert limited_rows(released) == [OWN_ROWS]


def test_a_query_that_is_adopted_twice_gets_its_own_limit_back(
    spark: SparkSession, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads at once and once more later: what is given back is the query's own limit, and none of Penstock's."""
    query = start(load_rows(spark, STEADY, maxRowsPerBatch=str(OWN_ROWS)), "twice")
    wait_for_batches(query, 1)
    looks: list[object] = []
    second = threading.Event()

    def look(*arguments: Any) -> Any:
        looks.append(None)
        if len(looks) > 1:
            # A second look at what limits the query, and only after the first limit of Penstock is in force.
            second.set()
            for _ in range(100):
                if limited_rows(query) == [OWN_ROWS]:
                    time.sleep(0.05)
        else:
            second.wait(1.0)
        return describe_sources(*arguments)

    monkeypatch.setattr(watched, "describe_sources", look)
    pen = attach()
    threads = [threading.Thread(target=pen.adopt, args=("twice", Goal(latency=4))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    wait_until(lambda: limited_rows(query) != [OWN_ROWS], "limit in force")
    pen.adopt("twice", Goal(latency=5))
    wait_for_batches(query, len(batches_of(query)) + 2)
    assert limited_rows(query) != [OWN_ROWS]
    pen.release("twice")
    assert limited_rows(query) == [OWN_ROWS]
    assert len(looks) == 1
    # Again from the beginning: what is looked at once is not looked at under a limit of Penstock's either.
    pen.adopt("twice", Goal(latency=4))
    wait_until(lambda: limited_rows(query) != [OWN_ROWS], "limit in force again")
    pen.detach()
    assert limited_rows(query) == [OWN_ROWS]
    wait_for_batches(query, len(batches_of(query)) + 2)
    assert limited_rows(query) == [OWN_ROWS]


def test_a_session_that_is_attached_to_again_and_again_keeps_the_limits_of_its_queries(
    spark: SparkSession, attach: Attach
) -> None:
    """A second attach is refused and changes nothing; one after a detach governs, and gives back what was there."""
    query = start(load_rows(spark, STEADY, maxRowsPerBatch=str(OWN_ROWS)), "again and again")
    wait_for_batches(query, 1)
    goals = {"again and again": Goal(latency=4)}
    for _ in range(3):
        pen = attach(goals=goals)
        wait_until(lambda: limited_rows(query) != [OWN_ROWS], "limit in force")
        with pytest.raises(AlreadyAttachedError):
            attach(goals=goals)
        wait_for_batches(query, len(batches_of(query)) + 1)
        assert limited_rows(query) != [OWN_ROWS]
        pen.detach()
        assert limited_rows(query) == [OWN_ROWS]
    wait_for_batches(query, len(batches_of(query)) + 2)
    assert limited_rows(query) == [OWN_ROWS]


@pytest.mark.parametrize("moment", ["before it is recorded", "after it is recorded"])
def test_a_detach_while_a_start_is_recorded_leaves_the_query_its_own_limit(
    spark: SparkSession, attach: Attach, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The hold ends in the middle of the start: what is in force after it is the user's own limit.

    Between the start and the detach, which takes its turn after it, a batch may be planned under the first limit.
    """
    pen = attach(goals={"begun": Goal(latency=4)})
    recording, detaching = threading.Event(), threading.Event()
    record = pen.loop.record

    def slowly(decisions: Sequence[Decision]) -> list[Decision]:
        if not decisions or recording.is_set():
            return record(decisions)
        found = record(decisions) if moment == "after it is recorded" else None
        recording.set()
        # The detach is under way; where it has to wait for the start, the start must not wait for its end.
        detaching.wait(PATIENCE_S)
        time.sleep(0.2)
        return record(decisions) if found is None else found

    def detach() -> None:
        detaching.set()
        pen.detach()

    monkeypatch.setattr(pen.loop, "record", slowly)
    letting_go = threading.Thread(target=lambda: recording.wait(PATIENCE_S) and detach())
    letting_go.start()
    query = start(load_rows(spark, "constant:rate=2000,backlog=20000", maxRowsPerBatch=str(OWN_ROWS)), "begun")
    letting_go.join(PATIENCE_S)
    assert pen.loop.is_closed
    wait_for_batches(query, 3)
    assert limited_rows(query) == [OWN_ROWS]


def test_unknown_queries_are_refused_with_those_that_are_known(spark: SparkSession, attach: Attach) -> None:
    """Adopt, release and watched name the query that was asked for and those that run."""
    pen = attach()
    start(load_rows(spark, STEADY), "known")
    for ask in (lambda: pen.adopt("unknown", Goal()), lambda: pen.release("unknown"), lambda: pen.watched("unknown")):
        with pytest.raises(UnknownQueryError, match="no streaming query named 'unknown'; known queries: known"):
            ask()


# -- observe only ------------------------------------------------------------------------------------------------------


def test_observe_only_decides_and_does_not_act(spark: SparkSession, attach: Attach) -> None:
    """Limits are decided and recorded in mode observe, and the source reads as its user configured it."""
    pen = attach(settings={"observe.only": True}, goals={"watched": Goal(latency=4)})
    query = start(load_rows(spark, STEADY, maxRowsPerBatch="2500"), "watched")
    done = wait_for_batches(query, 4)
    wait_until(lambda: len(limit_values(pen.store, "watched")) >= 2, "second decision")
    assert done[0].rows == 2500
    assert limited_rows(query) == [2500]
    assert {record.mode for record in pen.store.actions()} == {Mode.OBSERVE}
    assert actions_of(pen.store, "watched", ActionKind.UNMANAGED) == []


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def without(ability: Ability) -> tuple[Member, ...]:
    """The members with one more, which no Spark has."""
    classes = next(member.classes for member in internals.MEMBERS if member.ability is ability)
    return (*internals.MEMBERS, Member(ability, classes, "memberOfAnotherVersion"))


def test_a_missing_member_switches_its_ability_off(
    spark: SparkSession, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the setter of read limits this is recorded by name, and the query runs on as its user wrote it."""
    monkeypatch.setattr(internals.members, "MEMBERS", without(Ability.READ_LIMIT))
    pen = attach(goals={"ungoverned": Goal(latency=4)})
    off = actions_of(pen.store, APPLICATION)
    assert [action.kind for action in off] == [ActionKind.ACTUATOR_OFF]
    assert "read limits of running queries is off" in off[0].reason
    assert f"Spark {spark.version} has no" in off[0].reason
    assert "MicroBatchExecution.memberOfAnotherVersion" in off[0].reason
    query = start(load_rows(spark, "constant:rate=2000,backlog=30000"), "ungoverned")
    assert wait_for_batches(query, 3)[0].rows >= 30_000
    assert [action.kind for action in actions_of(pen.store, "ungoverned")] == [ActionKind.UNMANAGED]
    assert limited_rows(query) == []
    wait_until(lambda: pen.store.points(QueryName("ungoverned"), Metric.BATCH_ROWS), "point of the query")


def test_without_the_first_batch_the_second_is_governed(
    spark: SparkSession, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a query cannot be planned early it is governed as if it had been adopted."""
    monkeypatch.setattr(internals.members, "MEMBERS", without(Ability.FIRST_BATCH))
    pen = attach(goals={"late": Goal(latency=4)})
    query = start(load_rows(spark, "constant:rate=5000,backlog=30000"), "late")
    wait_for_batches(query, 3)
    wait_until(lambda: limit_values(pen.store, "late"), "limit")
    wait_until(lambda: limited_rows(query), "limit in force")
    assert actions_of(pen.store, "late", ActionKind.FAULT) == []


def test_other_missing_members_cost_only_what_rests_on_them(
    spark: SparkSession, attach: Attach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without executor totals and writer names the query is governed all the same."""
    monkeypatch.setattr(
        internals.members,
        "MEMBERS",
        (*without(Ability.EXECUTORS), *without(Ability.WRITER_NAME)[len(internals.MEMBERS) :]),
    )
    pen = attach(settings={"observe.executors_every_s": 0.5})
    assert set(pen.missing) == {Ability.EXECUTORS, Ability.WRITER_NAME}
    rows = load_rows(spark, "constant:rate=2000,backlog=30000")
    query = pen.govern(rows.writeStream.format("noop")).with_latency(4).start()
    assert wait_for_batches(query, 3)[0].rows == 1000
    assert pen.store.points(APPLICATION, Metric.EXECUTOR_BUSY_FRACTION) == []


def test_a_controller_that_breaks_lets_the_query_go(spark: SparkSession, attach: Attach) -> None:
    """The fault is recorded, the source has its own limit again, and the query runs on and stays observed."""
    pen = attach(goals={"faulty": Goal(latency=4)})
    query = start(load_rows(spark, STEADY, maxRowsPerBatch="4321"), "faulty")
    wait_for_batches(query, 1)
    logic = pen.loop.logic.query(QueryName("faulty"))
    assert logic is not None

    def broken(_: object, **__: float | None) -> list[Decision]:
        raise ZeroDivisionError("a fault\nin two lines")

    logic.on_batch = broken  # type: ignore[method-assign]
    wait_until(lambda: actions_of(pen.store, "faulty", ActionKind.FAULT), "fault on record")
    assert limited_rows(query) == [4321]
    fault = actions_of(pen.store, "faulty", ActionKind.FAULT)[0]
    assert fault.cause.startswith("batch ")
    assert fault.reason == "ZeroDivisionError: a fault; the query runs on as if Penstock were not there"
    points = len(pen.store.points(QueryName("faulty"), Metric.BATCH_ROWS))
    wait_for_batches(query, len(batches_of(query)) + 3)
    wait_until(lambda: len(pen.store.points(QueryName("faulty"), Metric.BATCH_ROWS)) > points, "point after the fault")
    assert len(actions_of(pen.store, "faulty", ActionKind.FAULT)) == 1
    assert limited_rows(query) == [4321]


class FullStore(MemoryStore):
    """A store whose disk is full from some moment on."""

    is_full = False

    def append_all(self, actions: Sequence[Action], *, time_s: float, mode: Mode) -> list[RecordedAction]:
        """Refuse once full."""
        if self.is_full:
            raise StoreError("the disk is full")
        return super().append_all(actions, time_s=time_s, mode=mode)


def test_a_store_that_fails_lets_the_query_go_until_it_works_again(spark: SparkSession, attach: Attach) -> None:
    """Nothing is carried out that cannot be recorded: the query runs on with its own limit, and is governed again."""
    store = FullStore()
    settings = {"store.patience_s": 0.5, "observe.reports_every_s": 0.2}
    goals = {"unrecorded": Goal(latency=4), "bystander": Goal(latency=4)}
    pen = attach(store=store, goals=goals, settings=settings)
    # Its own limit is more than fits into any batch, so that a limit of Penstock's is never the same.
    query = start(load_rows(spark, "constant:rate=2000,backlog=4000000", maxRowsPerBatch="43210000"), "unrecorded")
    bystander = start(load_rows(spark, "constant:rate=0,backlog=5000", maxRowsPerBatch="4321"), "bystander")
    wait_for_batches(query, 1)
    store.is_full = True
    wait_until(lambda: limited_rows(query) == [43210000], "own limit of the query")
    decided = len(limit_values(store, "unrecorded"))
    wait_for_batches(query, len(batches_of(query)) + 3)
    assert limited_rows(query) == [43210000]
    assert len(limit_values(store, "unrecorded")) == decided
    store.is_full = False
    wait_until(lambda: limited_rows(query) not in ([43210000], []), "limit of the query once there is room again")
    assert any("could not be written" in fault.reason for fault in actions_of(store, "", ActionKind.FAULT))
    pen.detach()
    assert limited_rows(query) == [43210000]
    assert limited_rows(bystander) == [4321]


def test_a_query_that_dies_of_itself_is_forgotten(spark: SparkSession, attach: Attach) -> None:
    """The error stays the query's own; Penstock lets go of it, and the name may be used again."""
    pen = attach(goals={"mortal": Goal(latency=4)})
    rows = load_rows(spark, STEADY).select(fn.assert_true(fn.col("offset") < 1500, fn.lit("no row beyond 1500")))
    query = start(rows, "mortal")
    wait_until(query.exception, "end of the query")
    assert "no row beyond 1500" in str(query.exception())
    wait_until(lambda: _is_forgotten(pen, "mortal"), "end of the watch")
    again = start(load_rows(spark, "constant:rate=0,backlog=50000"), "mortal")
    wait_for_batches(again, 1)
    assert limited_rows(again)
    assert len(actions_of(pen.store, "mortal", ActionKind.GOVERN)) == 2


def test_a_restart_from_the_checkpoint_is_governed_again(spark: SparkSession, attach: Attach, tmp_path: Path) -> None:
    """The same id runs again at once: each run has a first limit of its own, and batch ids go on."""
    pen = attach(goals={"again": Goal(latency=4)})
    rows = load_rows(spark, "constant:rate=0,backlog=900000")
    writer = rows.writeStream.format("noop").queryName("again").option("checkpointLocation", str(tmp_path))
    next_id = 0
    for run in range(1, 4):
        # A batch that the last run had planned already runs again with the rows it was planned with.
        is_planned = (tmp_path / "offsets" / str(next_id)).exists()
        query = writer.start()
        done = wait_for_batches(query, 2)
        query.stop()
        first_limits = [
            action.value for action in actions_of(pen.store, "again", ActionKind.READ_LIMIT) if action.cause == "start"
        ]
        assert len(first_limits) == len(actions_of(pen.store, "again", ActionKind.GOVERN)) == run
        assert done[0].batch_id == next_id
        assert is_planned or done[0].rows == first_limits[-1]
        next_id = 1 + max(int(path.name) for path in (tmp_path / "commits").iterdir() if path.name.isdigit())
    assert actions_of(pen.store, "again", ActionKind.FAULT) == []


def test_a_limit_ends_with_the_run_that_it_was_decided_for(spark: SparkSession, attach: Attach) -> None:
    """Of two sources, then of one, then with no goal any more: no run has a limit that was decided for another."""
    pen = attach(goals={"thrice": Goal(latency=4)}, settings={"observe.reports_every_s": 0.1})
    one, other = (load_rows(spark, STEADY).where(fn.col("offset") >= least) for least in (0, 1))
    for rows, limits in ((one.union(other), 2), (one, 1), (one, 0)):
        if not limits:
            pen.expect("thrice", None)
        query = start(rows, "thrice")
        wait_for_batches(query, 2)
        assert len(limited_rows(query)) == limits
        query.stop()
    wait_until(lambda: pen.loop.logic.governed == (), "end of what was decided")
    assert [record.action.reason for record in pen.store.actions(kinds=(ActionKind.FAULT,))] == []


def _is_forgotten(pen: Penstock, name: str) -> bool:
    try:
        pen.watched(name)
    except UnknownQueryError:
        return True
    return False
