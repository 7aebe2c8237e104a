"""Figures 3, 4 and 5 of the ACES paper and its robustness to wrong allocations, point by point."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.research.aces import POLICIES, AcesExperiment, run_aces_points
from penstock.research.element_policies import Policy
from penstock.research.equal_throughput import run_equal_throughput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.research.aces import Row


class AcesFigure(StrEnum):
    """What can be repeated of the paper.

    Figure 3 and 4 are the same runs, told as latency with its deviation against buffer size and as latency against
    weighted throughput. ``EQUAL`` compares latencies where both policies have the same throughput.
    """

    LATENCY = "3"
    TRADE_OFF = "4"
    BURSTINESS = "5"
    ROBUSTNESS = "robustness"
    EQUAL = "equal"


BUFFERS_ROWS = (1, 2, 5, 10, 20, 50, 100, 200)
BURSTINESS_ROWS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
ALLOCATION_ERRORS = (0.0, 0.1, 0.2, 0.4)
EQUAL_BUFFERS_ROWS = (1, 5, 50)
ALL_POLICIES = (*POLICIES, Policy.BACKPRESSURE, Policy.STATIC_LIMIT)


def figure_points(figure: AcesFigure, base: AcesExperiment) -> list[AcesExperiment]:
    """The experiments behind a figure.

    Examples
    --------
    >>> [point.buffer_rows for point in figure_points(AcesFigure.TRADE_OFF, AcesExperiment())]
    [1, 2, 5, 10, 20, 50, 100, 200]
    """
    if figure is AcesFigure.BURSTINESS:
        return [replace(base, burstiness_rows=value) for value in BURSTINESS_ROWS]
    if figure is AcesFigure.ROBUSTNESS:
        return [replace(base, allocation_error=value) for value in ALLOCATION_ERRORS]
    buffers = EQUAL_BUFFERS_ROWS if figure is AcesFigure.EQUAL else BUFFERS_ROWS
    return [replace(base, buffer_rows=value) for value in buffers]


def run_aces_figure(
    figure: AcesFigure,
    base: AcesExperiment,
    *,
    topologies: int,
    seed: int = 1,
    policies: Sequence[Policy] = POLICIES,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Run all points of a figure; one row for each point and policy."""
    points = figure_points(figure, base)
    if figure is AcesFigure.EQUAL:
        rows = run_equal_throughput(points, topologies=topologies, seed=seed, processes=processes, progress=progress)
        return [{"figure": figure.value, **row} for row in rows]
    tables = run_aces_points(
        points, topologies=topologies, seed=seed, policies=policies, processes=processes, progress=progress
    )
    return [{"figure": figure.value, **row} for rows in tables for row in rows]
