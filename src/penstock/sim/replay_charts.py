"""A chart of policies on one load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.sim.panels import new_panels, save_panels

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.sim.calibration import Calibration
    from penstock.sim.replay import Run

_LONGEST_LINE = 4_000


def draw_replay(runs: Mapping[str, Run], path: Path, *, title: str, calibration: Calibration) -> Path:
    """Load, executors and late rows of every policy on one trace."""
    figure, (load, size, late) = new_panels(3)
    for number, (policy, run) in enumerate(runs.items()):
        step = max(1, len(run.demand) // _LONGEST_LINE)
        samples = np.arange(0, len(run.demand), step)
        if not number:
            load.plot(samples, np.array(run.demand)[::step] / calibration.rows_per_s, "k", linewidth=0.8)
        size.step(samples, np.array(run.executors)[::step], where="post", linewidth=0.9, label=policy)
        late.plot(samples, np.array(run.late_share)[::step], linewidth=0.8, label=policy)
    load.set(ylabel="load, executors' worth")
    size.set(ylabel="executors")
    size.legend(fontsize="x-small", ncols=5)
    late.set(ylabel="late share of rows", xlabel="sample")
    return save_panels(figure, path, title)
