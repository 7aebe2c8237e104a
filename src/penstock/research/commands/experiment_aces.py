"""``penstock experiment aces``: weighted throughput and latency of a graph of elements, policy by policy."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.console import AsJson, print_json, print_table
from penstock.extras import require

if TYPE_CHECKING:
    from penstock.research.aces import Row

_FIGURES = ("3", "4", "5", "robustness", "equal")
_COLUMNS = (
    "figure", "clock", "buffer_rows", "burstiness_rows", "allocation_error", "policy", "weighted_rows_per_s",
    "gain_of_aces", "gain_of_aces_half_width_95", "of_log_optimum", "of_linear_optimum", "latency_mean_ms",
    "latency_std_ms", "lost_fraction", "cpu_fraction",
)  # fmt: skip


def aces(
    figure: Annotated[
        list[str] | None, typer.Option(help="3, 4, 5, robustness or equal; may be given several times. Default: all.")
    ] = None,
    elements: Annotated[int, typer.Option(min=10, max=5000, help="Processing elements of each topology.")] = 200,
    nodes: Annotated[int, typer.Option(min=1, max=2000, help="Nodes they run on, one core each.")] = 80,
    topologies: Annotated[int, typer.Option(min=1, max=1000, help="Random topologies to average over.")] = 5,
    buffer: Annotated[int, typer.Option(min=1, max=10_000, help="Buffer in figure 5 and robustness, rows.")] = 50,
    burstiness: Annotated[
        float, typer.Option(min=0.1, max=1000, help="Mean time in a state, in mean row times, but in figure 5.")
    ] = 10.0,
    clock: Annotated[str, typer.Option(help="What states pass with: 'cpu' time, 'wall' time or 'both'.")] = "both",
    rows_change_speed: Annotated[
        bool,
        typer.Option("--rows-change-speed", help="A row is worked off at the speed of each state that it meets."),
    ] = False,
    fast: Annotated[float, typer.Option(min=0.001, max=10_000, help="CPU time of a row in the fast state, ms.")] = 2.0,
    slow: Annotated[float, typer.Option(min=0.001, max=10_000, help="CPU time of a row in the slow state, ms.")] = 20.0,
    slow_share: Annotated[
        float, typer.Option(min=0, max=1, help="Part of its CPU time that an element is slow.")
    ] = 0.5,
    duration: Annotated[float, typer.Option(min=1, max=3600, help="Virtual seconds, a third of it warm-up.")] = 90.0,
    every_policy: Annotated[
        bool, typer.Option("--every-policy", help="Flink-like backpressure and a static limit as in Spark, too.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first topology.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Directory for charts (PNG).")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Processes; as many as there are cores.")] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate ACES against UDP and Lock-Step on random graphs, over buffer sizes, burstiness and wrong targets.

    Gains of ACES over each policy are paired over topologies, with 95 % intervals. The last table holds the claims
    against what was measured; a claim whose interval has the bound in it is a tie. The states are the paper's unless
    given; those of live queries are in the output of 'penstock bench fanout --json'.

    For example:
      penstock experiment aces --figure 4 --topologies 5 --json
      penstock experiment aces --elements 60 --nodes 10 --out artifacts/aces
    """
    require("research", "penstock experiment")
    from penstock.research.aces import POLICIES, AcesExperiment, StateClock  # noqa: PLC0415 - compiles on first use
    from penstock.research.aces_figures import ALL_POLICIES, AcesFigure, run_aces_figure  # noqa: PLC0415 - as above
    from penstock.research.topology import TopologyShape  # noqa: PLC0415 - as above

    wanted = _figures(figure)
    if clock not in {"both", *(each.value for each in StateClock)}:
        raise typer.BadParameter(f"clock {clock!r} is none of 'cpu', 'wall' and 'both'")
    clocks = tuple(StateClock) if clock == "both" else (StateClock(clock),)
    base = AcesExperiment(
        TopologyShape(elements=elements, engines=nodes, fast_s=fast / 1000, slow_s=slow / 1000, slow_share=slow_share),
        buffer_rows=buffer,
        burstiness_rows=burstiness,
        keeps_state=not rows_change_speed,
        duration_s=duration,
        warm_up_s=duration / 3,
    )
    tables: dict[str, list[Row]] = {}
    for name in wanted:
        same = tables.get("3") if name == "4" else tables.get("4") if name == "3" else None
        tables[name] = (
            [{**row, "figure": name} for row in same]
            if same
            else [
                row
                for each in clocks
                for row in run_aces_figure(
                    AcesFigure(name),
                    replace(base, clock=each),
                    topologies=topologies,
                    seed=seed,
                    policies=ALL_POLICIES if every_policy else POLICIES,
                    processes=processes or min(os.cpu_count() or 1, topologies),
                    progress=_say(f"{name}, {each.value} clock"),
                )
            ]
        )
    charts = _charts(tables, out)
    checks = _checks(tables)
    rows = [row for table in tables.values() for row in table]
    if as_json:
        print_json({"experiment": "aces", "clock": clock, "charts": charts, "checks": checks, "rows": rows})
        return
    figures = [row for row in rows if row["figure"] != "equal"]
    if figures:
        print_table(_COLUMNS, [[_text(row.get(name)) for name in _COLUMNS] for row in figures])
    if "equal" in tables:
        print_table(list(tables["equal"][0]), [[_text(value) for value in row.values()] for row in tables["equal"]])
    typer.echo()
    if checks:
        print_table(list(checks[0]), [[_text(value) for value in check.values()] for check in checks])
    for chart in charts:
        typer.echo(f"chart: {chart}")


def _figures(figure: list[str] | None) -> list[str]:
    wanted = list(dict.fromkeys(figure or _FIGURES))
    for name in wanted:
        if name not in _FIGURES:
            raise typer.BadParameter(f"figure {name!r} is not one of {', '.join(_FIGURES)}")
    return wanted


def _checks(tables: dict[str, list[Row]]) -> list[Row]:
    from penstock.research.aces_checks import check_buffers, check_burstiness, check_equal  # noqa: PLC0415 - imports numpy

    buffers = tables.get("4") or tables.get("3")
    checks = check_buffers(buffers) if buffers else []
    checks += check_burstiness(tables["5"]) if "5" in tables else []
    return [*checks, *(check_equal(tables["equal"]) if "equal" in tables else [])]


def _charts(tables: dict[str, list[Row]], out: Path | None) -> list[str]:
    if out is None:
        return []
    from penstock.research.aces_charts import draw_aces  # noqa: PLC0415 - imports matplotlib
    from penstock.research.aces_figures import AcesFigure  # noqa: PLC0415 - as above

    out.mkdir(parents=True, exist_ok=True)
    return [
        str(draw_aces(AcesFigure(name), own, out / f"aces-figure-{name}-{clock}.png").resolve())
        for name, rows in tables.items()
        if name != "equal"
        for clock in dict.fromkeys(str(row["clock"]) for row in rows)
        for own in ([row for row in rows if row["clock"] == clock],)
    ]


def _text(value: float | str | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _say(figure: str) -> Callable[[int, int], None]:
    def say(done: int, total: int) -> None:
        typer.echo(f"figure {figure}: {done} of {total} topologies run", err=True)

    return say
