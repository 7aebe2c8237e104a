"""Figures 4 to 9 of the load-aware shedding paper as tables: one plain row a point and algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import InvalidSettingError
from penstock.research.las import ALGORITHMS, LasExperiment, run_las_points
from penstock.research.las_phases import FIGURE_9_ALGORITHMS, run_figure_9
from penstock.sim.streams import StreamShape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TIME_SERIES_FIGURE = 9


@dataclass(frozen=True, slots=True)
class FigurePlan:
    """What a figure varies, and the experiment at each of its points."""

    title: str
    x_name: str
    points: tuple[tuple[float, LasExperiment], ...]


def figure_plan(figure: int, *, underprovision: float = 0.25) -> FigurePlan:
    """Give the points of figure 4, 5, 6, 7 or 8; all but figure 4 are at one under-provisioning.

    Examples
    --------
    >>> plan = figure_plan(7)
    >>> plan.x_name, [x for x, _ in plan.points]
    ('zipf', [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
    """
    u = underprovision
    if figure == 4:  # noqa: PLR2004 - the figures' numbers are their names
        levels = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1, 0.0, -0.1)
        points = [(level, LasExperiment(underprovision=level)) for level in levels]
        return FigurePlan("Amount of under-provisioning", "underprovision", tuple(points))
    if figure == 5:  # noqa: PLR2004 - as above
        thresholds_ms = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
        points = [(t, LasExperiment(underprovision=u, threshold_s=t / 1000.0)) for t in thresholds_ms]
        return FigurePlan("Latency threshold", "threshold_ms", tuple(points))
    if figure == 6:  # noqa: PLR2004 - as above
        points = [(0.1 * 2**step, _largest_cost(0.0001 * 2**step, u)) for step in range(10)]
        return FigurePlan("Largest execution time, which is also the threshold", "largest_cost_ms", tuple(points))
    if figure == 7:  # noqa: PLR2004 - as above
        skews = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
        points = [(skew, LasExperiment(underprovision=u, shape=StreamShape(zipf=skew))) for skew in skews]
        return FigurePlan("Skew of the key frequencies (0 is uniform)", "zipf", tuple(points))
    if figure == 8:  # noqa: PLR2004 - as above
        errors = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
        points = [(error, LasExperiment(underprovision=u, epsilon=error)) for error in errors]
        return FigurePlan("Precision parameter of the sketch", "epsilon", tuple(points))
    raise InvalidSettingError("figure", figure, "a figure from 4 to 9")


def run_figure(
    figure: int,
    *,
    runs: int = 100,
    seed: int = 1,
    underprovision: float = 0.25,
    algorithms: Sequence[str] | None = None,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, float | int | str | None]]:
    """Run every point of a figure; rows carry ``figure``, ``x_name`` and ``x`` beside what an experiment tells."""
    if figure == TIME_SERIES_FIGURE:
        chosen = FIGURE_9_ALGORITHMS if algorithms is None else algorithms
        return run_figure_9(runs=runs, seed=seed, algorithms=chosen, processes=processes, progress=progress)
    plan = figure_plan(figure, underprovision=underprovision)
    chosen = ALGORITHMS if algorithms is None else algorithms
    tables = run_las_points(
        [experiment for _, experiment in plan.points],
        runs=runs, seed=seed, algorithms=chosen, processes=processes, progress=progress,
    )  # fmt: skip
    return [
        {"figure": figure, "x_name": plan.x_name, "x": x, **row}
        for (x, _), table in zip(plan.points, tables, strict=True)
        for row in table
    ]


def _largest_cost(largest_cost_s: float, underprovision: float) -> LasExperiment:
    shape = StreamShape(largest_cost_s=largest_cost_s)
    return LasExperiment(underprovision=underprovision, threshold_s=largest_cost_s, shape=shape)
