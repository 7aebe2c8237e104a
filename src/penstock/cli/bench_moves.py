"""``penstock bench moves``."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table


def moves(
    moves: Annotated[int, typer.Option(min=1, max=1000, help="How often the query moves.")] = 20,
    kills: Annotated[int, typer.Option(min=0, max=100, help="How often its engine is killed with kill -9.")] = 1,
    rate: Annotated[float, typer.Option(min=1, max=1e6, help="Rows a second that arrive all the while.")] = 200.0,
    as_json: AsJson = False,
) -> None:
    """Move a query between two engines, kill the one that runs it, and count every row.

    Two engines of one core each. Met means: every row is written once, each move keeps the query from running for less
    than 10 s, and after a kill it runs elsewhere within 30 s.

    For example:
      penstock bench moves
      penstock bench moves --moves 5 --kills 2 --json
    """
    from penstock.bench.moves import bench_moves  # noqa: PLC0415 - imports Spark

    result = bench_moves(moves=moves, kills=kills, rate_rows_per_s=rate, say=lambda text: typer.echo(text, err=True))
    if as_json:
        print_json(result.to_dict())
        return
    rows = [["move", f"{each:.2f}"] for each in result.downtimes_s] + [
        ["kill", f"{each:.2f}"] for each in result.recoveries_s
    ]
    print_table(["what", "seconds"], rows)
    typer.echo(
        f"\n{result.rows:,} rows written, {result.lost} lost, {result.doubled} doubled; load average "
        f"{result.load_average:.1f}: {'met' if result.is_met else 'missed'}"
    )
