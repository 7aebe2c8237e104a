"""What can be set about the proactive scaler, and the two ways in which it decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.research.hysteresis import Gains


class ScalingMode(StrEnum):
    """What the scaler relies on: capacity alone, or the performance model."""

    EXPLORATION = "exploration"
    OPTIMAL = "optimal"


@dataclass(frozen=True, slots=True)
class ThesisSettings:
    """Everything that can be set about the proactive scaler.

    Parameters
    ----------
    max_executors
        Executors at most, for the sizes that are tried.
    limit
        Backlog ratio that must not be reached.
    ahead_s
        How far ahead it plans: at least the start-up of an executor and the time to the next decision.
    quantile
        Share of loads that the forecast's upper bound is to cover.
    gains
        Hysteresis.
    fill
        Share of the capacity that is used while exploring.
    explores_ahead
        Whether exploration uses the forecast and the true rate, or waits for violations, as the thesis does.
    train_every
        Samples between two trainings while exploring.
    threshold, refits
        Of the stability check.
    settle_s
        Time after a change in which samples are not learned from.
    recover_s
        Time after a change in which nothing is decided: that of a restart where a change of size is one, 0 on Spark.
    down_every_s
        Time between two steps down.
    drain_s
        Time in which waiting rows are to be worked off.
    season_s
        Period of the seasonal forecast.
    seed
        Of the bootstrap samples.
    """

    max_executors: int = 20
    limit: float = 0.4
    ahead_s: float = 60.0
    quantile: float = 0.99
    gains: Gains = field(default_factory=Gains)
    fill: float = 1.0
    explores_ahead: bool = True
    train_every: int = 200
    threshold: float = 0.05
    refits: int = 250
    settle_s: float = 60.0
    recover_s: float = 0.0
    down_every_s: float = 60.0
    drain_s: float = 30.0
    season_s: float = 86_400.0
    seed: int = 0
