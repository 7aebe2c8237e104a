"""Charts of scaling, like figures 27 to 36 of the thesis, drawn without a display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.sim.panels import new_panels, save_panels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.research.elastic import ElasticRun, Exploration
    from penstock.research.thesis_performance import PerformanceModel


def draw_performance(run: ElasticRun, path: Path, *, title: str, limit: float) -> Path:
    """Workload, executors and backlog ratio over samples (figures 27, 29 and 32)."""
    figure, (load, size, share) = new_panels(3)
    samples = np.arange(len(run.demand))
    load.plot(samples, run.demand, linewidth=0.9)
    size.step(samples, run.executors, where="post")
    share.plot(samples, run.backlog_ratio, linewidth=0.9)
    share.axhline(limit, color="k", linewidth=0.8)
    load.set(ylabel="rows/s")
    size.set(ylabel="executors")
    share.set(ylabel="backlog ratio", xlabel="sample", ylim=(0, max(2 * limit, 0.2)))
    return save_panels(figure, path, title)


def draw_model(
    model: PerformanceModel, samples: Sequence[np.ndarray[Any, Any]], path: Path, *, title: str, limit: float
) -> Path:
    """Measured backlog ratios and the model's line for each number of executors (figures 28 and 33)."""
    figure, (axes,) = new_panels(1, height=5.0)
    demand, executors, share = samples
    for size in np.unique(executors):
        own = executors == size
        (dots,) = axes.plot(demand[own], share[own], ".", markersize=3, label=f"{int(size)}")
        line = np.linspace(0.0, demand[own].max(), 100)
        axes.plot(line, model.predict(line, size), color=dots.get_color(), linewidth=1.2)
    axes.axhline(limit, color="k", linewidth=0.8)
    axes.set(xlabel="workload, rows/s", ylabel="backlog ratio", ylim=(0, max(3 * limit, 0.2)))
    axes.legend(title="executors", fontsize="small")
    return save_panels(figure, path, title)


def draw_predictions(run: ElasticRun, path: Path, *, title: str) -> Path:
    """Queue share and workload, predicted and measured, with residuals (figures 30 and 34)."""
    figure, (share, residual, load) = new_panels(3)
    samples = np.arange(len(run.demand))
    share.plot(samples, run.backlog_ratio, linewidth=0.9, label="measured")
    share.plot(samples, run.predicted_share, linewidth=0.9, label="predicted")
    residual.plot(samples, np.abs(np.array(run.backlog_ratio) - np.array(run.predicted_share)), linewidth=0.9)
    load.plot(samples, run.demand, linewidth=0.9, label="measured")
    load.plot(samples, run.predicted_demand, linewidth=0.9, label="predicted")
    share.set(ylabel="backlog ratio", ylim=(0, 0.3))
    residual.set(ylabel="residual", ylim=(0, 0.3))
    load.set(ylabel="rows/s", xlabel="sample")
    share.legend(fontsize="small")
    load.legend(fontsize="small")
    return save_panels(figure, path, title)


def draw_comparison(runs: Mapping[str, ElasticRun], path: Path, *, title: str, limit: float) -> Path:
    """Two policies over the same load (figures 31 and 35)."""
    figure, (load, size, share) = new_panels(3)
    for policy, run in runs.items():
        time_s = np.array(run.time_s)
        size.step(time_s, run.executors, where="post", label=f"{policy}: {run.executors_mean:.2f} a sample")
        share.plot(time_s, run.backlog_ratio, linewidth=0.8, label=f"{policy}: {run.violations} violations")
        load.plot(time_s, run.demand, linewidth=0.8)
    share.axhline(limit, color="k", linewidth=0.8)
    load.set(ylabel="rows/s")
    size.set(ylabel="executors")
    share.set(ylabel="backlog ratio", xlabel="second", ylim=(0, max(3 * limit, 0.2)))
    size.legend(fontsize="small")
    share.legend(fontsize="small")
    return save_panels(figure, path, title)


def draw_utilisation(runs: Mapping[str, ElasticRun], path: Path, *, title: str, capacity_rows_per_s: float) -> Path:
    """Executors there are, and executors that the workload needs (figure 36)."""
    figure, axes = new_panels(len(runs))
    for panel, (policy, run) in zip(axes, runs.items(), strict=True):
        time_s = np.array(run.time_s)
        panel.step(time_s, run.executors, where="post", label="executors")
        panel.plot(time_s, np.array(run.demand) / capacity_rows_per_s, linewidth=0.9, label="workload / capacity")
        panel.set(ylabel=policy)
        panel.legend(fontsize="small")
    axes[-1].set(xlabel="second")
    return save_panels(figure, path, title)


def draw_experiments(
    explored: Exploration,
    gaussian: Mapping[str, ElasticRun],
    world_cup: Mapping[str, ElasticRun],
    out: Path,
    *,
    limit: float,
) -> list[Path]:
    """Figures 27 to 36, as far as there is something to draw."""
    model, samples = explored.scaler.learned.model, explored.scaler.samples.columns()
    capacity = explored.scaler.reactive.capacity.rows_per_s or 1.0
    charts = [
        draw_performance(explored.run, out / "figure-27.png", title="Exploration, gaussian load", limit=limit),
        draw_performance(gaussian["proactive"], out / "figure-29.png", title="Optimal control, gaussian", limit=limit),
        draw_predictions(gaussian["proactive"], out / "figure-30.png", title="Predictions, gaussian load"),
        draw_comparison(gaussian, out / "figure-31.png", title="Gaussian load", limit=limit),
        draw_performance(world_cup["proactive"], out / "figure-32.png", title="World Cup load", limit=limit),
        draw_predictions(world_cup["proactive"], out / "figure-34.png", title="Predictions, World Cup load"),
        draw_comparison(world_cup, out / "figure-35.png", title="World Cup load", limit=limit),
        draw_utilisation(world_cup, out / "figure-36.png", title="World Cup load", capacity_rows_per_s=capacity),
    ]
    if model is not None:
        place = out / "figure-28.png"
        charts.insert(1, draw_model(model, samples, place, title="Performance model, gaussian load", limit=limit))
    return charts
