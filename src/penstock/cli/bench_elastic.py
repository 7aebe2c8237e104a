"""``penstock bench elastic`` for people: executors over time, every decision, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from penstock.console import print_table

if TYPE_CHECKING:
    from penstock.bench.elastic_result import ElasticResult


def print_elastic(result: ElasticResult) -> None:
    """Three tables and a verdict."""
    looks = [
        [f"{look.time_s - result.began_s:.0f}", str(look.executors), _number(look.arrival_rows_per_s),
         _number(look.backlog_rows)]
        for look in result.timeline
    ]  # fmt: skip
    print_table(["second", "executors", "arriving, rows/s", "not done, rows"], looks)
    typer.echo()
    changes = [
        [f"{change.after_s:.0f}", f"{change.previous} -> {change.executors}",
         "overtaken" if change.service_s is None else f"{change.service_s:.1f}", change.reason]
        for change in result.changes
    ]  # fmt: skip
    print_table(["second", "executors", "in service after, s", "reason"], changes)
    figures = result.figures
    latency = " / ".join(
        "-" if value is None else f"{value:.1f}"
        for value in (figures.latency_p50_s, figures.latency_p95_s, figures.latency_max_s)
    )
    ids = result.batch_ids
    numbers = f"{len(ids)} batches {'with gaps' if result.has_gap else 'without a gap'}"
    typer.echo(
        f"\n{len(result.run_ids)} run of the query, {numbers}, {figures.read_rows:,} of {result.sent_rows:,} rows, "
        f"{result.failed_tasks} failed tasks, {result.executor_s:,.0f} executor-seconds"
    )
    typer.echo(f"latency {latency} s (median / 95 % / largest), goal {result.goal_s:g} s")
    for spread in result.spreads:
        typer.echo(
            f"second {spread.after_s:.0f}: {spread.new_executors} new, {spread.new_tasks} of {spread.tasks} tasks "
            f"in 30 s ({spread.share:.0%}, even is {spread.fair_share:.0%})"
        )
    for move in result.moves:
        typer.echo(
            f"second {move.started_s - result.began_s:.0f}: the first batch on {move.executors} instead of "
            f"{move.previous} executors took {move.extra_s:+.1f} s beyond its rows"
        )
    for fault in result.faults:
        typer.echo(f"fault: {fault}")
    typer.echo("met" if result.is_met else "missed")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
