"""``penstock bench qod``: how long one cycle of a fleet's logic takes."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table

_SIZES = ((2000, 2), (2000, 20), (100_000, 2), (100_000, 200))
_LARGE = 50_000


def qod(
    cycles: Annotated[int, typer.Option(min=1, max=10_000, help="Cycles of every size; of the largest a tenth.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of goals and rates.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure one cycle of a fleet's logic on one core, at 2,000 and at 100,000 tasks.

    Applications like Taxi Drives, five priorities, a third more load than there is CPU. Before every cycle every
    query reports another rate, so that much must change; a cycle is from the tick to the list of decisions.

    For example:
      penstock bench qod
      penstock bench qod --cycles 20 --json
    """
    from penstock.bench.qod import measure_cycles  # noqa: PLC0415 - imports numpy

    rows = []
    for tasks, engines in _SIZES:
        typer.echo(f"{tasks} tasks on {engines} engines", err=True)
        count = cycles if tasks < _LARGE else max(1, cycles // 10)
        rows.append(measure_cycles(tasks, engines, cycles=count, seed=seed))
    if as_json:
        print_json({"bench": "qod", "seed": seed, "rows": rows})
        return
    print_table(list(rows[0]), [[_text(value) for value in row.values()] for row in rows])


def _text(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
