"""``penstock bench demo``: the demo as a new user runs it, many times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table


def demo(
    runs: Annotated[int, typer.Option(min=1, max=100, help="Runs of the demo, each in a process of its own.")] = 10,
    spells: Annotated[
        bool, typer.Option("--spells", help="Beside a process that takes a core in random spells of 5 to 15 s.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Keep the report and the action log of every run in a folder of this one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the demo over and over and count how often it holds its goal.

    Each run measures plain Spark and Penstock side by side, some two and a half minutes. Leave the machine alone
    meanwhile, or disturb it on purpose with --spells.

    For example:
      penstock bench demo
      penstock bench demo --runs 10 --spells --json
      penstock bench demo --runs 3 --out kept && penstock log --store kept/run-2/penstock.db
    """
    from penstock.bench.demo_runs import LEAST_GAIN, bench_demo  # noqa: PLC0415 - imports Spark's neighbours

    found = bench_demo(runs, beside_spells=spells, out=out, say=lambda text: typer.echo(text, err=True))
    rows = [run.row() for run in found]
    within = sum(run.is_within_goal for run in found)
    gained = sum(run.gain >= LEAST_GAIN for run in found)
    if as_json:
        print_json({"bench": "demo", "runs": runs, "within_goal": within, "gained": gained, "rows": rows})
        return
    print_table(list(rows[0]), [[str(value) for value in row.values()] for row in rows])
    typer.echo(f"within the goal in {within} of {runs}; at least {LEAST_GAIN:g} times the useful rows in {gained}")
