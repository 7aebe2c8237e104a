"""A yardstick for spells and accidents: a law that knows all there is to know, but not what is to come.

It is told what batches cost, how much they scatter and how fast the machine was when its newest finished batch began.
What is left to choose is how long batches are: shorter ones are late less often when one takes several times as long,
and have less room for rows. The runs are those of :mod:`penstock.bench.loops`, by the same seeds, for a range of
lengths: so they say which pairs of late and kept rows some length gives, if it is known beforehand and kept to.

It is no bound. A law that changes its lengths at the right moments may do better, and one that kept the youngest rows
of each batch alone would be late less, and tell nothing of the others.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from penstock.bench.loops import STEP_LOADS, STEP_NOISES, STEP_OVERHEADS_S, LoopCase, run_unforeseeing

if TYPE_CHECKING:
    from collections.abc import Mapping

LENGTH_PARTS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)
KEPT_WANTED = 0.95
_LATE_WANTED, _LATE_WANTED_SCATTERING, _SCATTERING = 0.02, 0.05, 0.3
DISTURBANCES = ("spells", "accidents")
Point = tuple[float, float]
"""Part of the kept rows that is late, and kept of what fits."""


def limits(seeds: int, *, processes: int) -> list[dict[str, object]]:
    """A row for each overhead, scatter and disturbance: what late and kept rows come to with any length."""
    kinds = list(itertools.product(STEP_OVERHEADS_S, STEP_NOISES, DISTURBANCES))
    cases = [
        (LoopCase(overhead_s, noise, load, kind, seed), part)
        for (overhead_s, noise, kind), part, load, seed in itertools.product(
            kinds, LENGTH_PARTS, STEP_LOADS, range(seeds)
        )
    ]
    with ProcessPoolExecutor(processes) as pool:
        points = list(pool.map(run_unforeseeing, *zip(*cases, strict=True), chunksize=8))
    found = np.array(points).reshape(len(kinds), len(LENGTH_PARTS), -1, 2).mean(axis=2)
    return [_row(*kind, dict(zip(LENGTH_PARTS, map(tuple, curve.tolist()), strict=True)))
            for kind, curve in zip(kinds, found, strict=True)]  # fmt: skip


def late_wanted(noise: float) -> float:
    """Part of the kept rows that may be late: more where batches scatter by a third."""
    return _LATE_WANTED_SCATTERING if noise >= _SCATTERING else _LATE_WANTED


def _row(overhead_s: float, noise: float, disturbance: str, curve: Mapping[float, Point]) -> dict[str, object]:
    return {
        "overhead_s": overhead_s,
        "noise": noise,
        "disturbance": disturbance,
        "late_ratio_wanted": late_wanted(noise),
        **bounds(curve, late_wanted(noise)),
    }


def bounds(curve: Mapping[float, Point], late_ratio: float) -> dict[str, float | bool | None]:
    """Of late and kept rows by length: the least and the most of them, and whether a length does both.

    Examples
    --------
    Half the length is in time and keeps too little, all of it keeps what fits and is late:

    >>> curve = {1.0: (0.05, 1.0), 0.75: (0.03, 0.96), 0.5: (0.01, 0.9)}
    >>> found = bounds(curve, 0.02)
    >>> found["least_late_ratio_where_kept"], found["most_kept_ratio_where_in_time"], found["some_length_does"]
    (0.03, 0.9, False)
    """
    late = [point[0] for point in curve.values() if point[1] >= KEPT_WANTED]
    kept = [point[1] for point in curve.values() if point[0] <= late_ratio]
    return {
        "late_ratio_of_full_length": curve[max(curve)][0],
        "kept_ratio_of_full_length": curve[max(curve)][1],
        "least_late_ratio_where_kept": min(late, default=None),
        "most_kept_ratio_where_in_time": max(kept, default=None),
        "some_length_does": any(point[0] <= late_ratio and point[1] >= KEPT_WANTED for point in curve.values()),
    }
