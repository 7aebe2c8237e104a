"""Shedding and scaling together on a recorded load, through the logic and the loop that run live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.application import ApplicationLogic
from penstock.control.events import WarmStart
from penstock.estimate.batch_time import BatchTimeModel
from penstock.loop import Loop
from penstock.model import (
    ActionKind,
    Application,
    ExecutorBounds,
    ExecutorsDeclaration,
    Goal,
    Mode,
    QueryDeclaration,
    QueryName,
)
from penstock.settings import Settings
from penstock.sim.counting_store import CountingStore
from penstock.sim.engine import SimulatedEngine
from penstock.sim.parallel import run_all
from penstock.sim.rate_traces import RateTrace, scaled_to
from penstock.sim.replay import ReplaySettings, Row, clairvoyant_plan
from penstock.sim.simulated_executors import SimulatedExecutors
from penstock.sim.simulated_query import SimulatedQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from penstock.sim.calibration import Calibration

QUERY = QueryName("trace")
JOINED, SCALING, SHEDDING, PEAK = "shedding and scaling", "scaling alone", "shedding alone", "static peak"
WAYS = (JOINED, SCALING, SHEDDING, PEAK)
_CALM_CYCLE_S = 60.0
_DOUBT = 0.25
_FIRST_BATCH_PART = 0.3
_READ_PART = 0.1
"""Reading a row is a tenth of its cost, kept or not."""


@dataclass(frozen=True, slots=True)
class JointRun:
    """What came of one way to meet one load."""

    way: str
    offered_rows: float
    kept_rows: float
    late_rows: float
    executor_s: float
    rescales: int
    batches: int
    duration_s: float

    @property
    def accuracy(self) -> float:
        """Kept over offered rows."""
        return self.kept_rows / self.offered_rows if self.offered_rows else 1.0

    @property
    def late_share(self) -> float:
        """Part of the kept rows that were out later than the goal."""
        return self.late_rows / self.kept_rows if self.kept_rows else 0.0

    @property
    def mean_executors(self) -> float:
        """Executors that were paid for, on average."""
        return self.executor_s / self.duration_s


def run_jointly(
    rates: NDArray[np.float64],
    calibration: Calibration,
    settings: ReplaySettings,
    *,
    minimum_accuracy: float,
    bounds: ExecutorBounds,
    policy: str = "proactive",
    way: str = JOINED,
) -> JointRun:
    """Replay a load with a logic of its own.

    Rows are dropped down to the minimum accuracy; at one there is no guard. Executors stay as they are where the bounds
    leave no choice. The query ran before, so that it is roughly known what a row costs. Rows that still wait at the
    end, and are over the goal by then, count as late.

    Examples
    --------
    Ten minutes of twice what one executor does:

    >>> import numpy as np
    >>> from penstock.sim.calibration import Calibration
    >>> run = run_jointly(
    ...     np.full(600, 2_000.0), Calibration(), ReplaySettings(), minimum_accuracy=0.1, bounds=ExecutorBounds(1, 1)
    ... )
    >>> 0.35 < run.accuracy < 0.5, run.late_share < 0.05, run.executor_s
    (True, True, 600.0)
    """
    has_guard = minimum_accuracy < 1.0
    goal = Goal(latency=calibration.goal_s, minimum_accuracy=minimum_accuracy)
    is_fixed = bounds.min_executors == bounds.max_executors
    application = Application(
        {QUERY: QueryDeclaration(goal)}, None if is_fixed else ExecutorsDeclaration(bounds, policy)
    )
    numbers = Settings().with_values(
        {
            "scaling.interval_s": float(settings.interval_s),
            "scaling.start_s": calibration.start_s,
        }
    )
    query = SimulatedQuery(
        rates,
        overhead_s=calibration.overhead_s,
        cost_per_row_s=1.0 / calibration.rows_per_s,
        read_part=_READ_PART,
        noise=calibration.noise,
        seed=settings.seed,
        trigger_interval_s=calibration.trigger_s,
        has_guard=has_guard,
    )
    executors = SimulatedExecutors(first=bounds.first, start_s=calibration.start_s)
    engine = SimulatedEngine(
        {QUERY: query},
        executors=executors,
        cycle_every_s=_CALM_CYCLE_S if is_fixed else calibration.trigger_s or 1.0,
        keeps_batches=False,
    )
    logic = ApplicationLogic(application, numbers, cores=float(bounds.first))
    store = CountingStore()
    loop = Loop(logic, engine, store, mode=Mode.ACT, clock=engine.clock)
    engine.connect(loop, {QUERY: goal}, warm_starts={QUERY: _warm_start(calibration, bounds.first)})
    duration_s = float(rates.size)
    engine.run_until(duration_s)
    run = engine.queries[QUERY]
    overdue = max(0.0, run.source.total(duration_s - calibration.goal_s) - run.taken_rows)
    return JointRun(
        way,
        offered_rows=run.offered_rows + overdue,
        kept_rows=run.kept_rows + overdue,
        late_rows=run.late_kept_rows + overdue,
        executor_s=engine.executor_s,
        rescales=store.counts[ActionKind.EXECUTORS],
        batches=run.batch_id,
        duration_s=duration_s,
    )


def _warm_start(calibration: Calibration, executors: int) -> WarmStart:
    """What an earlier run of the query on so many executors would have taught."""
    row_s = 1.0 / (calibration.rows_per_s * executors)
    learned = BatchTimeModel.recalled(
        overhead_s=calibration.overhead_s,
        read_cost_s=_READ_PART * row_s,
        work_cost_s=(1.0 - _READ_PART) * row_s,
        doubt=_DOUBT,
    )
    first_rows = round(_FIRST_BATCH_PART * calibration.goal_s / row_s)
    return WarmStart(first_rows=max(1, first_rows), batch_time=learned)


@dataclass(frozen=True, slots=True)
class JointJob:
    """One trace and everything that its replay depends on."""

    trace: RateTrace
    calibration: Calibration
    settings: ReplaySettings
    minimum_accuracy: float
    policy: str = "proactive"


def replay_jointly(job: JointJob) -> list[Row]:
    """One row a way: both tiers, each of them alone, and the peak's executors all the time.

    Shedding alone has as many executors as both tiers together used on average.
    """
    calibration, settings = job.calibration, job.settings
    rates = scaled_to(
        job.trace, calibration, peak_executors=settings.peak_executors, window_s=settings.interval_s, seed=settings.seed
    ).rates
    plan, best = clairvoyant_plan(rates, calibration, settings)
    elastic = ExecutorBounds(max_executors=settings.most, first_executors=int(plan[0]))
    runs = [
        run_jointly(rates, calibration, settings, minimum_accuracy=accuracy, bounds=elastic, policy=job.policy, way=way)
        for way, accuracy in ((JOINED, job.minimum_accuracy), (SCALING, 1.0))
    ]
    fixed = max(1, round(runs[0].mean_executors))
    peak = int(plan.max())
    runs += [
        run_jointly(rates, calibration, settings, minimum_accuracy=accuracy, bounds=ExecutorBounds(size, size), way=way)
        for way, accuracy, size in ((SHEDDING, job.minimum_accuracy, fixed), (PEAK, 1.0, peak))
    ]
    best_hours = best.paid_executor_s / 3600.0
    return [_row(job.trace, run, best_hours) for run in runs]


def _row(trace: RateTrace, run: JointRun, best_hours: float) -> Row:
    hours = run.executor_s / 3600.0
    return {
        "trace": trace.name,
        "hours": round(trace.hours, 2),
        "way": run.way,
        "accuracy_ratio": run.accuracy,
        "late_share_ratio": run.late_share,
        "late_rows": round(run.late_rows),
        "executor_hours": hours,
        "clairvoyant_executor_hours": best_hours,
        "of_clairvoyant_ratio": hours / best_hours if best_hours else 0.0,
        "rescales": run.rescales,
        "batches": run.batches,
        "offered_rows": round(run.offered_rows),
        "kept_rows": round(run.kept_rows),
    }


def replay_all_jointly(
    jobs: Sequence[JointJob], *, processes: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[Row]:
    """Replay all traces, the longest first so that no process is left with it at the end; rows as the jobs came."""
    order = sorted(range(len(jobs)), key=lambda place: -jobs[place].trace.rates.size)
    found = run_all(replay_jointly, [jobs[place] for place in order], processes=processes, progress=progress)
    by_place = dict(zip(order, found, strict=True))
    return [row for place in range(len(jobs)) for row in by_place[place]]


def by_way(rows: Sequence[Row]) -> list[Row]:
    """One row a way over all traces."""
    table: list[Row] = []
    for way in dict.fromkeys(str(row["way"]) for row in rows):
        own = [row for row in rows if row["way"] == way]
        sums = {
            key: sum(float(row[key] or 0.0) for row in own)
            for key in ("offered_rows", "kept_rows", "late_rows", "executor_hours", "clairvoyant_executor_hours")
        }
        table.append(
            {
                "way": way,
                "traces": len(own),
                "accuracy_ratio": sums["kept_rows"] / max(1.0, sums["offered_rows"]),
                "late_share_ratio": sums["late_rows"] / max(1.0, sums["kept_rows"]),
                "late_rows": round(sums["late_rows"]),
                "executor_hours": sums["executor_hours"],
                "of_clairvoyant_ratio": sums["executor_hours"] / max(1e-9, sums["clairvoyant_executor_hours"]),
                "rescales": sum(int(row["rescales"] or 0) for row in own),
            }
        )
    return table
