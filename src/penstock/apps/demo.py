"""The main job: click-fraud detection under three times the load that the machine can process, twice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.apps.overload import GOVERNED, PLAIN, measure_capacity, run_overload, warm_up
from penstock.apps.report import write_report
from penstock.apps.session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.apps.fraud_truth import FraudSummary
    from penstock.apps.measure import Measured
    from penstock.apps.overload import OverloadRun, Tick
    from penstock.model import Goal

_CAPACITY_SECONDS = 30.0
_FIRST_BATCH_ROWS = 40_000
_READING = (
    "Latencies are those of rows that were processed; rows that still waited at the end are in the lag. The load "
    "source knows when each row arrived and what a full count would be."
)


_NOTHING_SHED = (
    "The governed run keeps every row (minimum accuracy 1), so its batches stay short and regular, but the lag grows "
    "by what exceeds the capacity, and with it the age of rows."
)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What both runs achieved."""

    capacity_rows_per_s: float
    load_rows_per_s: float
    plain: OverloadRun
    governed: OverloadRun
    goal: Goal
    report: Path
    store: Path

    @property
    def runs(self) -> tuple[OverloadRun, OverloadRun]:
        """Plain and governed."""
        return self.plain, self.governed

    @property
    def is_within_goal(self) -> bool:
        """Whether 95 % of the rows that the governed run kept were out within the goal."""
        latency = self.governed.measured.latency
        return self.goal.latency_s is not None and latency.p95_s <= self.goal.latency_s


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
    with local_session("penstock demo", log=out / "spark.log") as spark:
        register(spark)
        capacity = measure_capacity(spark, goal, seed=seed, seconds=_CAPACITY_SECONDS, watch=watch)
        run = partial(run_overload, spark, seed=seed, seconds=seconds, watch=watch)
        plain = run(PLAIN, capacity, load, goal, pen=None)
        settings = {"store.path": str(store_path), "admission.first_batch_rows": _FIRST_BATCH_ROWS}
        with attach(spark, settings=Settings().with_values(settings)) as pen:
            if goal.minimum_accuracy < 1.0:
                warm_up(spark, pen, capacity, goal, seed=seed, watch=watch)
            governed = run(GOVERNED, capacity, load, goal, pen=pen)
    result = DemoResult(capacity, load * capacity, plain, governed, goal, out / "report.html", store_path)
    write_report(
        result.report,
        title="Click fraud under overload",
        introduction=introduction(result),
        rows=figures(result),
        runs=[run.measured for run in result.runs],
        counts=governed.fraud.counts,
        notes=notes(result),
    )
    return result


def introduction(result: DemoResult) -> str:
    """One sentence that says what was run."""
    times = result.load_rows_per_s / result.capacity_rows_per_s
    seconds = result.plain.measured.seconds
    return (
        f"The same load of {result.load_rows_per_s:,.0f} rows/s, {times:.1f} times the measured capacity of "
        f"{result.capacity_rows_per_s:,.0f} rows/s, for {seconds:.0f} s each after some calm ones that do not "
        f"count: plain Spark, then governed with a latency goal of {result.goal.latency_s:g} s and a minimum accuracy "
        f"of {result.goal.minimum_accuracy:g}."
    )


def notes(result: DemoResult) -> list[str]:
    """What a reader must know to read the table right."""
    found = [_READING]
    if result.goal.minimum_accuracy >= 1.0:
        found.append(_NOTHING_SHED)
    elif not result.is_within_goal:
        found.append(
            "The governed run did not reach its goal this time: 95 % of its rows were out within "
            f"{result.governed.measured.latency.p95_s:.2f} s."
        )
    return found


def figures(result: DemoResult) -> list[tuple[str, list[str]]]:
    """The table for people: a label and one text for each run."""

    def line(label: str, text: Callable[[Measured], str]) -> tuple[str, list[str]]:
        return label, [text(run.measured) for run in result.runs]

    def fraud(label: str, text: Callable[[FraudSummary], str]) -> tuple[str, list[str]]:
        return label, [text(run.fraud) for run in result.runs]

    return [
        line("rows offered", lambda run: f"{run.offered_rows:,}"),
        line("rows processed", lambda run: f"{run.processed_rows:,}"),
        line("kept of the rows read", lambda run: f"{run.accuracy:.1%}"),
        line("batches finished", lambda run: f"{len(run.batches)}"),
        line("batch time p50 / p95 / max, s", lambda run: _three(run.batch.p50_s, run.batch.p95_s, run.batch.max_s)),
        line(
            "event latency p50 / p95 / max, s",
            lambda run: _three(run.latency.p50_s, run.latency.p95_s, run.latency.max_s),
        ),
        line("batches with more than 5 % of their rows late", _late_batches),
        line("lag at the end, rows", lambda run: f"{run.lag_end_rows:,}"),
        line("useful rows per second (within the goal)", lambda run: f"{run.useful_rows_per_s:,.0f}"),
        fraud("fraudsters found (patterns 1 and 2)", lambda run: f"{run.found} of {run.fraudsters}"),
        fraud("their records: true, in the rows read", lambda run: f"{run.true:,}"),
        fraud("their records: reported", lambda run: f"{run.estimate:,.0f}"),
        fraud("95 % intervals that hold the truth", _covered),
    ]


def _late_batches(run: Measured) -> str:
    return f"{run.batches_out_of_control} of {len(run.batches)}"


def _covered(fraud: FraudSummary) -> str:
    share = fraud.covered_share
    return "-" if share is None else f"{share:.0%} of {len(fraud.counts)}"


def _three(*values: float) -> str:
    return " / ".join(f"{value:.2f}" for value in values)
