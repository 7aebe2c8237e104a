"""``penstock bench priorities`` and ``bench short-goal``: goals that are hard to hold."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.console import AsJson, print_json, print_table

_SHOWN = ("latency_p50_s", "latency_p95_s", "kept_fraction", "batch_p50_s", "useful_rows_per_s", "lag_end_rows")


def priorities(
    goal: Annotated[float, typer.Option(min=1.0, max=600.0, help="Latency goal of both, in seconds.")] = 4.0,
    seconds: Annotated[float, typer.Option(min=60.0, max=3600.0, help="Seconds that both run.")] = 110.0,
    fifo: Annotated[bool, typer.Option("--fifo", help="With Spark's default scheduler, which knows no pools.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start two queries of unlike priority, of which the engine holds either but not both, and see who gives way.

    Each has 0.8 of what the engine does for one alone. Met means: from its cold start on, the one of high priority
    keeps at least 0.95 of its rows, and 95 % of them are out within the goal.

    For example:
      penstock bench priorities
      penstock bench priorities --goal 10 --json
      penstock bench priorities --fifo
    """
    from penstock.bench.priorities import bench_priorities  # noqa: PLC0415 - imports Spark

    result = bench_priorities(
        goal_s=goal, seconds=seconds, is_fair=not fifo, say=lambda text: typer.echo(text, err=True)
    )
    _show(result.to_dict(), ("query", "over"), as_json=as_json)


def short_goal(
    goal: Annotated[float, typer.Option(min=0.5, max=60.0, help="Latency goal in seconds.")] = 1.0,
    seconds: Annotated[float, typer.Option(min=10.0, max=3600.0, help="Seconds of each load that count.")] = 30.0,
    hashes: Annotated[int, typer.Option(min=0, max=1000, help="How often a row is hashed, to make it dearer.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Hold a goal of a second on a thin query, at 0.7 of its capacity and at three times that.

    Without hashes a row costs less than a guard does; a few make it what rows cost that are parsed.

    For example:
      penstock bench short-goal
      penstock bench short-goal --hashes 8 --json
    """
    from penstock.bench.short_goal import bench_short_goal  # noqa: PLC0415 - imports Spark

    result = bench_short_goal(goal_s=goal, seconds=seconds, hashes=hashes, say=lambda text: typer.echo(text, err=True))
    _show(result.to_dict(), ("load_times_capacity", "run"), as_json=as_json)


def _show(document: dict[str, Any], first: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    columns = first + _SHOWN
    print_table(list(columns), [[str(row[name]) for name in columns] for row in document["rows"]])
    typer.echo("met" if document["is_met"] else "MISSED")
