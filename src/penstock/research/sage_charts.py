"""Charts of the sizing experiment, drawn without a display."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.research.sage import RIGHT_SIZE
from penstock.research.sage_fleet import WINDOW_S
from penstock.sim.panels import new_panels, save_panels

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.research.sage import FleetResult


def draw_fleet(result: FleetResult, path: Path) -> Path:
    """Cost of every application over its optimum, window by window."""
    figure, (over_time,) = new_panels(1, height=6.0)
    minutes = np.arange(len(result.applications[0].cost_over_time)) * WINDOW_S / 60.0
    costs = np.array([application.cost_over_time for application in result.applications])
    for cost in costs:
        over_time.plot(minutes, cost, linewidth=0.4, alpha=0.35, color="C0")
    over_time.plot(minutes, np.median(costs, axis=0), color="k", linewidth=1.6, label="median")
    over_time.axhspan(1.0 - RIGHT_SIZE, 1.0 + RIGHT_SIZE, color="C2", alpha=0.15, label="within 10 %")
    over_time.set(ylabel="cost over optimum", xlabel="stream minute", yscale="log")
    over_time.legend(fontsize="small")
    return save_panels(figure, path, f"Sizing {len(result.applications)} applications")
