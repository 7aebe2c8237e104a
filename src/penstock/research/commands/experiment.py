"""``penstock experiment``: the papers' experiments, as tables, charts and JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.console import AsJson, print_json, print_table
from penstock.extras import require
from penstock.research.commands.experiment_aces import aces
from penstock.research.commands.experiment_elastic import elastic
from penstock.research.commands.experiment_qod import qod
from penstock.research.commands.experiment_sage import sage

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(help="Repeat the experiments of the papers that Penstock is built on.", rich_markup_mode=None)

_FIGURES = (4, 5, 6, 7, 8, 9)
_LIVE_FIGURES = (10, 11)
_LIVE_GOAL_S = 4.0


@app.callback()
def experiment() -> None:
    """Repeat the experiments of the papers that Penstock is built on.

    For example:
      penstock experiment las --underprovision 0.25 --runs 100
      penstock experiment aces --figure 4
      penstock experiment elastic
      penstock experiment qod --scenario 2
      penstock experiment sage
    """


app.command()(aces)
app.command()(elastic)
app.command()(qod)
app.command()(sage)


@app.command()
def las(
    underprovision: Annotated[
        float, typer.Option(min=-0.9, max=0.99, help="Share by which the operator is too slow for its input.")
    ] = 0.25,
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="Streams to run; the paper has 5000.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the streams.")] = 1,
    figure: Annotated[int | None, typer.Option(help="Repeat one figure, 4 to 9 simulated, 10 and 11 on Spark.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for the figure's chart (PNG).")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    phase_seconds: Annotated[
        float, typer.Option(min=3, max=600, help="Length of each of the seven phases of figures 10 and 11.")
    ] = 15.0,
    as_json: AsJson = False,
) -> None:
    """Simulate load-aware shedding against its baselines, and economic shedding beside them.

    Mean queueing latency and dropped share of each algorithm over the same streams of 32,768 rows. Figures 10 and 11
    run on live Spark instead: completion latency and dropped share over time, for a stream that changes seven times
    and for one of mentions. They take about ten minutes each.

    For example:
      penstock experiment las --underprovision 0.25 --runs 100 --json
      penstock experiment las --figure 4 --out artifacts/las
      penstock experiment las --figure 10 --out artifacts/las
    """
    require("research", "penstock experiment")
    from penstock.research.las import LasExperiment, run_las_experiment  # noqa: PLC0415 - compiles on first use
    from penstock.research.las_figures import run_figure  # noqa: PLC0415 - as above

    if figure is not None and figure not in (*_FIGURES, *_LIVE_FIGURES):
        known = ", ".join(map(str, (*_FIGURES, *_LIVE_FIGURES)))
        raise typer.BadParameter(f"figure {figure} is not one of {known}")
    workers = processes or min(os.cpu_count() or 1, runs)
    settings = {"runs": runs, "seed": seed, "processes": workers, "progress": _Say()}
    if figure is None:
        rows = run_las_experiment(LasExperiment(underprovision=underprovision), **settings)  # type: ignore[arg-type]
    elif figure in _LIVE_FIGURES:
        rows = _run_live(figure, phase_seconds)
    else:
        rows = run_figure(figure, underprovision=underprovision, **settings)  # type: ignore[arg-type]
    chart = _chart(figure, rows, out)
    if as_json:
        print_json({"experiment": "las", "figure": figure, "chart": chart, "rows": rows})
        return
    columns = [name for name in rows[0] if name not in {"runs", "seed"}]
    print_table(columns, [[_text(row[name]) for name in columns] for row in rows])
    if chart is not None:
        typer.echo(f"\nchart: {chart}")


def _run_live(figure: int, phase_s: float) -> list[dict[str, float | int | str | None]]:
    from penstock.research.las_live import POLICIES, run_live_figure  # noqa: PLC0415 - imports Spark

    return run_live_figure(
        figure, goal_s=_LIVE_GOAL_S, phase_s=phase_s, policies=POLICIES, say=lambda text: typer.echo(text, err=True)
    )


def _chart(figure: int | None, rows: Sequence[dict[str, float | int | str | None]], out: Path | None) -> str | None:
    if figure is None or out is None:
        return None
    from penstock.research.las_charts import draw_figure  # noqa: PLC0415 - imports matplotlib

    out.mkdir(parents=True, exist_ok=True)
    return str(draw_figure(rows, out / f"las-figure-{figure}.png", title=f"LAS, figure {figure}").resolve())


def _text(value: float | str | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class _Say:
    """Says how far a long run is, every tenth of it."""

    def __init__(self) -> None:
        self._said = 0

    def __call__(self, done: int, total: int) -> None:
        tenths = 10 * done // max(total, 1)
        if tenths > self._said:
            self._said = tenths
            typer.echo(f"{done} of {total} runs", err=True)
