"""``penstock demo``: the main job, plain and governed, side by side."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from penstock.console import AsJson, print_json, print_table

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from penstock.apps.overload import Tick

_SAY_EVERY_S = 5.0
_TITLES = {
    "capacity": "measuring the capacity",
    "plain": "plain Spark",
    "warm_up": "warming up the guarded pipeline",
    "governed": "governed by Penstock",
}


def command(
    seconds: Annotated[
        float, typer.Option(min=10, max=3600, help="Seconds of overload in each of the two runs.")
    ] = 35.0,
    load: Annotated[float, typer.Option(min=0.1, max=20, help="Load in multiples of the measured capacity.")] = 3.0,
    goal: Annotated[str, typer.Option(help="Latency goal of the governed run.")] = "5 seconds",
    minimum_accuracy: Annotated[
        float, typer.Option(min=0.001, max=1, help="Smallest share of rows to keep; below 1 rows may be shed.")
    ] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the click records.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Directory for report and log; a new one in artifacts/.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run click-fraud detection under too much load, first plain, then governed.

    Needs no broker: the rows come from the embedded source. Ends with a table and a report as one HTML file. With
    --minimum-accuracy 1 no row is shed: batches stay short, but the lag grows.

    For example:
      penstock demo
      penstock demo --seconds 90 --load 2 --goal "3 seconds"
    """
    from penstock.apps.demo import figures, introduction, notes, run_demo  # noqa: PLC0415 - imports Spark
    from penstock.model import Goal  # noqa: PLC0415 - a bad goal must fail before Spark starts, a good one costs little

    wanted = Goal(latency=goal, minimum_accuracy=minimum_accuracy)
    place = out or Path("artifacts") / time.strftime("demo-%Y%m%d-%H%M%S")
    with _Progress(quiet=as_json) as progress:
        result = run_demo(seconds=seconds, load=load, goal=wanted, seed=seed, out=place, watch=progress.show)
    if as_json:
        print_json(
            {
                "capacity_rows_per_s": result.capacity_rows_per_s,
                "load_rows_per_s": result.load_rows_per_s,
                "goal_s": wanted.latency_s,
                "report": str(result.report),
                "store": str(result.store),
                "is_within_goal": result.is_within_goal,
                "rows": [
                    {
                        **run.measured.row(),
                        "fraudsters_found": run.fraud.found,
                        "fraud_records_true": run.fraud.true,
                        "fraud_records_reported": round(run.fraud.estimate, 1),
                        "intervals": len(run.fraud.counts),
                        "intervals_covered_fraction": run.fraud.covered_share,
                    }
                    for run in result.runs
                ],
            }
        )
        return
    typer.echo(introduction(result) + "\n")
    heads = ["", *(_TITLES[run.measured.name] for run in result.runs)]
    print_table(heads, [[label, *texts] for label, texts in figures(result)])
    typer.echo("\n" + "\n".join(notes(result)))
    typer.echo(f"\nreport: {result.report.resolve()}")
    typer.echo(f"log:    penstock log --store {result.store}")
    typer.echo(f"page:   penstock serve --store {result.store}")


class _Progress:
    """A bar for each run on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._said_s: dict[str, float] = {}

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

            columns = (
                TextColumn("{task.description:24}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[now]}"),
            )
            self._bars = Progress(*columns, console=Console(stderr=True))
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, tick: Tick) -> None:
        """Show where a run is."""
        lag = "" if tick.lag_rows is None else f", lag {tick.lag_rows:,} rows"
        last = "-" if tick.last_batch_s is None else f"{tick.last_batch_s:.1f} s"
        now = f"{tick.batches} batches, last {last}{lag}"
        if self._bars is not None:
            if tick.run not in self._tasks:
                self._tasks[tick.run] = self._bars.add_task(_TITLES[tick.run], total=tick.seconds, now=now)
            self._bars.update(self._tasks[tick.run], completed=tick.elapsed_s, now=now)
        elif not self._quiet and tick.elapsed_s - self._said_s.get(tick.run, -99.0) >= _SAY_EVERY_S:
            self._said_s[tick.run] = tick.elapsed_s
            typer.echo(f"{_TITLES[tick.run]}: {tick.elapsed_s:.0f} of {tick.seconds:.0f} s, {now}", err=True)
