"""``penstock bench``: what Penstock costs and what it achieves, measured on this machine."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.bench_demo import demo
from penstock.cli.bench_elastic import print_elastic
from penstock.cli.bench_goals import priorities, short_goal
from penstock.cli.bench_loops import loops
from penstock.cli.bench_moves import moves
from penstock.cli.bench_qod import qod
from penstock.cli.bench_reshape import reshape
from penstock.cli.bench_sensitivity import sensitivity
from penstock.cli.bench_serve import serve
from penstock.cli.bench_size import size
from penstock.console import AsJson, print_json, print_table

app = typer.Typer(
    help="Measure what Penstock costs and what it achieves, side by side in one run.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


app.command()(loops)
app.command()(demo)
app.command()(sensitivity)
app.command()(moves)
app.command()(qod)
app.command()(serve)
app.command()(reshape)
app.command()(size)
app.command()(priorities)
app.command("short-goal")(short_goal)


@app.callback()
def every(context: typer.Context) -> None:
    """Measure everything that has a benchmark, unless one is named.

    For example:
      penstock bench
      penstock bench idle --pairs 9 --json
    """
    if context.invoked_subcommand is None:
        idle()


@app.command()
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


@app.command()
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
    print_table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])


@app.command()
def sketch(
    repeats: Annotated[int, typer.Option(min=1, max=10_000, help="How often each is run; the best counts.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Count how many rows a second one core learns costs from, looks costs up for, and decides on.

    For example:
      penstock bench sketch --json
    """
    from penstock.bench.sketch import bench_sketch  # noqa: PLC0415 - compiles

    found = bench_sketch(repeats=repeats)
    if as_json:
        rows = [{"what": name, "million_rows_per_s": round(rate, 2)} for name, rate in found.items()]
        print_json({"bench": "sketch", "repeats": repeats, "rows": rows})
        return
    print_table(["what", "million rows/s"], [[name, f"{rate:.1f}"] for name, rate in found.items()])


@app.command()
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


@app.command()
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


@app.command()
def overhead(
    pairs: Annotated[int, typer.Option(min=1, max=99, help="How many pairs to run of each part.")] = 5,
    part: Annotated[list[str] | None, typer.Option(help="Run only this part; may be given several times.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare queries with a guard or an operator that drops nothing with the same queries without, in pairs.

    For example:
      penstock bench overhead --pairs 9 --json
      penstock bench overhead --part operator
    """
    from penstock.bench.overhead import PARTS, bench_overhead  # noqa: PLC0415 - imports Spark

    unknown = set(part or ()) - set(PARTS)
    if unknown:
        raise typer.BadParameter(f"part {min(unknown)!r} is not one of: {'; '.join(PARTS)}")
    results = bench_overhead(pairs=pairs, parts=part or PARTS, say=lambda text: typer.echo(text, err=True))
    if as_json:
        print_json({"bench": "overhead", "parts": [result.to_dict() for result in results]})
        return
    rows = [
        [result.part, str(number), f"{pair.bare_rows_per_s:,.0f}", f"{pair.with_rows_per_s:,.0f}", f"{pair.ratio:.3f}"]
        for result in results
        for number, pair in enumerate(result.pairs, start=1)
    ]
    print_table(["part", "pair", "bare, rows/s", "with, rows/s", "ratio"], rows)
    for result in results:
        figures = f"median {result.median_ratio:.3f} of the bare query"
        verdict = "met" if result.is_met else "missed"
        wanted = "" if result.least_ratio is None else f", at least {result.least_ratio:g} wanted: {verdict}"
        typer.echo(f"\n{result.part}: {figures}{wanted}")


@app.command("batch-overhead")
def batch_overhead(
    rounds: Annotated[int, typer.Option(min=1, max=99, help="How many rounds to run.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare small batches of a query with guards with those of the same query without, in turns.

    For example:
      penstock bench batch-overhead --rounds 3 --json
    """
    from penstock.bench.batch_overhead import bench_batch_overhead  # noqa: PLC0415 - imports Spark

    result = bench_batch_overhead(rounds=rounds, say=lambda text: typer.echo(text, err=True))
    document = result.to_dict()
    if as_json:
        print_json(document)
        return
    rows = result.rows()
    print_table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])
    typer.echo(f"\nload average {result.load_average:.1f}")


@app.command()
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
    typer.echo(f"\n{load}: {'met' if result.is_met else 'missed'}")


@app.command()
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


@app.command()
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
    print_table(shown, [[_cell(row[key]) for key in shown] for row in rows])
    load = f"{result.calm_rows_per_s:,.0f} to {result.high_rows_per_s:,.0f} rows/s"
    typer.echo(f"\n{load}, one executor does {result.capacity_rows_per_s:,.0f}; load average {result.load_average:.1f}")
    for claim in result.missed:
        typer.echo(f"missed: {claim}")
    if not result.missed:
        typer.echo("met")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)


@app.command()
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


@app.command()
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
