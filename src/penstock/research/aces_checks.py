"""What the ACES paper claims, against what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.research.aces import Row

RIVALS = ("udp", "lock_step")
SMALL_BUFFER_GAIN = 0.20
HALF, THIRD = 0.5, 1.0 / 3.0
FLUID_FRACTION = 0.90


def check_buffers(rows: Sequence[Row]) -> list[Row]:
    """Claims over buffer sizes (figures 3 and 4)."""
    checks = []
    for rival in RIVALS:
        gains = _gains(rows, rival, "buffer_rows")
        worst = min(gains, key=lambda pair: pair[1])
        checks.append(_check(f"gain over {rival} at its smallest, buffer of {worst[0]:.0f} rows", worst[1], 0.0))
        checks.append(_check(f"gain over {rival} with the smallest buffer", gains[0][1], SMALL_BUFFER_GAIN))
    ratios = latency_ratios(rows)
    checks.append(
        _check("latency over lock_step's at equal throughput, at its largest", max(ratios), HALF, above=False)
    )
    checks.append(_check("latency over lock_step's at equal throughput, at its best", min(ratios), THIRD, above=False))
    deviations = [
        _number(own["latency_std_ms"]) / _number(other["latency_std_ms"])
        for own, other in zip(_of(rows, "aces"), _of(rows, "lock_step"), strict=True)
    ]
    checks.append(_check("latency deviation over lock_step's, at its largest", max(deviations), 1.0, above=False))
    best = max(_number(row["fluid_fraction"]) for row in _of(rows, "aces"))
    checks.append(_check("fraction of the fluid optimum, best buffer", best, FLUID_FRACTION))
    return checks


def check_burstiness(rows: Sequence[Row]) -> list[Row]:
    """Claims over burstiness (figure 5): above the others everywhere but at the lowest."""
    checks = []
    for rival in RIVALS:
        gains = _gains(rows, rival, "burstiness_rows")[1:]
        worst = min(gains, key=lambda pair: pair[1])
        checks.append(_check(f"gain over {rival} at its smallest, burstiness {worst[0]:g}", worst[1], 0.0))
    return checks


def latency_ratios(rows: Sequence[Row]) -> list[float]:
    """Latency of ACES over that of Lock-Step at the weighted throughput of each of Lock-Step's points.

    Between its points the latency of ACES is interpolated; below its lowest throughput its lowest latency counts, which
    is more than it would need.

    Examples
    --------
    >>> def row(policy, throughput, latency):
    ...     return {"policy": policy, "weighted_rows_per_s": throughput, "latency_mean_ms": latency}
    >>> latency_ratios([row("aces", 10.0, 1.0), row("aces", 20.0, 3.0), row("lock_step", 15.0, 8.0)])
    [0.25]
    """
    curve = sorted((_number(row["weighted_rows_per_s"]), _number(row["latency_mean_ms"])) for row in _of(rows, "aces"))
    throughput, latency = [point[0] for point in curve], [point[1] for point in curve]
    return [
        float(np.interp(_number(row["weighted_rows_per_s"]), throughput, latency)) / _number(row["latency_mean_ms"])
        for row in _of(rows, "lock_step")
        if _number(row["weighted_rows_per_s"]) <= throughput[-1]
    ]


def _gains(rows: Sequence[Row], rival: str, by: str) -> list[tuple[float, float]]:
    pairs = zip(_of(rows, "aces"), _of(rows, rival), strict=True)
    return [
        (_number(own[by]), _number(own["weighted_rows_per_s"]) / _number(other["weighted_rows_per_s"]) - 1.0)
        for own, other in pairs
    ]


def _check(claim: str, value: float, bound: float, *, above: bool = True) -> Row:
    reached = value >= bound if above else value <= bound
    return {"claim": claim, "value": value, "bound": bound, "is": "yes" if reached else "no"}


def _of(rows: Sequence[Row], policy: str) -> list[Row]:
    return [row for row in rows if row["policy"] == policy]


def _number(value: float | str | None) -> float:
    assert isinstance(value, int | float)
    return float(value)
