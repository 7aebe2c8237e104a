"""Charts like figures 3, 4, 5, 7 and 8 of "Stream-Economics", drawn without a display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.sim.panels import new_panels, save_panels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.research.qod import Scenario
    from penstock.sim.fleet import FleetRun

_SOURCES = ("TDSrc1", "TDSrc2", "KNNSrc1")


def draw_scenario(scenario: Scenario, run: FleetRun, path: Path) -> Path:
    """CPU of each engine by query, accuracies of the sinks, rows kept at the sources (figures 3 and 4)."""
    figure, panels = new_panels(4)
    for axes, engine in zip(panels, ("TM1", "TM2"), strict=False):
        _stack(axes, run, engine)
        axes.set(ylabel=f"{engine}, cores", ylim=(0, 1.05))
    for query in run.queries:
        if not query.startswith("TDSrc"):
            panels[2].plot(run.time_s, _series(run, query, "accuracy"), label=query, linewidth=1)
    for query in _SOURCES:
        if query in run.queries:
            panels[3].plot(run.time_s, _series(run, query, "kept_rows"), label=query, linewidth=0.8)
    panels[2].set(ylabel="accuracy", ylim=(0, 1.05))
    panels[3].set(ylabel="rows/s kept", xlabel="second")
    for axes in panels:
        axes.legend(fontsize="x-small", loc="upper left", ncols=3)
    _mark(panels, scenario)
    return save_panels(figure, path, f"Scenario {scenario.name}")


def draw_topic(scenario: Scenario, run: FleetRun, path: Path) -> Path:
    """Accuracy, rate and estimated rate, lag (figure 5)."""
    figure, (accuracy, rate, lag) = new_panels(3)
    (truth,) = scenario.script.rates.values()
    estimated = np.nansum([_series(run, query, "estimated_rows_per_s") for query in run.queries], axis=0)
    accuracy.plot(run.time_s, _series(run, next(iter(run.queries)), "accuracy"), linewidth=1)
    rate.plot(run.time_s, [truth(time_s) for time_s in run.time_s], linewidth=1, label="rate")
    rate.plot(run.time_s, estimated, linewidth=1, label="estimated")
    for query in run.queries:
        lag.plot(run.time_s, _series(run, query, "backlog_rows"), linewidth=0.8, label=query)
    accuracy.set(ylabel="accuracy", ylim=(0, 1.05))
    rate.set(ylabel="rows/s")
    lag.set(ylabel="lag, rows", xlabel="second")
    for axes in (rate, lag):
        axes.legend(fontsize="x-small")
    _mark((accuracy, rate, lag), scenario)
    return save_panels(figure, path, f"Scenario {scenario.name}")


def draw_rising_rate(runs: Mapping[str, FleetRun], path: Path) -> Path:
    """Lag, rows kept and latency as the rate rises, with and without (figure 8)."""
    figure, (lag, kept, latency) = new_panels(3)
    for name, run in runs.items():
        lag.plot(
            run.time_s, np.nansum([_series(run, query, "backlog_rows") for query in run.queries], axis=0), label=name
        )
        kept.plot(run.time_s, _series(run, "TDSnk2", "kept_rows"), linewidth=0.8, label=name)
        latency.plot(run.time_s, _series(run, "TDSnk2", "latency_s"), linewidth=0.8, label=name)
    lag.set(ylabel="lag, rows", yscale="symlog")
    kept.set(ylabel="TDSnk2, rows/s kept")
    latency.set(ylabel="latency, s", yscale="log", xlabel="second")
    for axes in (lag, kept, latency):
        axes.legend(fontsize="x-small")
    return save_panels(figure, path, "Assessment 2: rising rate on one engine")


def draw_cycle_times(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Cycle time by number of tasks (figure 7)."""
    figure, (axes,) = new_panels(1, height=4.0)
    for engines in sorted({row["engines"] for row in rows}):
        own = [row for row in rows if row["engines"] == engines]
        axes.plot([row["tasks"] for row in own], [row["median_ms"] for row in own], "o-", label=f"{engines} engines")
    axes.axhline(115, color="k", linewidth=0.8, linestyle=":")
    axes.annotate("the paper at 2,000 tasks: 115 ms", (axes.get_xlim()[0], 115), fontsize="small", va="bottom")
    axes.set(xlabel="tasks", ylabel="cycle time, ms (median)", xscale="log", yscale="log")
    axes.legend(fontsize="small")
    return save_panels(figure, path, "Assessment 1: cycle time")


def _series(run: FleetRun, query: str, what: str) -> list[float]:
    return [np.nan if second is None else float(getattr(second, what)) for second in run.queries[query]]


def _stack(axes: Any, run: FleetRun, engine: str) -> None:  # noqa: ANN401 - matplotlib has no types
    on_engine = [
        [0.0 if second is None or second.engine != engine else second.cores for second in seconds]
        for seconds in run.queries.values()
    ]
    axes.stackplot(run.time_s, on_engine, labels=list(run.queries), linewidth=0)


def _mark(panels: Sequence[Any], scenario: Scenario) -> None:
    for at_s, name in scenario.marks:
        for axes in panels:
            axes.axvline(at_s, color="k", linewidth=0.6, linestyle=":")
        panels[0].annotate(name, (at_s, 1.0), xycoords=("data", "axes fraction"), fontsize="small")
