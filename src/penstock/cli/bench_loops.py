"""``penstock bench loops``: the fast tier in virtual time."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table


def loops(
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of every case.")] = 20,
    constant_seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of every case of constant load.")] = 200,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Hold the fast tier against what fits, and against the same query alone, in virtual time.

    Steps of load on engines of any overhead, scatter and disturbance: part of the kept rows that is late, and what is
    kept of what fits. Constant loads: rows out in time each second, over those of the same query without Penstock.

    For example:
      penstock bench loops --seeds 2 --constant-seeds 4
      penstock bench loops --json
    """
    from penstock.bench.loops import constant_cases, run_loops, step_cases, summed_up  # noqa: PLC0415 - imports numpy

    count = processes or os.cpu_count() or 1
    typer.echo(f"{len(step_cases(seeds))} steps and {len(constant_cases(constant_seeds))} constant loads", err=True)
    steps = summed_up(run_loops(step_cases(seeds), processes=count), ("overhead_s", "noise", "disturbance"))
    constant = summed_up(run_loops(constant_cases(constant_seeds), processes=count), ("overhead_s", "load"))
    if as_json:
        print_json(
            {"bench": "loops", "seeds": seeds, "constant_seeds": constant_seeds, "rows": steps, "constant": constant}
        )
        return
    for rows in (steps, constant):
        print_table(list(rows[0]), [[_text(value) for value in row.values()] for row in rows])
        typer.echo("")


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
