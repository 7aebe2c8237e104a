"""``penstock bench constants``: what the constants of the fast tier move."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table


def constants(
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of every loop.")] = 2,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Halve and double every constant of the fast tier, and say what that moves in simulated loops.

    The second row has all constants as they are on other seeds: what moves less than that moves nothing.

    For example:
      penstock bench constants --seeds 4 --json
    """
    from penstock.bench.constants import run_constants, unmoved  # noqa: PLC0415 - imports numpy

    rows = run_constants(
        seeds=seeds, processes=processes or os.cpu_count() or 1, say=lambda text: typer.echo(text, err=True)
    )
    same = unmoved(rows)
    if as_json:
        print_json({"bench": "constants", "seeds": seeds, "unmoved": same, "rows": rows})
        return
    print_table(list(rows[0]), [[_text(value) for value in row.values()] for row in rows])
    typer.echo(f"move nothing here: {', '.join(same) or 'none'}")


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
