"""``penstock replay``: scaling policies side by side on recorded loads, in virtual time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.console import AsJson, print_json, print_table
from penstock.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.sim.calibration import Calibration
    from penstock.sim.rate_traces import RateTrace
    from penstock.sim.replay import ReplaySettings, Row
    from penstock.sim.replay_table import ReplayResult

_SHOWN_JOINTLY = (
    "accuracy_ratio", "late_share_ratio", "late_rows", "executor_hours", "of_clairvoyant_ratio", "rescales",
)  # fmt: skip
_SHOWN = ("violations", "late_share", "executor_hours", "of_clairvoyant", "rescales")


def command(
    trace: Annotated[
        list[Path], typer.Option(metavar="PATH", help="Table second,rate (.csv, .csv.gz) or a directory of them.")
    ],
    policy: Annotated[list[str], typer.Option(help="Policy by name, or all; may be given several times.")] = ["all"],  # noqa: B006 - typer wants a list, and nobody changes it
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Engine as JSON; left out: documented defaults.")
    ] = None,
    peak_executors: Annotated[
        int, typer.Option(min=1, max=500, help="Executors that the highest load needs; traces are scaled to it.")
    ] = 20,
    interval: Annotated[int, typer.Option(min=1, max=3600, help="Seconds between two decisions.")] = 15,
    hours: Annotated[float, typer.Option(min=0.01, help="Replay no more than so many hours of a trace.")] = 72.0,
    gaps: Annotated[
        str, typer.Option(help="bridge gaps with a straight line, or refuse a trace with gaps.")
    ] = "bridge",
    goal_latency: Annotated[
        str | None, typer.Option(metavar="TIME", help='Age that a row may have, such as "30 seconds".')
    ] = None,
    trigger: Annotated[
        str | None, typer.Option(metavar="TIME", help='How often a batch begins, or "none": batch after batch.')
    ] = None,
    as_recorded: Annotated[
        bool, typer.Option("--as-recorded", help="Take the load as it is, instead of scaling it to the peak.")
    ] = False,
    price: Annotated[
        float | None, typer.Option(min=0.0, help="Price of an executor for an hour; a column with the cost is added.")
    ] = None,
    keda_rows: Annotated[
        float | None, typer.Option(min=1.0, help="Rows of lag for each executor, the threshold of keda.")
    ] = None,
    exact_signals: Annotated[
        bool, typer.Option("--exact-signals", help="Show policies exact figures, not what batches report.")
    ] = False,
    minimum_accuracy: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Shed rows too, down to this part: shedding and scaling together."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of arrivals and batch times.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for a chart (PNG) of every trace.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay recorded loads and compare scaling policies: violations, executor-hours, rescales.

    Every trace is scaled so that its highest load needs --peak-executors, or taken as it is with --as-recorded, and
    every policy decides on the same rows, by what reports of finished batches tell. A
    sample violates the goal when a tenth of the rows due in it are late. Executor-hours count from the moment an
    executor is asked for, and are compared with those of a clairvoyant that knows the load to come.

    With --minimum-accuracy the logic that governs live queries replays each trace: shedding and scaling together, each
    of them alone, and as many executors as the peak needs. A policy other than proactive is given with --policy.

    For example:
      penstock replay --trace day.csv --policy proactive --policy hpa
      penstock replay --trace traces/ --policy all --json
      penstock replay --trace day.csv --calibration engine.json --out artifacts/replay
      penstock replay --trace own.csv --as-recorded --calibration engine.json --goal-latency "20 seconds" --price 0.12
      penstock replay --trace traces/ --goal-latency "30 seconds" --minimum-accuracy 0.5
    """
    from penstock.sim.joint_replay import JointJob, replay_all_jointly  # noqa: PLC0415 - help must not wait for numpy
    from penstock.sim.rate_traces import find_traces  # noqa: PLC0415 - as above
    from penstock.sim.replay import ReplaySettings  # noqa: PLC0415 - as above
    from penstock.sim.replay_table import ReplayJob, by_policy, losses, replay_all  # noqa: PLC0415 - as above

    policies = _policies(policy)
    if out is not None:
        require("charts", "--out")  # now, not after the last trace
    engine = engine_of(calibration, goal_latency, trigger, price)
    if as_recorded and (calibration is None or minimum_accuracy is not None):
        raise typer.BadParameter(
            "--as-recorded replays scaling alone, without --minimum-accuracy, and needs --calibration: what an "
            "executor of yours does in a second ('penstock calibrate', or a JSON object with rows_per_s)"
        )
    if gaps not in {"bridge", "refuse"}:
        raise typer.BadParameter(f"--gaps {gaps} is not one of bridge, refuse")
    settings = ReplaySettings(
        interval_s=interval,
        peak_executors=peak_executors,
        seed=seed,
        exact=exact_signals,
        as_recorded=as_recorded,
        rows_for_each=keda_rows,
    )
    loads = [read_load(path, gaps=gaps, hours=hours) for path in find_traces(trace)]
    if minimum_accuracy is not None:
        online = _online(policy)
        joint = [JointJob(load, engine, settings, minimum_accuracy, online) for load in loads]
        found = replay_all_jointly(joint, processes=processes or min(os.cpu_count() or 1, len(joint)), progress=_say)
        _show_jointly(found, engine, settings, minimum_accuracy, online, as_json=as_json)
        return
    jobs = [ReplayJob(load, engine, settings, policies, keep_runs=out is not None) for load in loads]
    workers = processes or min(os.cpu_count() or 1, len(jobs))
    results = replay_all(jobs, processes=workers, progress=_say)
    rows = [row for result in results for row in result.rows]
    charts = _charts(results, out, engine)
    lost = losses(rows)
    if as_json:
        document = {"policies": list(policies), "interval_s": interval, "peak_executors": peak_executors, "seed": seed}
        summary = {"summary": by_policy(rows), "losses": lost, "charts": charts, "rows": rows}
        print_json(document | {"calibration": _plain(engine)} | summary)
        return
    shown = (*_SHOWN, *(("executors_max",) if as_recorded else ()), *(("cost",) if price is not None else ()))
    _show(rows, ("trace", "hours", "policy", *shown))
    if len(loads) > 1:
        typer.echo("\nall traces:")
        _show(by_policy(rows), None)
    for row in lost:
        typer.echo(
            f"{row['trace']}: {row['better']} has {row['better_violations']} violations where proactive has "
            f"{row['violations']} ({row['better_of_clairvoyant']:.2f} against {row['of_clairvoyant']:.2f} of the "
            "clairvoyant's executor-hours)"
        )
    for chart in charts:
        typer.echo(f"chart: {chart}")


