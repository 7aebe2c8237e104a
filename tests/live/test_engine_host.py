"""The queries of an engine on live Spark: started from modules, in pools of their own, reported, stopped, fenced."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from live.helpers import actions_of, wait_until
from penstock.engine.host import EngineHost
from penstock.engine.modules import ApplicationModules
from penstock.engine.ownership import Owner, claim, read_owner
from penstock.errors import CheckpointOwnerError, FleetError, ModuleRefusedError, UnknownQueryError
from penstock.model import ActionKind, Goal
from penstock.model.engine_report import QueryRun, RunState
from penstock.spark.folders import LocalFolder
from penstock.spark.pools import pool_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from penstock import Penstock

pytestmark = [pytest.mark.live, pytest.mark.timeout(450)]

MODULES = Path(__file__).parent / "fleet_modules"


class Hosted:
    """A host on the session of the tests."""

    def __init__(self, spark: SparkSession, pen: Penstock, place: Path) -> None:
        modules = ApplicationModules([MODULES], setting="modules of [engines.left]")
        modules.open()
        self.spark, self.pen, self.place = spark, pen, place
        self.host = EngineHost("left", spark, pen, modules)

    def run(self, query: str = "rows", **changes: Any) -> QueryRun:
        """A run of a query that reads a thousand rows a second."""
        options = {"profile": "constant:rate=1000", "epoch": 0, "out": str(self.place / f"{query}-out")}
        checkpoint = str(self.place / f"{query}-checkpoint")
        return replace(QueryRun("counting", query, "counting.queries:offsets", checkpoint, 1, options, 10.0), **changes)

    def folder(self, query: str = "rows") -> LocalFolder:
        """What Penstock keeps beside its checkpoint."""
        return LocalFolder(self.place / f"{query}-checkpoint" / "penstock")


@pytest.fixture
def hosted(stopping: SparkSession, attach: Callable[..., Penstock], tmp_path: Path) -> Iterator[Hosted]:
    before = list(sys.path)
    made = Hosted(stopping, attach(), tmp_path)
    yield made
    made.host.stop_all()
    sys.path[:] = before


def test_a_query_runs_in_its_pool_is_governed_reported_and_stopped(hosted: Hosted) -> None:
    """It has the pool of its priority, a goal, an owner beside its checkpoint, figures; stopped, it stays so."""
    host, run = hosted.host, hosted.run()
    host.prepare(run)
    host.start(run)
    wait_until(
        lambda: host.report_of("rows").batches >= 3 and host.report_of("rows").core_s > 0, "batches with figures"
    )
    report = host.report_of("rows")
    assert (report.state, report.number, report.error) == (RunState.RUNNING, 1, None)
    assert report.rows == sum(report.source_rows) > 0
    assert report.kept_rows == report.rows
    assert report.first_batch_s is not None
    assert pools_of(hosted.spark) >= {pool_of(run.priority)}
    assert actions_of(hosted.pen.store, "rows", ActionKind.GOVERN)[0].details["latency_s"] == 10.0
    assert read_owner(hosted.folder()) == Owner("counting", "rows", "left", 1)
    assert host.start(run).number == 1, "the same run again is no second one"
    stopped = host.stop("rows")
    assert stopped.state is RunState.STOPPED
    assert [query.name for query in hosted.spark.streams.active] == []
    # What is learned of the last batch may be on record a moment after the query has ended; all else stays as it was.
    latest = ("arrival_rows_per_s", "backlog_rows", "latency_s")
    again = host.stop("rows")
    assert replace(again, **{name: getattr(stopped, name) for name in latest}) == stopped


def pools_of(spark: SparkSession) -> set[str]:
    """Pools that stages of the session ran in."""
    store = spark._jsparkSession.sparkContext().statusStore()
    jobs = store.jobsList(None)
    stages = [jobs.apply(job).stageIds() for job in range(jobs.size())]
    ids = {ids.apply(index) for ids in stages for index in range(ids.size())}
    return {str(store.lastStageAttempt(each).schedulingPool()) for each in ids}


def test_goals_and_bounds_hold_on_a_running_query(hosted: Hosted) -> None:
    """Another goal is recorded with who asked; bounds reach the logic that answers batches."""
    host = hosted.host
    host.start(hosted.run())
    host.set_goal("rows", Goal("20 seconds", priority=7), asked_by="on-call")
    host.set_keep_bounds("rows", 0.25, 0.5)
    govern = actions_of(hosted.pen.store, "rows", ActionKind.GOVERN)[-1]
    assert (govern.cause, govern.details["priority"]) == ("asked by on-call", 7)
    report = host.report_of("rows")
    assert (report.keep_low, report.keep_high) == (0.25, 0.5)


def test_mistakes_are_told_and_leave_others_alone(hosted: Hosted) -> None:
    """A module that does not import, a function that gives no query, a name nobody knows: others run on."""
    host = hosted.host
    host.start(hosted.run())
    with pytest.raises(ModuleRefusedError, match=r"'broken' .* does not import .*no_such_package_anywhere"):
        host.start(hosted.run("torn", entry="broken:run"))
    with pytest.raises(FleetError, match="gave a int for 'none': it must give a DataStreamWriter"):
        host.start(hosted.run("none", entry="counting.queries:nothing"))
    with pytest.raises(FleetError, match=r"gave no query for 'poor' .KeyError"):
        host.prepare(hosted.run("poor", options={}))
    with pytest.raises(ModuleRefusedError, match="add its directory to modules of"):
        host.prepare(hosted.run("far", entry="os:getcwd"))
    with pytest.raises(UnknownQueryError, match="known queries"):
        host.stop("nobody")
    with pytest.raises(FleetError, match="runs query 'rows' already, as run 1: stop it first"):
        host.start(hosted.run(number=2))
    assert host.report_of("torn").state is RunState.FAILED
    assert "does not import" in (host.report_of("torn").error or "")
    assert host.report_of("rows").state is RunState.RUNNING


def test_a_checkpoint_of_another_query_is_refused_before_anything_is_touched(hosted: Hosted) -> None:
    """A query that is given somebody else's checkpoint is told whose it is, and the owner stays."""
    host = hosted.host
    host.start(hosted.run())
    taken = hosted.run("thief", checkpoint=hosted.run().checkpoint, number=9)
    for action in (host.prepare, host.start):
        with pytest.raises(CheckpointOwnerError, match="belongs to query 'rows' of application 'counting'"):
            action(taken)
    assert read_owner(hosted.folder()) == Owner("counting", "rows", "left", 1)
    assert host.report_of("rows").state is RunState.RUNNING


def test_a_run_that_was_replaced_ends_by_itself(hosted: Hosted) -> None:
    """Where a later run has taken the checkpoint over, the earlier one ends at the next look, and may not return."""
    host, run = hosted.host, hosted.run()
    host.start(run)
    claim(hosted.folder(), Owner("counting", "rows", "right", 2), run.checkpoint)
    host.look()
    report = host.report_of("rows")
    assert (report.state, report.error) == (RunState.FAILED, "run 2 on engine 'right' has its checkpoint")
    assert [query.name for query in hosted.spark.streams.active] == []
    with pytest.raises(CheckpointOwnerError, match="comes too late"):
        host.start(run)


def test_a_query_that_dies_is_reported_with_its_error(hosted: Hosted) -> None:
    """The engine notices a query that ended by itself, and says why in one line."""
    host = hosted.host
    host.start(hosted.run(options={**hosted.run().options, "profile": "constant:rate=10", "fail": True}))

    def failed() -> bool:
        host.look()
        return host.report_of("rows").state is RunState.FAILED

    wait_until(failed, "failure of the query")
    assert "\n" not in (host.report_of("rows").error or "\n")
