"""``penstock bench overload`` and ``coverage``: what shedding keeps, and how true its answers are."""

from __future__ import annotations

from dataclasses import astuple
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table


def overload(
    goal: Annotated[float, typer.Option(min=1, max=600, help="Latency goal in seconds.")] = 5.0,
    load: Annotated[float, typer.Option(min=1.1, max=20, help="Load in multiples of the measured capacity.")] = 3.0,
    seconds: Annotated[float, typer.Option(min=20, max=3600, help="Seconds of overload for each policy.")] = 75.0,
    policy: Annotated[list[str] | None, typer.Option(help="Run only this policy; may be given several times.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare what plain Spark, a static limit and Penstock's strategies make of three times the load that fits.

    Each policy has 30 calm seconds, then the overload; latency, work and answers are measured from the step on.

    For example:
      penstock bench overload
      penstock bench overload --policy plain --policy economic --seconds 60 --json
    """
    from penstock.bench.overload import POLICIES, bench_overload  # noqa: PLC0415 - imports Spark

    unknown = set(policy or ()) - set(POLICIES)
    if unknown:
        raise typer.BadParameter(f"policy {min(unknown)!r} is not one of {', '.join(POLICIES)}")
    policies = tuple(name for name in POLICIES if name in policy) if policy else POLICIES
    result = bench_overload(
        goal_s=goal, load=load, seconds=seconds, policies=policies, say=lambda text: typer.echo(text, err=True)
    )
    if as_json:
        print_json(result.to_dict())
        return
    columns = [
        "policy",
        "latency p50 / p95 / max, s",
        "lag at the end, rows",
        "rows kept",
        "kept work",
        "intervals",
        "met",
    ]
    rows = [
        [
            found.policy,
            " / ".join(f"{value_s:.2f}" for value_s in astuple(found.measured.latency)),
            f"{found.measured.lag_end_rows:,}",
            f"{found.measured.accuracy:.1%}",
            f"{found.work_ratio:.3f}",
            f"{found.covered} of {found.estimates}",
            "yes" if result.is_met(found) else "no",
        ]
        for found in result.results
    ]
    print_table(columns, rows)
    typer.echo(
        f"\n{result.load:g} times the capacity of {result.capacity.rows.rows_per_s:,.0f} rows/s, goal {goal:g} s. "
        "Met means: 95 % of the kept rows out within the goal, at least 0.95 of the capacity's work done, and at least "
        "93 % of the 95 % intervals hold the true count."
    )


def coverage(
    trials: Annotated[int, typer.Option(min=100, max=100_000, help="Groups that are drawn of each case.")] = 2_000,
    groups: Annotated[int, typer.Option(min=0, max=2_000, help="Groups of each case that Spark gets too.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Count how often the intervals of penstock.functions hold the truth, by how rows were drawn.

    Seeded: the same figures everywhere. Right means: off by less than 1 % in the mean, and 93 to 97 % of the 95 %
    intervals hold the truth. Refused means: no interval for more than 95 % of groups.

    For example:
      penstock bench coverage --json
      penstock bench coverage --groups 0
    """
    from penstock.bench.coverage import bench_coverage, bench_spark  # noqa: PLC0415 - imports Spark

    found = bench_coverage(trials=trials)
    compared = bench_spark(groups=groups, say=lambda text: typer.echo(text, err=True)) if groups else []
    if as_json:
        print_json({"bench": "coverage", "rows": [each.to_dict() for each in found], "spark": compared})
        return
    shown = [
        [
            each.case, each.aggregate, f"{each.shown:.1%}", "-" if each.held is None else f"{each.held:.1%}",
            f"{each.bias:+.2%}", each.verdict,
        ]
        for each in found
    ]  # fmt: skip
    print_table(["case", "aggregate", "with an interval", "of these hold the truth", "bias", "verdict"], shown)
    if compared:
        held, intervals = sum(each["held"] for each in compared), sum(each["intervals"] for each in compared)
        farthest = max(each["largest_difference_ratio"] for each in compared)
        typer.echo(f"\nSpark: {held} of {intervals} intervals hold the truth; farthest from the arrays {farthest:.1e}")
