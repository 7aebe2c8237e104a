"""``penstock size``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import SettingsPath, open_store
from penstock.console import AsJson, local_time, print_json, print_table, short_number
from penstock.report.text import clean

if TYPE_CHECKING:
    from penstock.report.sizing import SizingReport
    from penstock.settings import SizingSettings

_SHOWN = (
    ("heap_used_mb", "MB"), ("heap_committed_mb", "MB"), ("gc_fraction", ""), ("gc_count", ""), ("jvm_rss_mb", "MB"),
    ("python_rss_mb", "MB"), ("off_heap_mb", "MB"), ("cpu_fraction", ""), ("busy_fraction", ""), ("spilled_mb", "MB"),
    ("state_mb", "MB"), ("backlog_rows", "rows"), ("arrival_rows_per_s", "rows/s"), ("processed_rows_per_s", "rows/s"),
    ("lost_to_heap", "executors"), ("lost_to_memory", "executors"),
)  # fmt: skip


def command(
    app: Annotated[
        Path | None,
        typer.Argument(
            metavar="APP", help="File of the action log of an attached application; default: the setting store.path."
        ),
    ] = None,
    *,
    event_log: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Event logs of Spark instead, of applications that ran without Penstock."),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Show every change of size, with what was expected and what was seen.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Ask the running application to make the change, once, at its next window.")
    ] = False,
    as_json: AsJson = False,
    settings: SettingsPath = None,
) -> None:
    """Show what size an application should have and why, policy by policy; nothing is changed.

    An application that is attached with [sizing] mode = "recommend" or "apply" tells by its action log. One that ran
    without Penstock tells by Spark's event logs; with spark.executor.processTreeMetrics.enabled they tell of memory,
    too.

    For example:
      penstock size
      penstock size /var/lib/penstock/actions.db --history
      penstock size --event-log /var/log/spark-events --json
    """
    from penstock.settings import load_settings  # noqa: PLC0415 - help must not wait for it

    chosen = load_settings(settings, environment=os.environ).sizing
    if event_log is not None:
        if history or apply:
            raise typer.BadParameter("an event log can be neither changed nor asked for its history of sizes")
        _show_logs(event_log, chosen, as_json=as_json)
    elif history:
        _show_history(app, settings, as_json=as_json)
    else:
        _show_store(app, settings, chosen, apply=apply, as_json=as_json)


def _show_logs(path: Path, chosen: "SizingSettings", *, as_json: bool) -> None:
    from penstock.report.sizing import judge_windows  # noqa: PLC0415 - as above
    from penstock.spark.event_log import read_event_logs  # noqa: PLC0415 - as above

    reports = [
        judge_windows(
            f"{each.name} ({each.app_id})", ((one.signal, one.shape) for one in each.windows), chosen,
            missing=each.missing,
        )
        for each in read_event_logs(path, window_s=chosen.window_s)
    ]  # fmt: skip
    if as_json:
        print_json({"rows": [report.to_dict() for report in reports]})
        return
    for number, report in enumerate(reports):
        if number:
            typer.echo("")
        _print(report)


def _show_store(
    app: Path | None, settings: Path | None, chosen: "SizingSettings", *, apply: bool, as_json: bool
) -> None:
    from penstock.report.sizing import sizing_report  # noqa: PLC0415 - as above
    from penstock.store.size_request import ask_for_size  # noqa: PLC0415 - as above

    with open_store(app, settings) as opened:
        report = sizing_report(opened, chosen, name=str(opened.path))
        asked = apply and report.wanted is not None
        if asked:
            ask_for_size(opened.path)
    if as_json:
        print_json({**report.to_dict(), "is_asked_for": asked})
        return
    _print(report)
    if apply:
        typer.echo(
            "\nasked for: the application makes the change at its next window"
            if asked
            else "\nthere is nothing to apply"
        )


def _show_history(app: Path | None, settings: Path | None, *, as_json: bool) -> None:
    from penstock.report.sizing import sizing_history  # noqa: PLC0415 - as above

    with open_store(app, settings) as opened:
        rows = [action.to_dict() for action in sizing_history(opened)]
    if as_json:
        print_json({"rows": rows})
        return
    if not rows:
        typer.echo("no change of size on record")
        return
    print_table(
        ["time", "policy", "change", "reason", "outcome", "effect"],
        [
            [local_time(row["time_s"]), row["policy"], f"{row['previous']} -> {row['shape']}", row["reason"],
             _outcome(row), row["effect"] or ""]
            for row in rows
        ],
    )  # fmt: skip


def _outcome(row: dict[str, Any]) -> str:
    if row["policy"] == "operator":
        return "by hand"
    if row["is_done"] is None:
        return "recommended" if row["mode"] == "act" else "observed only"
    took = "" if row["took_s"] is None else f" in {row['took_s']:.0f} s"
    return f"{row['way']}{took}" if row["is_done"] else f"failed: {row['outcome']}"


def _print(report: "SizingReport") -> None:
    typer.echo(clean(report.name))
    if report.shape is None or report.round is None or report.newest is None:
        typer.echo('no window is known: attach with [sizing] mode = "recommend", or let it run for longer')
        return
    typer.echo(f"now:    {report.shape}, {report.windows} windows seen")
    wanted = "all stays as it is" if report.wanted is None else str(report.wanted)
    typer.echo(f"wanted: {wanted}")
    resized = report.round.resized
    if resized is not None and resized.unplaced:
        typer.echo(f"        {clean(resized.unplaced)}")
    for missing in report.missing:
        typer.echo(f"not known without {clean(missing)}")
    typer.echo("")
    print_table(
        ["policy", "", "decides", "why"],
        [
            [verdict.policy, verdict.title, "yes" if verdict.decision is not None else "", verdict.reason]
            for verdict in report.round.verdicts
        ],
    )
    typer.echo("")
    newest = report.newest.to_dict()
    print_table(
        ["metric, last window", "value", "unit"],
        [[name, short_number(newest[name]), unit] for name, unit in _SHOWN if newest[name] is not None],
    )
