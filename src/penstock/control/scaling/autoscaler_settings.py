"""What can be set about the proactive scaler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """Everything that can be set about the proactive scaler.

    Parameters
    ----------
    max_executors
        Executors at most.
    interval_s
        Time between two decisions.
    start_s
        Time that an executor is expected to take to its first task, until one was seen to.
    quantile
        Share of loads that the upper forecast is to cover.
    forecast_memory_s
        How long an error of the forecast is remembered for it.
    deviations
        Standard deviations that estimates are trusted to, on the side that needs more executors: 1.64 is 95 %.
    memory_s
        Time in which what was learned of batch times fades by half.
    down_after_s
        How long fewer executors must have sufficed before any is let go.
    season_s
        Period of the seasonal forecast.
    """

    max_executors: int = 20
    interval_s: float = 15.0
    start_s: float = 30.0
    quantile: float = 0.99
    forecast_memory_s: float = 7_200.0
    deviations: float = 1.64
    memory_s: float = 1_800.0
    down_after_s: float = 120.0
    season_s: float = 86_400.0
