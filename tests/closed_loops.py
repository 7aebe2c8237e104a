"""Closed loops of one query that tests and golden traces share."""

from __future__ import annotations

from penstock.model import Application, Goal
from penstock.model.decision import Decision, from_action
from penstock.settings import Settings
from penstock.testing import SimulatedQuery, SimulatedRun, simulate

QUERY = "plant"
TICK_S = 0.01
"""Batches begin on this grid: arrivals are a function of time that is looked at as often."""


def alone(
    query: SimulatedQuery, *, latency_s: float = 5.0, minimum_accuracy: float = 1.0, batch_share: float = 0.5
) -> SimulatedRun:
    """One query under admission with batches of half the goal; with a guard, down to a minimum accuracy."""
    application = Application.of_goals({QUERY: Goal(latency=latency_s, minimum_accuracy=minimum_accuracy)})
    settings = Settings().with_values({"admission.batch_share_of_goal": batch_share})
    return simulate(application, {QUERY: query}, settings=settings, tick_s=TICK_S)


def decided(run: SimulatedRun) -> list[Decision]:
    """Everything on record, oldest first."""
    return [from_action(record.action) for record in run.store.actions()]