def engine_of(
    calibration: Path | None, goal_latency: str | None, trigger: str | None, price: float | None
) -> Calibration:
    """The engine of the calibration file, with what was given apart."""
    from dataclasses import replace  # noqa: PLC0415 - for this alone

    from penstock.model import parse_duration_s  # noqa: PLC0415 - help must not wait for numpy
    from penstock.sim.calibration import Calibration, read_calibration  # noqa: PLC0415 - as above

    engine = read_calibration(calibration) if calibration else Calibration()
    if goal_latency is not None:
        engine = replace(engine, goal_s=parse_duration_s(goal_latency, what="latency goal"))
    if trigger is not None:
        trigger_s = 0.0 if trigger == "none" else parse_duration_s(trigger, what="trigger")
        engine = replace(engine, trigger_s=trigger_s)
    return engine if price is None else replace(engine, cost_per_hour=price)


def _policies(names: Sequence[str]) -> tuple[str, ...]:
    from penstock.sim.replay import POLICIES  # noqa: PLC0415 - help must not wait for numpy

    unknown = set(names) - {"all", *POLICIES}
    if unknown:
        raise typer.BadParameter(f"policy {min(unknown)!r} is not one of all, {', '.join(POLICIES)}")
    return POLICIES if "all" in names else tuple(name for name in POLICIES if name in names)


def _online(names: Sequence[str]) -> str:
    """The one policy that decides on executors while rows are shed."""
    from penstock.control.scaling import ONLINE_POLICIES  # noqa: PLC0415 - help must not wait for numpy

    name = "proactive" if "all" in names else names[0]
    if len(names) > 1 or name not in ONLINE_POLICIES:
        raise typer.BadParameter(f"--minimum-accuracy takes one --policy of {', '.join(ONLINE_POLICIES)}")
    return name


def _show_jointly(
    rows: list[Row],
    engine: Calibration,
    settings: ReplaySettings,
    minimum_accuracy: float,
    policy: str,
    *,
    as_json: bool,
) -> None:
    from penstock.sim.joint_replay import by_way  # noqa: PLC0415 - help must not wait for numpy

    if as_json:
        document = {"minimum_accuracy_ratio": minimum_accuracy, "goal_latency_s": engine.goal_s, "policy": policy}
        document |= {"interval_s": settings.interval_s, "peak_executors": settings.peak_executors}
        summary = {"seed": settings.seed, "calibration": _plain(engine), "summary": by_way(rows), "rows": rows}
        print_json(document | summary)
        return
    _show(rows, ("trace", "hours", "way", *_SHOWN_JOINTLY))
    if len({row["trace"] for row in rows}) > 1:
        typer.echo("\nall traces:")
        _show(by_way(rows), None)


def read_load(path: Path, *, gaps: str, hours: float) -> RateTrace:
    """A recorded load by the name of its file; what is wrong with it is told with the file."""
    from penstock.errors import InvalidProfileError  # noqa: PLC0415 - help must not wait for numpy
    from penstock.sim.rate_traces import trace_rates  # noqa: PLC0415 - as above
    from penstock.spark.trace import read_trace_text  # noqa: PLC0415 - as above

    text = read_trace_text(str(path))
    name = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".rate")
    try:
        return trace_rates(name, text, gaps="hold" if gaps == "bridge" else "refuse", hours=hours)
    except InvalidProfileError as error:
        raise InvalidProfileError(f"trace {str(path)!r}: {str(error).removeprefix('load profile: ')}") from error


def _charts(results: Sequence[ReplayResult], out: Path | None, engine: Calibration) -> list[str]:
    if out is None:
        return []
    from penstock.sim.replay_charts import draw_replay  # noqa: PLC0415 - imports matplotlib

    out.mkdir(parents=True, exist_ok=True)
    return [
        str(
            draw_replay(result.runs, out / f"replay-{result.name}.png", title=result.name, calibration=engine).resolve()
        )
        for result in results
    ]


def _show(rows: Sequence[dict[str, float | int | str | bool | None]], columns: Sequence[str] | None) -> None:
    names = list(columns or rows[0])
    print_table(names, [[_text(row[name]) for name in names] for row in rows])


def _text(value: float | str | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plain(engine: Calibration) -> dict[str, float]:
    from dataclasses import asdict  # noqa: PLC0415 - for this alone

    return asdict(engine)


def _say(done: int, total: int) -> None:
    typer.echo(f"{done} of {total} traces", err=True)
