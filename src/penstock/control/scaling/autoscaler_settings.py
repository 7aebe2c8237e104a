"""What can be set about the proactive scaler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """Everything that is chosen about the proactive scaler.

    ``penstock bench sensitivity`` says what each of them moves. What does not stand here follows from these, from the
    goal or from the trigger: trend and ramp are drawn through as much of the past as they reach ahead, and parts of the
    season are as long as that.

    Parameters
    ----------
    interval_s
        Time between two decisions.
    start_s
        Time that an executor is expected to take to its first task, until one was seen to.
    quantile
        Share of loads that the upper forecast is to cover, and of batches that are to be no longer than planned with.
    forecast_memory_s
        How long an error of the forecast is remembered for it.
    trust_s
        Time in which the error of a forecaster fades by half for its weight.
    level_s
        Time in which the level fades by half.
    season_s
        Period of the seasonal forecast.
    deviations
        Standard deviations that estimates are trusted to, on the side that needs more executors: 1.64 is 95 %.
    stretch
        Batch that sizes are planned for, from one that just keeps up (0) to the longest that no row is late with (1).
    memory_s
        Time in which what was learned of batch times, and of the scatter of the load, fades by half.
    recent_s
        Time in which a cost that is higher than the one learned fades by half.
    down_after_s
        How long fewer executors must have sufficed before any is let go.
    """

    interval_s: float = 15.0
    start_s: float = 30.0
    quantile: float = 0.99
    forecast_memory_s: float = 7_200.0
    trust_s: float = 300.0
    level_s: float = 30.0
    season_s: float = 86_400.0
    deviations: float = 1.64
    stretch: float = 0.5
    memory_s: float = 1_800.0
    recent_s: float = 30.0
    down_after_s: float = 120.0
