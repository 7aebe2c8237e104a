"""``penstock bench kafka``, ``elastic``, ``bridge``, ``fanout`` and ``repay``: those with a broker of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.bench_elastic import print_elastic
from penstock.console import AsJson, cell, print_json, print_table


def kafka(
    name: Annotated[str, typer.Option("--app", help="Application to overload.")] = "knn",
    times: Annotated[float, typer.Option(min=0.1, max=20, help="Load in multiples of the capacity.")] = 2.0,
    goal: Annotated[str, typer.Option(help="Latency goal.")] = "5 seconds",
    minimum_accuracy: Annotated[float, typer.Option(min=0, max=1, help="Smallest share of rows to keep.")] = 0.05,
    seconds: Annotated[float, typer.Option(min=10, max=3600, help="Seconds of overload in each run.")] = 60.0,
    calm: Annotated[float, typer.Option(min=0, help="Calm seconds before that, which do not count.")] = 30.0,
    store: Annotated[Path | None, typer.Option(help="Keep the action log in this file, for 'penstock log'.")] = None,
    as_json: AsJson = False,
) -> None:
    """Overload an application on a Kafka broker of its own, plain and governed, under the same load.

    The load is a multiple of what the application does while nobody writes. Met means: 95 % of the rows that the
    governed run keeps are within the goal, its lag does not grow, and it keeps 0.9 of what the application can do while
    that load is written, measured right before and after it.

    For example:
      penstock bench kafka --times 2 --app word-count --json
    """
    from penstock.apps.catalog import app_named  # noqa: PLC0415 - imports Spark
    from penstock.bench.kafka_overload import bench_kafka_overload  # noqa: PLC0415 - as above
    from penstock.model import Goal  # noqa: PLC0415 - as above

    wanted = Goal(latency=goal, minimum_accuracy=minimum_accuracy)
    result = bench_kafka_overload(
        app_named(name),
        wanted,
        times=times,
        seconds=seconds,
        calm_s=calm,
        store=store,
        say=lambda text: typer.echo(text, err=True),
    )
    if as_json:
        print_json(result.to_dict())
        return
    figures = [(run, row.to_dict()) for run, row in result.runs.items()]
    keys = [key for key in figures[0][1] if key != "query"]
    print_table(
        ["", *(run for run, _ in figures)],
        [[key, *("-" if row[key] is None else str(row[key]) for _, row in figures)] for key in keys],
    )
    load = f"{result.load_rows_per_s:,.0f} rows/s, {times:g} times the capacity of {result.capacity_rows_per_s:,.0f}"
    loaded = f"{result.kept_of_capacity_ratio:.2f} of {result.loaded_capacity_rows_per_s:,.0f} rows/s beside it kept"
    typer.echo(f"\n{load}; {loaded}: {'met' if result.is_met else 'missed'}")


def elastic(
    policy: Annotated[str, typer.Option(help="Policy that decides, as in 'penstock replay'.")] = "proactive",
    goal: Annotated[float, typer.Option(min=1, max=600, help="Latency goal in seconds.")] = 30.0,
    most: Annotated[int, typer.Option(min=2, max=16, help="Executors at most; the load needs as many.")] = 4,
    seconds: Annotated[float, typer.Option(min=60, max=3600, help="Seconds of load, up and down again.")] = 240.0,
    store: Annotated[Path | None, typer.Option(help="Keep the action log in this file, for 'penstock log'.")] = None,
    stateful: Annotated[bool, typer.Option("--stateful", help="Count by key, with state in RocksDB.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let executors follow a load on a Kafka broker and a Standalone cluster of its own, up and down again.

    One governed query whose rows wait more than they compute, so that executors add capacity on few cores. Met means:
    up to what the load needs and back, one run of the query, batch numbers without a gap, every row once, no failed
    task, every decision with its outcome in the log, and 95 % of the rows out within the goal. With --stateful also:
    new executors carry two thirds of an even share of the tasks in their first 30 s.

    For example:
      penstock bench elastic
      penstock bench elastic --stateful --json
      penstock bench elastic --policy reactive --json
    """
    from penstock.bench.elastic import ElasticSetting, bench_elastic  # noqa: PLC0415 - imports Spark
    from penstock.control.scaling import ONLINE_POLICIES  # noqa: PLC0415 - as above

    if policy not in ONLINE_POLICIES:
        raise typer.BadParameter(f"policy {policy!r} is not one of {', '.join(ONLINE_POLICIES)}")
    setting = ElasticSetting(policy=policy, goal_s=goal, most=most, seconds=seconds, store=store, stateful=stateful)
    result = bench_elastic(setting, say=lambda text: typer.echo(text, err=True))
    if as_json:
        print_json(result.to_dict())
        return
    print_elastic(result)


