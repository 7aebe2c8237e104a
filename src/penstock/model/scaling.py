"""What a scaler sees of a query, and what it answers: numbers of executors, each with its reason."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ONLINE_POLICIES = ("proactive", "reactive", "hpa", "keda", "dstreams", "ds2", "flink", "spark", "static")
"""Policies by name, all that decide while the load comes; a clairvoyant has to know it beforehand."""


class ScaleKind(StrEnum):
    """What became of a wish for executors."""

    SCALE = "scale"
    HOLD = "hold"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True, slots=True)
class Need:
    """Executors that the demand takes, and why that is asked for at once."""

    executors: int
    reason: str


@dataclass(frozen=True, slots=True)
class ScalingSignal:
    """What was seen of a query over the last sample; None is unknown, and argues against acting.

    Parameters
    ----------
    time_s
        End of the sample, in seconds.
    executors, requested
        Executors that serve, and those asked for: the ones still starting are the difference.
    demand_rows_per_s
        Rows that arrived, the ones that a guard dropped included. A scaler that looked at kept rows would take its own
        shedding for a lighter load, and never add what is missing.
    newest_rows_per_s
        Rows that arrived by the newest report of the sample: a burst is in it before it is in the mean.
    age_s
        How old that rate is: from the middle of the time that it is of to the end of the sample.
    processed_rows_per_s
        Rows that were worked off.
    busy_share
        Share of the time in which a batch was in work.
    backlog_rows
        Rows that have arrived and are not done, at the end of the sample.
    backlog_ratio
        Mean number of rows that are not done, over the rows that arrive within the latency goal: the thesis's slow
        records, queue over workload.
    batch_s, batch_rows, trigger_s
        Mean length of a batch, rows that such a batch worked on, and how often one is to begin.
    is_shedding
        Whether rows were shed: then nothing is removed, whatever a policy computes.
    need
        What the demand takes where it cannot wait for the policy; no answer may be below it.
    goal_s
        Latency goal of the query.
    start_s
        How long executors took to come, in nineteen cases of twenty; None before one was seen to.
    useful_executors
        Executors that there are tasks for, by the partitions of sources and state; more would idle.
    """

    time_s: float
    executors: int
    requested: int
    demand_rows_per_s: float | None
    processed_rows_per_s: float | None
    busy_share: float | None
    backlog_rows: float | None
    backlog_ratio: float | None
    batch_s: float | None = None
    trigger_s: float | None = None
    batch_rows: float | None = None
    is_shedding: bool = False
    need: Need | None = None
    newest_rows_per_s: float | None = None
    age_s: float = 0.0
    goal_s: float | None = None
    start_s: float | None = None
    useful_executors: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether everything that scalers decide by is known and finite."""
        needed = (self.demand_rows_per_s, self.processed_rows_per_s, self.busy_share, self.backlog_rows)
        return all(value is not None and math.isfinite(value) for value in (*needed, self.backlog_ratio))

    @property
    def true_rate_rows_per_s(self) -> float | None:
        """Rows per second of busy time and executor: what one executor could do if it never waited.

        Examples
        --------
        >>> seen = ScalingSignal(60.0, 4, 4, 900.0, 900.0, 0.75, 0.0, 0.1)
        >>> seen.true_rate_rows_per_s
        300.0
        """
        if not self.processed_rows_per_s or not self.busy_share or self.executors < 1:
            return None
        return self.processed_rows_per_s / self.busy_share / self.executors


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    """How many executors there are to be, and why.

    ``wanted`` is what the scaler asked for before guards, where that differs from ``executors``. ``notice`` is
    something to be put on record whatever is decided, such as rows that have become more expensive.
    """

    executors: int
    reason: str
    kind: ScaleKind = ScaleKind.SCALE
    wanted: int | None = None
    notice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Give the decision as plain data."""
        return {
            "executors": self.executors,
            "reason": self.reason,
            "kind": self.kind.value,
            "wanted": self.executors if self.wanted is None else self.wanted,
        }


def hold(signal: ScalingSignal, reason: str, *, wanted: int | None = None) -> ScaleDecision:
    """Stay with what was asked for."""
    return ScaleDecision(signal.requested, reason, ScaleKind.HOLD, wanted)


def towards(signal: ScalingSignal, executors: int, reason: str) -> ScaleDecision:
    """Scale to a number of executors, or hold where that is what was asked for already."""
    return hold(signal, reason) if executors == signal.requested else ScaleDecision(executors, reason)
