"""What is observed every second becomes the samples that scaling policies decide by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.model.scaling import ScalingSignal

if TYPE_CHECKING:
    from penstock.control.workload import Arrived, Workload

_SHED_RATIO = 0.01


@dataclass(frozen=True, slots=True)
class Sample:
    """Workloads of one sample, each as if nothing were shed; a value that never changes.

    Parameters
    ----------
    began_s
        When it began; None before the first observation.
    seen
        What was observed since.
    last_s
        When it was observed last.
    shed_rows
        Rows that would wait now had they not been shed, up to what arrives within the latency goal: more than that
        tells a policy nothing new. Zero as soon as nothing is shed.
    is_shedding
        Whether anything was shed within the sample.
    before
        What had arrived when it began.
    """

    began_s: float | None = None
    seen: tuple[Workload, ...] = ()
    last_s: float | None = None
    shed_rows: float = 0.0
    is_shedding: bool = False
    before: tuple[Arrived, ...] = ()

    def with_(self, workload: Workload, now_s: float, *, goal_s: float) -> Sample:
        """The sample with one observation more.

        Examples
        --------
        >>> from penstock.control.workload import Workload
        >>> load = Workload(400.0, 0.0, 1.0, 300.0, 1.0, 600.0, shed_rows_per_s=100.0)
        >>> sample = Sample().with_(load, 10.0, goal_s=5.0).with_(load, 12.0, goal_s=5.0)
        >>> [each.backlog_rows for each in sample.seen], sample.is_shedding
        ([600.0, 800.0], True)
        """
        shed, arrival = workload.shed_rows_per_s or 0.0, workload.arrival_rows_per_s
        is_shedding = shed > _SHED_RATIO * (arrival or 0.0)
        shed_rows = 0.0
        if is_shedding:
            elapsed_s = 0.0 if self.last_s is None else max(0.0, now_s - self.last_s)
            shed_rows = min(self.shed_rows + shed * elapsed_s, goal_s * (shed if arrival is None else arrival))
        backlog = workload.backlog_rows
        return Sample(
            now_s if self.began_s is None else self.began_s,
            (*self.seen, replace(workload, backlog_rows=None if backlog is None else backlog + shed_rows)),
            now_s,
            shed_rows,
            self.is_shedding or is_shedding,
            self.before,
        )

    def following(self) -> Sample:
        """The next sample, which begins where this one ends."""
        before = self.seen[-1].arrived if self.seen else ()
        return Sample(began_s=self.last_s, last_s=self.last_s, shed_rows=self.shed_rows, before=before)

    def signal(
        self,
        *,
        executors: int,
        requested: int,
        goal_s: float,
        trigger_s: float | None,
        start_s: float | None = None,
        cores_each: float = 1.0,
    ) -> ScalingSignal:
        """Means over the sample; what one observation did not know, the sample does not know either.

        Examples
        --------
        >>> from penstock.control.workload import Workload
        >>> sample = Sample().with_(Workload(400.0, 0.0, 1.0, 400.0, 0.5, 600.0), 10.0, goal_s=30.0)
        >>> sample.signal(executors=1, requested=1, goal_s=30.0, trigger_s=None).backlog_ratio
        0.05
        """
        demand = self._arrived_rows_per_s()
        backlog = _mean([each.backlog_rows for each in self.seen])
        newest = self.seen[-1]
        useful = None if newest.partitions is None else max(1, math.ceil(newest.partitions / max(cores_each, 1.0)))
        return ScalingSignal(
            time_s=self.last_s or 0.0,
            executors=executors,
            requested=requested,
            demand_rows_per_s=demand,
            processed_rows_per_s=_mean([each.processed_rows_per_s for each in self.seen]),
            busy_share=_mean([each.busy_share for each in self.seen]),
            backlog_rows=newest.backlog_rows,
            backlog_ratio=_backlog_ratio(backlog, demand, goal_s),
            batch_s=_mean([each.batch_s for each in self.seen]),
            trigger_s=trigger_s,
            batch_rows=_mean([each.batch_rows for each in self.seen]),
            is_shedding=self.is_shedding,
            newest_rows_per_s=newest.arrival_rows_per_s,
            age_s=newest.age_s,
            goal_s=goal_s,
            start_s=start_s,
            useful_executors=useful,
        )

    def _arrived_rows_per_s(self) -> float | None:
        """What arrived within the sample over its time, where every query had a batch in it; else the mean of rates.

        A rate is known as long as its batch runs, and batches of many rows run long: the mean of rates is too high.

        Examples
        --------
        >>> from penstock.control.workload import Arrived, Workload
        >>> def load(rate, rows, until_s):
        ...     return Workload(rate, 0.0, 1.0, 400.0, 0.5, 600.0, arrived=(Arrived(rows, until_s),))
        >>> first = Sample().with_(load(400.0, 0.0, 10.0), 10.0, goal_s=30.0).following()
        >>> sample = first.with_(load(400.0, 2_000.0, 15.0), 15.0, goal_s=30.0)
        >>> sample.with_(load(900.0, 4_500.0, 20.0), 20.0, goal_s=30.0)._arrived_rows_per_s()
        450.0
        """
        newest = self.seen[-1].arrived
        pairs = list(zip(self.before, newest, strict=False))
        is_known = bool(pairs) and len(self.before) == len(newest)
        if not is_known or any(new.until_s <= old.until_s or new.rows < old.rows for old, new in pairs):
            return _mean([each.arrival_rows_per_s for each in self.seen])
        return sum((new.rows - old.rows) / (new.until_s - old.until_s) for old, new in pairs)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _backlog_ratio(backlog_rows: float | None, demand_rows_per_s: float | None, goal_s: float) -> float | None:
    if backlog_rows is None or demand_rows_per_s is None:
        return None
    # Where nothing arrives but rows wait, the query is as far behind as can be told.
    if demand_rows_per_s <= 0:
        return 1.0 if backlog_rows > 0 else 0.0
    return max(0.0, backlog_rows) / (demand_rows_per_s * goal_s)
