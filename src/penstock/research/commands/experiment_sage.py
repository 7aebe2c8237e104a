"""``penstock experiment sage``: a simulated fleet of applications that start with a wrong size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.console import AsJson, print_json, print_table
from penstock.extras import require

if TYPE_CHECKING:
    from penstock.research.sage import FleetResult


def sage(
    applications: Annotated[int, typer.Option(min=1, max=100_000, help="Applications of the fleet.")] = 200,
    cases: Annotated[int, typer.Option(min=2, max=100_000, help="Cases of the remote-service rule.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the fleet.")] = 1,
    processes: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for the chart (PNG).")] = None,
    as_json: AsJson = False,
) -> None:
    """Size a simulated fleet by the policies of Sage, and compare every size with the optimum.

    Every application runs for an hour of stream time in windows of 15 s, from a third, the whole or three times of what
    it needs of heap, memory and CPU. Service times are exponential, heavy-tailed or multi-modal; a quarter of the
    applications grow by half, three in ten call a remote service, most of which falter. The optimum is searched in the
    same run, with the load known beforehand.

    For example:
      penstock experiment sage --out artifacts/sage
      penstock experiment sage --applications 50 --json
    """
    require("research", "penstock experiment")
    from penstock.research.sage import size_fleet  # noqa: PLC0415 - help must not wait for numpy
    from penstock.research.sage_remote import remote_table  # noqa: PLC0415 - as above

    said = [0]

    def say(done: int, total: int) -> None:
        tenths = 10 * done // total
        if tenths > said[0]:
            said[0] = tenths
            typer.echo(f"{done} of {total} applications", err=True)

    result = size_fleet(applications, seed=seed, processes=processes, progress=say)
    remote = remote_table(cases)
    chart = _chart(result, out)
    if as_json:
        print_json(
            {
                "experiment": "sage",
                "summary": result.summary(),
                "actions": result.actions_by_kind(),
                "rows": result.rows_by_kind(),
                "remote": remote,
                "chart": chart,
            }
        )
        return
    print_table(["figure", "value"], [[name, _text(value)] for name, value in result.summary().items()])
    typer.echo("")
    print_table(["policy", "actions"], [[name, str(count)] for name, count in result.actions_by_kind().items()])
    for rows in (result.rows_by_kind(), remote):
        typer.echo("")
        print_table(list(rows[0]), [[_text(value) for value in row.values()] for row in rows])
    if chart is not None:
        typer.echo(f"\nchart: {chart}")


def _chart(result: FleetResult, out: Path | None) -> str | None:
    if out is None:
        return None
    from penstock.research.sage_charts import draw_fleet  # noqa: PLC0415 - imports matplotlib

    out.mkdir(parents=True, exist_ok=True)
    return str(draw_fleet(result, out / "sage-fleet.png").resolve())


def _text(value: float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
