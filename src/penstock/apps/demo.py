"""The main job: click-fraud detection under three times the load that the machine can process, twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.apps.overload import measure_capacity, run_overload
from penstock.apps.report import write_report
from penstock.apps.session import local_session
from penstock.model.profile import LoadProfile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.apps.measure import Measured
    from penstock.apps.overload import Tick
    from penstock.model import Goal

_CAPACITY_SECONDS = 30.0
LAG_NOTE = (
    "Admission keeps batches short and regular; it cannot make rows disappear, so the lag grows by what exceeds the "
    "capacity, and with it the age of rows."
)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What both runs achieved."""

    capacity_rows_per_s: float
    load_rows_per_s: float
    plain: Measured
    governed: Measured
    report: Path
    store: Path

    @property
    def runs(self) -> tuple[Measured, Measured]:
        """Plain and governed."""
        return self.plain, self.governed


def run_demo(
    *, seconds: float, load: float, goal: Goal, seed: int, out: Path, watch: Callable[[Tick], None]
) -> DemoResult:
    """Measure the capacity, then run the same load plain and governed, and write the report.

    ``load`` is in multiples of the capacity.
    """
    from penstock.settings import Settings  # noqa: PLC0415 - the command line imports this module's names early
    from penstock.spark.attach import attach  # noqa: PLC0415 - as above
    from penstock.spark.load import register  # noqa: PLC0415 - as above

    out.mkdir(parents=True, exist_ok=True)
    store_path = out / "penstock.db"
    with local_session("penstock demo") as spark:
        register(spark)
        capacity = measure_capacity(spark, goal, seed=seed, seconds=_CAPACITY_SECONDS, watch=watch)
        profile = LoadProfile.constant(load * capacity)
        plain = run_overload(spark, "plain", profile, goal, pen=None, seed=seed, seconds=seconds, watch=watch)
        with attach(spark, settings=Settings().with_values({"store.path": str(store_path)})) as pen:
            governed = run_overload(spark, "governed", profile, goal, pen=pen, seed=seed, seconds=seconds, watch=watch)
    result = DemoResult(capacity, load * capacity, plain, governed, out / "report.html", store_path)
    write_report(
        result.report,
        title="Click fraud under overload",
        introduction=introduction(result),
        rows=figures(result.runs),
        runs=result.runs,
        notes=[LAG_NOTE],
    )
    return result


def introduction(result: DemoResult) -> str:
    """One sentence that says what was run."""
    times = result.load_rows_per_s / result.capacity_rows_per_s
    return (
        f"The same load of {result.load_rows_per_s:,.0f} rows/s, {times:.1f} times the measured capacity of "
        f"{result.capacity_rows_per_s:,.0f} rows/s, for {result.plain.seconds:.0f} s each: plain Spark, then governed "
        f"with a latency goal of {result.plain.goal_s:g} s."
    )


def figures(runs: tuple[Measured, ...]) -> list[tuple[str, list[str]]]:
    """The table for people: a label and one text for each run."""

    def line(label: str, text: Callable[[Measured], str]) -> tuple[str, list[str]]:
        return label, [text(run) for run in runs]

    return [
        line("rows offered", lambda run: f"{run.offered_rows:,}"),
        line("rows processed", lambda run: f"{run.processed_rows:,}"),
        line("batches finished", lambda run: f"{len(run.batches)}"),
        line("batch time p50 / p95 / max, s", lambda run: _three(run.batch.p50_s, run.batch.p95_s, run.batch.max_s)),
        line(
            "event latency p50 / p95 / max, s",
            lambda run: _three(run.latency.p50_s, run.latency.p95_s, run.latency.max_s),
        ),
        line("lag at the end, rows", lambda run: f"{run.lag_end_rows:,}"),
        line("useful rows per second (within the goal)", lambda run: f"{run.useful_rows_per_s:,.0f}"),
    ]


def _three(*values: float) -> str:
    return " / ".join(f"{value:.2f}" for value in values)
