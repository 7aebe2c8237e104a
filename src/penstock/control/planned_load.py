"""A batch when it is planned: what is known of it, what is wanted of its rows, and what it is to keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """What is known of a batch when it is planned.

    Parameters
    ----------
    batch_id
        The batch.
    planned_s
        When its offsets were taken, in seconds since the epoch.
    rows
        Rows that it takes.
    waiting_rows
        Those, and the ones that it leaves at the sources.
    arrival_rows_per_s
        Rows that arrive each second.
    waited_s
        For how long the oldest of the waiting rows has waited.
    batch_s
        The longest batch whose rows are in time: what it is cut to where rows are dropped, unless a longer one has far
        more rows in time.
    tells_arrival
        Whether rows tell when they arrived, so that late ones can go first.
    interval_s
        How often a batch begins; 0 is batch after batch.
    relief_s
        How long executors take to come; 0 where none will, and what the last ones found waiting is worked off.
    """

    batch_id: int
    planned_s: float
    rows: float
    waiting_rows: float
    arrival_rows_per_s: float
    waited_s: float
    batch_s: float
    tells_arrival: bool
    interval_s: float = 0.0
    relief_s: float = 0.0


@dataclass(frozen=True, slots=True)
class KeepChoice:
    """A ratio of the rows that can be in time, and the age from which they cannot (None: none counts as late).

    ``kept_rows`` are those of both kinds. ``is_doubtful`` says that it rests on how far off the model may be.
    ``most_rows`` are those that others leave to a batch, where it keeps fewer for that reason.
    """

    ratio: float
    late_after_s: float | None
    late_rows: float
    predicted_s: float
    kept_rows: float = 0.0
    is_in_time: bool = False
    is_doubtful: bool = False
    most_rows: float | None = None


@dataclass(frozen=True, slots=True)
class RowGoal:
    """What is wanted of the rows of a batch.

    Parameters
    ----------
    latency_s
        How old rows may be when they are out.
    keep_floor
        The least that is kept of any row.
    late_ratio
        Part of the kept rows that may be late.
    noise
        Scatter of batches, as a part of their length.
    """

    latency_s: float
    keep_floor: float
    late_ratio: float
    noise: float
