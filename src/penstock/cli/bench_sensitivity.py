"""``penstock bench sensitivity``: what each constant of the proactive scaler moves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table


def sensitivity(
    trace: Annotated[
        list[Path], typer.Option(metavar="PATH", help="Table second,rate (.csv, .csv.gz) or a directory of them.")
    ],
    hours: Annotated[float, typer.Option(min=0.01, help="Replay no more than so many hours of a trace.")] = 24.0,
    goal_latency: Annotated[
        str | None, typer.Option(metavar="TIME", help='Age that a row may have, such as "30 seconds".')
    ] = None,
    trigger: Annotated[
        str | None, typer.Option(metavar="TIME", help='How often a batch begins, or "none": batch after batch.')
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of arrivals and batch times.")] = 0,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Halve and double every constant of the proactive scaler, and tell what that moves on recorded loads.

    A constant moves something where the samples in violation change at all, or executor-hours by two in a thousand.

    For example:
      penstock bench sensitivity --trace traces/ --hours 12
      penstock bench sensitivity --trace day.csv --goal-latency "10 seconds" --trigger "5 seconds" --json
    """
    from penstock.bench.sensitivity import run_sensitivity, unmoved  # noqa: PLC0415 - help must not wait for numpy
    from penstock.cli.replay import engine_of, read_load  # noqa: PLC0415 - as above
    from penstock.sim.rate_traces import find_traces  # noqa: PLC0415 - as above
    from penstock.sim.replay import ReplaySettings  # noqa: PLC0415 - as above

    engine = engine_of(None, goal_latency, trigger, None)
    loads = [read_load(path, gaps="bridge", hours=hours) for path in find_traces(trace)]
    rows = run_sensitivity(
        loads,
        engine,
        ReplaySettings(seed=seed),
        processes=processes or os.cpu_count() or 1,
        progress=lambda done, total: typer.echo(f"{done} of {total} runs", err=True),
    )
    needless = unmoved(rows)
    if as_json:
        document = {"bench": "sensitivity", "hours": hours, "goal_s": engine.goal_s, "trigger_s": engine.trigger_s}
        print_json(document | {"traces": [load.name for load in loads], "unmoved": needless, "rows": rows})
        return
    print_table(list(rows[0]), [[_text(value) for value in row.values()] for row in rows])
    typer.echo(f"\nneither halving nor doubling moves: {', '.join(needless) or 'none'}")


def _text(value: object) -> str:
    return "-" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
