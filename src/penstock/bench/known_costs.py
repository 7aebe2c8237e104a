"""The fast tier's law told the truth: what is left of late rows when nothing is left to learn.

What a batch costs is given, and how fast the machine is at the moment; only luck is not: the scatter of the batch that
is being planned, an accident in it, a neighbour that comes while it runs. So what this is late by is what no way of
learning costs could have prevented, and what the learning law is late by beyond that is what learning costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.keep_choice import choose_keep_ratio
from penstock.control.lateness import late_before_s
from penstock.control.planned_load import PlannedLoad
from penstock.control.target import target_batch_s
from penstock.control.wanted_length import WantedLength
from penstock.estimate.batch_costs import BatchCosts, CostBeliefs
from penstock.estimate.batch_time import BATCHES_TO_KNOW, BatchTimeModel
from penstock.model.decision import KeepRatio
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.control.events import BatchPlanned, Event
    from penstock.model import Goal
    from penstock.sim.engine import SimulatedEngine
    from penstock.sim.simulated_query import QueryRun


class KnownCosts(BatchTimeModel):
    """A model that is told what batches cost on average, and how much they scatter, instead of learning it.

    Examples
    --------
    >>> model = KnownCosts(BatchCosts(0.2, read_s=1e-6, work_s=9e-6), noise=0.1)
    >>> round(model.predict_s(100_000, 50_000), 2), model.uncertainty_s(100_000, 50_000), model.beliefs.weights.sum()
    (0.75, 0.0, np.float64(1.0))
    """

    def __init__(self, costs: BatchCosts, *, noise: float) -> None:
        super().__init__()
        self._known, self._noise = costs, noise

    @property
    def batches(self) -> int:
        """As many as it takes to know."""
        return BATCHES_TO_KNOW

    @property
    def relative_noise(self) -> float:
        """As given."""
        return self._noise

    @property
    def relative_deviation(self) -> float:
        """Batches are off by their scatter and by nothing else."""
        return self._noise

    @property
    def beliefs(self) -> CostBeliefs:
        """One reading."""
        known = (self._known.overhead_s, self._known.read_s, self._known.work_s)
        return CostBeliefs(np.ones(1), *(np.array([each]) for each in known))

    def uncertainty_s(self, read_rows: float, kept_rows: float, *, of_overhead: bool = True) -> float:
        """None."""
        del read_rows, kept_rows, of_overhead
        return 0.0

    @property
    def _mean(self) -> tuple[float, float, float]:
        return self._known.overhead_s, self._known.row_s, self._known.read_s


@dataclass(frozen=True, slots=True)
class InformedLoop:
    """Stands where the loop does, and answers batches by true costs; it limits nothing and learns nothing.

    Parameters
    ----------
    engine
        Whose only query asks.
    costs
        What batches cost at a moment, on average.
    rate
        Rows that arrive each second at a moment.
    goal, late_ratio, noise
        What is wanted, and how much batches scatter.
    sees_ahead
        Whether it is told the machine's speed of the moment; else that which the newest finished batch has met, which
        is the most that anybody can have learned.
    length_part
        How long its batches are, in parts of what is in time on a machine of one speed.
    """

    engine: SimulatedEngine
    costs: Callable[[float], BatchCosts]
    rate: Callable[[float], float]
    goal: Goal
    late_ratio: float
    noise: float
    sees_ahead: bool = True
    length_part: float = 1.0

    def handle(self, event: Event) -> None:
        """Whatever happens is known before."""

    def cycle(self) -> None:
        """Nothing is to be healed."""

    def answer(self, event: BatchPlanned) -> KeepRatio | None:
        """What the law has the batch keep."""
        planned = event.planned
        assert planned is not None
        run = self.engine.queries[event.query]
        is_ahead = self.sees_ahead or not run.batches
        known_s = planned.planned_s if is_ahead else run.batches[-1].signal.started_s
        model = KnownCosts(self.costs(known_s), noise=self.noise)
        load = self._load(event, run, model)
        assert self.goal.latency_s is not None
        floor = self.goal.minimum_accuracy
        choice = choose_keep_ratio(
            model, load, latency_s=self.goal.latency_s, keep_floor=floor, late_ratio=self.late_ratio
        )
        cut_s = None if choice.late_after_s is None else late_before_s(load.planned_s, choice.late_after_s, ())
        return KeepRatio(
            query=event.query,
            cause=f"batch {event.batch_id}",
            reason="by what batches really cost",
            batch_id=event.batch_id,
            keep_ratio=max(floor, choice.ratio),
            keep_floor=floor,
            late_before_s=cut_s,
            everything=choice.ratio >= 1.0 and cut_s is None,
        )

    def _load(self, event: BatchPlanned, run: QueryRun, model: BatchTimeModel) -> PlannedLoad:
        planned, settings = event.planned, Settings().admission
        assert planned is not None
        assert self.goal.latency_s is not None
        target_s = target_batch_s(self.goal, run.query.trigger_interval_s, settings.batch_share_of_goal)
        assert target_s is not None
        length = WantedLength(
            goal_s=self.goal.latency_s,
            target_s=target_s,
            interval_s=run.query.trigger_interval_s,
            late_ratio=self.late_ratio,
            overhead_part=settings.overhead_part,
        )
        return PlannedLoad(
            planned.batch_id,
            planned.planned_s,
            float(planned.rows),
            planned.rows + (planned.lag_rows or 0.0),
            self.rate(planned.planned_s),
            planned.planned_s - run.source.time_of(run.taken_rows),
            batch_s=self.length_part * length.cut_s(model),
            tells_arrival=run.query.tells_arrival,
            interval_s=run.query.trigger_interval_s,
        )
