"""What became of executors that were to follow a load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.bench.elastic_moves import Move, TimedBatch, moves
from penstock.model import APPLICATION, ActionKind

if TYPE_CHECKING:
    from penstock.apps.run import QueryFigures
    from penstock.model import RecordedAction

_SHOWN_EVERY_S = 10.0
_EVEN = 2.0 / 3.0
_SPREAD_S = 30.0


@dataclass(frozen=True, slots=True)
class Look:
    """What the scaler's policy was told at one moment."""

    time_s: float
    executors: int
    target: int
    arrival_rows_per_s: float | None
    backlog_rows: float | None
    tasks: tuple[tuple[str, int], ...] = ()
    """Tasks that each executor which is given work was given since it started."""

    @property
    def sentence(self) -> str:
        """For whoever watches."""
        if self.arrival_rows_per_s is None or self.backlog_rows is None:
            return f"{self.executors} of {self.target} executors"
        rate, waiting = f"{self.arrival_rows_per_s:,.0f} rows/s", f"{self.backlog_rows:,.0f} rows not done"
        return f"{self.executors} of {self.target} executors, {rate}, {waiting}"


@dataclass(frozen=True, slots=True)
class Change:
    """One decision on the number of executors, and what came of it.

    ``service_s`` is the time from the decision to service, or until the last executor that was let go had left; None
    for one that the next decision overtook.
    """

    after_s: float
    previous: int
    executors: int
    service_s: float | None
    reason: str
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Spread:
    """What new executors carried of the tasks in their first half minute, and what an even share would be."""

    after_s: float
    new_executors: int
    tasks: int
    new_tasks: int
    fair_share: float

    @property
    def share(self) -> float:
        """Part of the tasks that new executors carried."""
        return self.new_tasks / self.tasks if self.tasks else 0.0

    @property
    def is_even(self) -> bool:
        """At least two thirds of an even share: a third of the tasks where one executor became two."""
        return self.share >= _EVEN * self.fair_share


