"""``penstock bench loops``: the fast tier in virtual time."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table


def loops(
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of every case.")] = 20,
    constant_seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs of every case of constant load.")] = 200,
    part: Annotated[str, typer.Option(help="Which of them: steps, constant, reading, limits or all.")] = "all",
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Hold the fast tier against what fits, and against the same query alone, in virtual time.

    Steps of load on engines of any overhead, scatter and disturbance: part of the kept rows that is late, and what is
    kept of what fits. Constant loads: rows out in time each second, over those of the same query without Penstock.
    Reading: the same for steps of load on queries whose rows cost little beside reading them. Limits: what
    late and kept rows come to in spells and accidents if all is known but what is to come, with any length of batches.

    For example:
      penstock bench loops --seeds 2 --constant-seeds 4
      penstock bench loops --part constant --json
    """
    from penstock.bench.loop_limits import limits  # noqa: PLC0415 - imports numpy
    from penstock.bench.loops import (  # noqa: PLC0415 - as above
        constant_cases,
        reading_cases,
        run_loops,
        step_cases,
        summed_up,
    )

    parts = {
        "steps": (step_cases(seeds), ("overhead_s", "noise", "disturbance")),
        "constant": (constant_cases(constant_seeds), ("overhead_s", "load")),
        "reading": (reading_cases(seeds), ("overhead_s", "read_part", "load")),
    }
    names = (*parts, "limits")
    if part not in (*names, "all"):
        raise typer.BadParameter(f"one of {', '.join(names)} or all, not {part!r}", param_hint="--part")
    rows: list[dict[str, object]] = []
    workers = processes or os.cpu_count() or 1
    for name in names if part == "all" else (part,):
        if name in parts:
            cases, keys = parts[name]
            typer.echo(f"{name}: {len(cases)} runs", err=True)
            found = summed_up(run_loops(cases, processes=workers), keys)
        else:
            typer.echo(f"{name}: every length that batches can have", err=True)
            found = limits(seeds, processes=workers)
        rows += [{"part": name, **row} for row in found]
        if not as_json:
            print_table(list(found[0]), [[_text(value) for value in row.values()] for row in found])
            typer.echo("")
    if as_json:
        print_json({"bench": "loops", "seeds": seeds, "constant_seeds": constant_seeds, "rows": rows})


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