def bridge(
    goal: Annotated[float, typer.Option(min=2, max=600, help="Latency goal in seconds.")] = 10.0,
    minimum_accuracy: Annotated[float, typer.Option(min=0.01, max=1, help="The least that may be kept.")] = 0.2,
    times: Annotated[
        float, typer.Option(min=1.1, max=10, help="High load in multiples of what one executor can do.")
    ] = 3.0,
    maximum: Annotated[int, typer.Option(min=2, max=16, help="Executors at most.")] = 4,
    calm: Annotated[float, typer.Option(min=20, max=3600, help="Seconds of low load before the step.")] = 75.0,
    high: Annotated[float, typer.Option(min=40, max=3600, help="Seconds of high load.")] = 90.0,
    mode: Annotated[list[str] | None, typer.Option(help="Only these modes: 'joined', 'scaling alone' ...")] = None,
    keep: Annotated[Path | None, typer.Option(help="Directory for the action logs, for 'penstock log'.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let shedding hold the latency of a query until new executors serve: Kafka, a Standalone cluster, one file.

    The load steps to a multiple of what the first size can do. Three modes in the same run: both tiers joined, scaling
    alone (nothing may be dropped), shedding alone (the size stays). Met means, of the joined tiers: 95 % of rows within
    the goal over the whole run, the minimum accuracy never broken, everything kept again 30 s after the step, and at
    most 1.3 of the executor-hours of somebody who knew the load beforehand.

    For example:
      penstock bench bridge
      penstock bench bridge --times 2 --minimum-accuracy 0.4 --json
    """
    from penstock.bench.bridge import BridgeSetting, bench_bridge  # noqa: PLC0415 - imports Spark
    from penstock.bench.bridge_result import MODES  # noqa: PLC0415 - as above

    unknown = set(mode or ()) - set(MODES)
    if unknown:
        raise typer.BadParameter(f"mode {min(unknown)!r} is not one of {', '.join(MODES)}")
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    setting = BridgeSetting(goal, minimum_accuracy, times, maximum, calm, high, tuple(mode or MODES), keep)
    result = bench_bridge(setting, say=lambda text: typer.echo(text, err=True))
    if as_json:
        print_json(result.to_dict())
        return
    rows = result.rows()
    shown = [key for key in rows[0] if key != "faults"]
    print_table(shown, [[cell(row[key]) for key in shown] for row in rows])
    load = f"{result.calm_rows_per_s:,.0f} to {result.high_rows_per_s:,.0f} rows/s"
    typer.echo(f"\n{load}, one executor does {result.capacity_rows_per_s:,.0f}; load average {result.load_average:.1f}")
    for claim in result.missed:
        typer.echo(f"missed: {claim}")
    if not result.missed:
        typer.echo("met")


def fanout(
    shape: Annotated[str, typer.Option(help="Graph of queries: 'fanout' or 'chain'.")] = "fanout",
    load: Annotated[float, typer.Option(min=0.5, max=20, help="Load in multiples of what all queries can do.")] = 3.0,
    seconds: Annotated[float, typer.Option(min=5, max=3600, help="Seconds that count, of each run.")] = 30.0,
    settle: Annotated[float, typer.Option(min=0, max=600, help="Seconds before that, which do not count.")] = 30.0,
    rounds: Annotated[int, typer.Option(min=1, max=99, help="How often each mode has its turn.")] = 2,
    batch: Annotated[float, typer.Option(min=0.5, max=60, help="Seconds between two batches of a query.")] = 3.0,
    goal: Annotated[float, typer.Option(min=1, max=600, help="Seconds within which a row is to be out.")] = 20.0,
    as_json: AsJson = False,
) -> None:
    """Run queries joined by Kafka topics under more load than fits: ACES, plain Spark and a min-flow chain in turn.

    What counts are rows of each result that are out within the goal, in a second, times what a row of it is worth.
    Plain Spark has a turn with the best limit of its own, too, which is found first. Rows that come within the goal
    of the start are young whatever is done, so as many seconds and half as many more do not count: the same for all,
    from when the last query of a run has started. How many times as many rows ACES has is told with its 95 % interval,
    paired over rounds.

    For example:
      penstock bench fanout --rounds 5
      penstock bench fanout --shape chain --load 2 --json
    """
    from penstock.apps.stages import shape_named  # noqa: PLC0415 - imports Spark
    from penstock.bench.fanout import bench_fanout  # noqa: PLC0415 - as above
    from penstock.bench.fanout_figures import ACES, MODES  # noqa: PLC0415 - as above

    result = bench_fanout(
        shape_named(shape),
        load=load,
        seconds=seconds,
        settle_s=settle,
        rounds=rounds,
        batch_s=batch,
        goal_s=goal,
        say=lambda text: typer.echo(text, err=True),
    )
    if as_json:
        print_json(result.to_dict())
        return
    figures = [each.to_dict() for each in result.figures]
    print_table(list(figures[0]), [["-" if value is None else str(value) for value in row.values()] for row in figures])
    typer.echo()
    for mode in MODES:
        values = ", ".join(f"{value:,.0f}" for value in result.young_weighted_rows_per_s(mode))
        low, high = (0.0, 0.0) if mode == ACES else result.times_95(mode)
        typer.echo(
            f"{mode}: {values} weighted rows/s within {goal:g} s"
            + ("" if mode == ACES else f"; ACES has {result.times(mode):.2f} times as many ({low:.2f} to {high:.2f})")
        )
    for stage, ages in result.oldest_ages_s(ACES).items():
        told = ", ".join("-" if age is None else f"{age:.1f}" for age in ages)
        typer.echo(f"oldest row of {stage} under ACES: {told} s")
    typer.echo(f"{result.load_rows_per_s:,.0f} rows/s of load: {'met' if result.is_met else 'missed'}")


def repay(
    seconds: Annotated[float, typer.Option(min=10, max=36_000, help="Seconds of overload.")] = 600.0,
    times: Annotated[float, typer.Option(min=1.1, max=20, help="Load in multiples of the capacity.")] = 3.0,
    goal: Annotated[float, typer.Option(min=1, max=600, help="Latency goal in seconds.")] = 5.0,
    kill: Annotated[
        bool, typer.Option(help="Kill the query, and later the repayment, with kill -9 in the middle; run them again.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Overload a query on Kafka, repay what it dropped, and count every row against a run that shed nothing.

    Repaying takes about twice as long as the overload.

    For example:
      penstock bench repay --seconds 60
      penstock bench repay --no-kill --json
    """
    from penstock.bench.repay import bench_repay  # noqa: PLC0415 - imports Spark

    result = bench_repay(
        seconds=seconds, times=times, goal_s=goal, kill=kill, say=lambda text: typer.echo(text, err=True)
    )
    if as_json:
        print_json(result.to_dict())
        return
    print_table(["figure", "value"], [[name, f"{value}"] for name, value in result.to_dict().items()])
    typer.echo("\nmet" if result.is_met else "\nmissed")