@dataclass(frozen=True, slots=True)
class ElasticResult:
    """One run."""

    policy: str
    goal_s: float
    most: int
    began_s: float
    figures: QueryFigures
    sent_rows: int
    run_ids: tuple[str, ...]
    batch_ids: tuple[int, ...]
    failed_tasks: int
    actions: tuple[RecordedAction, ...]
    looks: tuple[Look, ...]
    stateful: bool = False
    batches: tuple[TimedBatch, ...] = ()

    @property
    def moves(self) -> list[Move]:
        """What each change of size cost the first batch after it."""
        return moves(self.batches)

    @property
    def spreads(self) -> list[Spread]:
        """For every arrival of executors, who carried the tasks of the 30 s after it."""
        found = []
        for before, first in zip(self.looks, self.looks[1:], strict=False):
            old, now = dict(before.tasks), dict(first.tasks)
            new = now.keys() - old.keys()
            later = [look for look in self.looks if 0.0 < look.time_s - first.time_s <= _SPREAD_S]
            if not new or not old or not later or later[-1].time_s - first.time_s < _SPREAD_S / 2.0:
                continue
            end = dict(later[-1].tasks)
            grown = {name: max(0, end.get(name, 0) - now[name]) for name in now}
            # Tasks that a new one had before it was first seen are its own as well.
            grown |= {name: end.get(name, 0) for name in new}
            found.append(
                Spread(
                    first.time_s - self.began_s,
                    len(new),
                    sum(grown.values()),
                    sum(grown[name] for name in new),
                    len(new) / len(now),
                )
            )
        return found

    @property
    def changes(self) -> list[Change]:
        """Decisions since the load began, each with its outcome."""
        own = [record for record in self.actions if record.action.query == APPLICATION]
        outcomes = {
            record.action.details.get("number"): record.action
            for record in own
            if record.action.kind is ActionKind.EXECUTORS_DONE
        }
        found = []
        for record in own:
            action = record.action
            if action.kind is not ActionKind.EXECUTORS or action.previous is None or action.value is None:
                continue
            outcome = outcomes.get(action.details.get("number"))
            found.append(
                Change(
                    after_s=record.time_s - self.began_s,
                    previous=int(action.previous),
                    executors=int(action.value),
                    service_s=None if outcome is None else outcome.value,
                    reason=action.reason,
                    outcome=None if outcome is None else outcome.reason,
                )
            )
        return found

    @property
    def faults(self) -> list[str]:
        """What went wrong, by the log."""
        kinds = (ActionKind.FAULT, ActionKind.ACTUATOR_OFF)
        return [record.action.reason for record in self.actions if record.action.kind in kinds]

    @property
    def has_gap(self) -> bool:
        """Whether a batch number is missing."""
        ids = self.batch_ids
        return not ids or list(ids) != list(range(ids[0], ids[0] + len(ids)))

    @property
    def sizes(self) -> list[int]:
        """Sizes that served, one after the other."""
        served = [look.executors for look in self.looks]
        return [size for place, size in enumerate(served) if place == 0 or size != served[place - 1]]

    @property
    def executor_s(self) -> float:
        """Executor-seconds that served while the load lasted."""
        pairs = zip(self.looks, self.looks[1:], strict=False)
        return sum(look.executors * (after.time_s - look.time_s) for look, after in pairs)

    @property
    def is_undisturbed(self) -> bool:
        """One run, batches without a gap, every row once, no failed task, nothing wrong in the log."""
        is_whole = self.figures.read_rows == self.sent_rows and not self.has_gap
        return is_whole and len(self.run_ids) == 1 and self.failed_tasks == 0 and not self.faults

    @property
    def is_met(self) -> bool:
        """Undisturbed, up to the top and back, every decision with its end on record, and the goal kept."""
        top = max(self.sizes, default=0)
        follows = top > 1 and self.sizes[-1] < top and all(change.outcome is not None for change in self.changes)
        in_time = self.figures.latency_p95_s is not None and self.figures.latency_p95_s <= self.goal_s
        is_spread = not self.stateful or (bool(self.spreads) and all(spread.is_even for spread in self.spreads))
        return self.is_undisturbed and follows and in_time and is_spread

    @property
    def timeline(self) -> list[Look]:
        """A look every ten seconds."""
        shown: list[Look] = []
        for look in self.looks:
            if not shown or look.time_s >= shown[-1].time_s + _SHOWN_EVERY_S:
                shown.append(look)
        return shown

    def to_dict(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "bench": "elastic",
            "policy": self.policy,
            "goal_s": self.goal_s,
            "most_executors": self.most,
            "stateful": self.stateful,
            "new_executors": [
                {
                    "after_s": round(spread.after_s, 1),
                    "new_executors": spread.new_executors,
                    "tasks": spread.tasks,
                    "new_tasks": spread.new_tasks,
                    "share": round(spread.share, 3),
                    "fair_share": round(spread.fair_share, 3),
                }
                for spread in self.spreads
            ],
            "moves": [
                {
                    "after_s": round(move.started_s - self.began_s, 1),
                    "from": move.previous,
                    "to": move.executors,
                    "extra_s": round(move.extra_s, 2),
                }
                for move in self.moves
            ],
            "is_met": self.is_met,
            "run_ids": list(self.run_ids),
            "first_batch_id": self.batch_ids[0] if self.batch_ids else None,
            "batch_ids_have_gap": self.has_gap,
            "failed_tasks": self.failed_tasks,
            "faults": self.faults,
            "sent_rows": self.sent_rows,
            "executor_s": round(self.executor_s, 1),
            "query": self.figures.to_dict(),
            "timeline": [
                {
                    "after_s": round(look.time_s - self.began_s, 1),
                    "executors": look.executors,
                    "target": look.target,
                    "arrival_rows_per_s": look.arrival_rows_per_s,
                    "backlog_rows": look.backlog_rows,
                }
                for look in self.timeline
            ],
            "rows": [
                {
                    "after_s": round(change.after_s, 1),
                    "from": change.previous,
                    "to": change.executors,
                    "service_s": change.service_s,
                    "reason": change.reason,
                    "outcome": change.outcome,
                }
                for change in self.changes
            ],
        }
