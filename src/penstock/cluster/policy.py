"""Between whoever decides on a number of executors and whoever carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ScalingObservation:
    """What is known of an engine when its size is decided; None where nobody knows.

    Parameters
    ----------
    time_s
        Now, in seconds since the epoch.
    executors, standby, leaving
        Executors that serve, that wait on standby, and that finish their last tasks.
    target
        The size that was decided on last.
    minimum, maximum
        Bounds of the engine.
    available
        Most executors that the cluster could give this engine now, those that it has included.
    arrival_rows_per_s, lag_rows
        Over all queries of the engine; what is shed has arrived, too.
    processed_rows_per_s, backlog_rows
        Rows that were worked off, and rows that have arrived and are not done yet.
    busy_share
        Share of the time in which a batch was in work, of the busiest query.
    batch_s
        The longest of the queries' last batches.
    busy_fraction
        Share of the time that the cores of the serving executors were busy since the last observation.
    start_s_p50, start_s_p95
        Learned times from asking for an executor to its service.
    """

    time_s: float
    executors: int
    target: int
    minimum: int
    maximum: int
    standby: int = 0
    leaving: int = 0
    available: int | None = None
    arrival_rows_per_s: float | None = None
    lag_rows: float | None = None
    batch_s: float | None = None
    busy_fraction: float | None = None
    processed_rows_per_s: float | None = None
    backlog_rows: float | None = None
    busy_share: float | None = None
    start_s_p50: float | None = None
    start_s_p95: float | None = None


@dataclass(frozen=True, slots=True)
class ScalingTarget:
    """How many executors are to serve, why, and what that answers to."""

    executors: int
    reason: str
    cause: str = "policy"


class ScalingPolicy(Protocol):
    """Decides on the number of executors of an engine; pure, so that it decides the same in a simulation."""

    def decide(self, observation: ScalingObservation) -> ScalingTarget:
        """Say how many executors are to serve from now on; the same number again where nothing is to change."""
        ...
