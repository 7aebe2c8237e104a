"""``penstock experiment qod``: the scenarios and assessments of "Stream-Economics"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.console import AsJson, print_json, print_table
from penstock.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = dict[str, float | int | str | bool | None]

_SCENARIOS, _ASSESSMENTS = (1, 2, 3), (1, 2)
_SIZES = ((100, 2), (500, 2), (1000, 2), (2000, 2), (2000, 20), (10_000, 20))
_CYCLES = 20


def qod(
    scenario: Annotated[
        int | None, typer.Option(min=1, max=3, help="Only this scenario: 1 equal priorities, 2 different, 3 one topic.")
    ] = None,
    assessment: Annotated[
        int | None, typer.Option(min=1, max=2, help="Only this assessment: 1 cycle time, 2 rising rate.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="On live engines over Kafka, one pinned core each; needs --scenario.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of rates and downtimes, where they are simulated.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for charts (PNG).")] = None,
    as_json: AsJson = False,
) -> None:
    """Repeat the experiments of "Stream-Economics" on simulated engines: priorities, moves, load, cost.

    Taxi Drives and k nearest neighbours on engines of one core each, governed by the logic that governs live fleets.
    Each scenario tells its phases, what waited after each change of rate, and what must be seen against what was.

    For example:
      penstock experiment qod --out artifacts/qod
      penstock experiment qod --scenario 2
      penstock experiment qod --assessment 2 --json
      penstock experiment qod --scenario 2 --live
    """
    require("research", "penstock experiment")
    if live and scenario is None:
        raise typer.BadParameter("name one with --scenario, each takes some minutes", param_hint="--live")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    if live and scenario is not None:
        _print({"experiment": "qod", f"scenario_{scenario}": _live_scenario(scenario, out)}, as_json=as_json)
        return
    alone = scenario is not None or assessment is not None
    document: dict[str, object] = {"experiment": "qod", "seed": seed}
    for number in _SCENARIOS:
        if scenario == number or not alone:
            document[f"scenario_{number}"] = _scenario(number, seed, out)
    for number in _ASSESSMENTS:
        if assessment == number or not alone:
            document[f"assessment_{number}"] = _assess_cycles(out) if number == 1 else _assess_rate(seed, out)
    _print(document, as_json=as_json)


def _print(document: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    for name, content in document.items():
        if isinstance(content, dict):
            _show(name, content)


def _live_scenario(number: int, out: Path | None) -> dict[str, object]:
    require("kafka", "penstock experiment qod --live")
    require("serve", "penstock experiment qod --live", "fastapi", "uvicorn", "httpx")
    from penstock.research.qod_figures import backlog_rows, phase_rows  # noqa: PLC0415 - imports numpy
    from penstock.research.qod_live import LIVE_SCENARIOS, run_live  # noqa: PLC0415 - as above
    from penstock.research.qod_live_checks import live_checks  # noqa: PLC0415 - as above

    scenario = LIVE_SCENARIOS[number]()
    typer.echo(f"scenario {scenario.name}", err=True)
    run, engines = run_live(
        scenario, say=lambda line: typer.echo(line, err=True), place=None if out is None else out / "fleet"
    )
    document: dict[str, object] = {
        "phases": phase_rows(scenario, run),
        "backlog": backlog_rows(scenario, run),
        "engines": engines,
        "checks": live_checks(scenario, run, number),
    }
    if out is not None:
        from penstock.research.qod_charts import draw_scenario, draw_topic  # noqa: PLC0415 - imports matplotlib

        draw = draw_topic if number == _SCENARIOS[-1] else draw_scenario
        document["chart"] = str(draw(scenario, run, out / f"qod-live-scenario-{number}.png").resolve())
    return document


def _scenario(number: int, seed: int, out: Path | None) -> dict[str, object]:
    from penstock.research.qod import SCENARIOS  # noqa: PLC0415 - imports numpy
    from penstock.research.qod_checks import checks  # noqa: PLC0415 - as above
    from penstock.research.qod_figures import backlog_rows, compare_backlogs, phase_rows  # noqa: PLC0415 - as above

    scenario = SCENARIOS[number]()
    typer.echo(f"scenario {scenario.name}", err=True)
    run = scenario.run(seed=seed)
    document: dict[str, object] = {
        "phases": phase_rows(scenario, run),
        "backlog": backlog_rows(scenario, run) if number != _SCENARIOS[-1] else compare_backlogs(seed=seed),
        "checks": checks(scenario, run, number),
    }
    if out is not None:
        from penstock.research.qod_charts import draw_scenario, draw_topic  # noqa: PLC0415 - imports matplotlib

        draw = draw_topic if number == _SCENARIOS[-1] else draw_scenario
        document["chart"] = str(draw(scenario, run, out / f"qod-scenario-{number}.png").resolve())
    return document


def _assess_cycles(out: Path | None) -> dict[str, object]:
    from penstock.bench.qod import measure_cycles  # noqa: PLC0415 - imports numpy

    rows = []
    for tasks, engines in _SIZES:
        typer.echo(f"cycles of {tasks} tasks on {engines} engines", err=True)
        rows.append(measure_cycles(tasks, engines, cycles=_CYCLES))
    document: dict[str, object] = {"rows": rows}
    if out is not None:
        from penstock.research.qod_charts import draw_cycle_times  # noqa: PLC0415 - imports matplotlib

        document["chart"] = str(draw_cycle_times(rows, out / "qod-cycle-time.png").resolve())
    return document


def _assess_rate(seed: int, out: Path | None) -> dict[str, object]:
    from penstock.research.qod_figures import assess_rising_rate  # noqa: PLC0415 - imports numpy

    typer.echo("rising rate, with and without", err=True)
    governed, alone, rows = assess_rising_rate(seed=seed)
    document: dict[str, object] = {"rows": rows}
    if out is not None:
        from penstock.research.qod_charts import draw_rising_rate  # noqa: PLC0415 - imports matplotlib

        runs = {"with": governed, "without": alone}
        document["chart"] = str(draw_rising_rate(runs, out / "qod-rising-rate.png").resolve())
    return document


def _show(name: str, content: dict[str, object]) -> None:
    typer.echo(f"\n{name.replace('_', ' ')}")
    for part, rows in content.items():
        if isinstance(rows, list):
            typer.echo("")
            _print_rows(rows)
        else:
            typer.echo(f"\n{part}: {rows}")


def _print_rows(rows: Sequence[Row]) -> None:
    print_table(list(rows[0]), [[_text(value) for value in row.values()] for row in rows])


def _text(value: float | str | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
