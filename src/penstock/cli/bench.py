"""``penstock bench``: what Penstock costs and what it achieves, measured on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.bench_broker import bridge, elastic, fanout, kafka, repay
from penstock.cli.bench_constants import constants
from penstock.cli.bench_costs import batch_overhead, overhead, sketch
from penstock.cli.bench_demo import demo
from penstock.cli.bench_goals import priorities, short_goal
from penstock.cli.bench_loops import loops
from penstock.cli.bench_moves import moves
from penstock.cli.bench_qod import qod
from penstock.cli.bench_reshape import reshape
from penstock.cli.bench_sensitivity import sensitivity
from penstock.cli.bench_serve import serve
from penstock.cli.bench_shedding import coverage, overload
from penstock.cli.bench_size import size
from penstock.console import AsJson, cell, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(
    help="Measure what Penstock costs and what it achieves, side by side in one run.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@app.callback()
def usual(context: typer.Context) -> None:
    """Measure what needs no broker and no cluster, one after the other, unless one is named.

    These are sketch, coverage, idle, admission, batch-overhead, short-goal, priorities and overload. The others take
    longer, and are run by their names.

    For example:
      penstock bench
      penstock bench idle --pairs 9 --json
    """
    if context.invoked_subcommand is not None:
        return
    for measured in _USUAL:
        typer.echo(f"\n{measured.__name__.replace('_', '-')}\n")
        measured()


def idle(
    pairs: Annotated[int, typer.Option(min=1, max=99, help="How many pairs to run.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare the throughput of a query without a goal, attached and plain, in interleaved pairs.

    For example:
      penstock bench idle --pairs 9 --json
    """
    from penstock.bench.idle import bench_idle  # noqa: PLC0415 - imports Spark

    result = bench_idle(pairs=pairs, say=lambda text: typer.echo(text, err=True))
    document = result.to_dict()
    if as_json:
        print_json(document)
        return
    rows = [
        [str(number), f"{pair.plain_rows_per_s:,.0f}", f"{pair.attached_rows_per_s:,.0f}", f"{pair.ratio:.3f}"]
        for number, pair in enumerate(result.pairs, start=1)
    ]
    print_table(["pair", "plain, rows/s", "attached, rows/s", "ratio"], rows)
    typer.echo(f"\nattached but idle: {result.median_ratio:.3f} of plain Spark (median of {len(result.pairs)} pairs)")


def admission(*, as_json: AsJson = False) -> None:
    """Measure how long the batches of a governed query are: cold, with more waiting than fits, and at 0.9 of capacity.

    For example:
      penstock bench admission --json
    """
    from penstock.bench.admission import bench_admission  # noqa: PLC0415 - imports Spark

    rows = [part.to_dict() for part in bench_admission(say=lambda text: typer.echo(text, err=True))]
    if as_json:
        print_json({"bench": "admission", "rows": rows})
        return
    print_table(list(rows[0]), [[cell(value) for value in row.values()] for row in rows])


_USUAL: tuple[Callable[[], None], ...] = (
    sketch, coverage, idle, admission, batch_overhead, short_goal, priorities, overload,
)  # fmt: skip
_BY_NAME: tuple[Callable[..., None], ...] = (
    demo, loops, constants, sensitivity, overhead, kafka, repay, elastic, bridge, fanout, reshape, size, moves, qod,
    serve,
)  # fmt: skip

for _benchmark in (*_USUAL, *_BY_NAME):
    app.command(_benchmark.__name__.replace("_", "-"))(_benchmark)
