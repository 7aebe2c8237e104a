"""What happens to an application, as its logic is told of it.

Events carry everything that a decision needs: the logic asks nobody and reads no clock. Live they come from Spark, in a
simulation from the simulated engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.control.priority import KeepBounds
    from penstock.estimate.batch_time import BatchTimeState
    from penstock.model.decision import KeepRatio
    from penstock.model.executors import EngineView
    from penstock.model.goal import Goal
    from penstock.model.query import QueryName, QuerySpec
    from penstock.model.signal import BatchSignal, PlannedBatch
    from penstock.model.sizing import Capacity, EngineShape, ResizeOutcome, UsageSignal


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What earlier runs of a query taught; None where nothing recent is known.

    ``first_rows`` may be read by the first batch; ``batch_time`` is what batches cost.
    """

    first_rows: int | None = None
    batch_time: BatchTimeState | None = None


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """A query is there, and its first batch is not planned yet; or it was running already and is adopted.

    Parameters
    ----------
    spec
        Its name, sources and trigger.
    goal
        What it must deliver.
    query_id
        Spark's id, which lasts as long as the checkpoint.
    cause
        ``"start"`` or ``"adopt"``.
    has_guard
        Whether rows may be dropped somewhere in its plan.
    asks
        Whether its batches ask what to keep; where they cannot, a keep ratio holds a batch late.
    warm_start
        What earlier runs taught.
    past
        Reports of batches that ran before it was adopted, oldest first.
    answered
        Keep ratios that are on record for its batches, oldest first: the same batch gets the same answer for ever.
    """

    spec: QuerySpec
    goal: Goal
    query_id: str
    cause: str = "start"
    has_guard: bool = False
    asks: bool = True
    warm_start: WarmStart = field(default_factory=WarmStart)
    past: tuple[BatchSignal, ...] = ()
    answered: tuple[KeepRatio, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """A query is gone, or is to be left alone from now on."""

    query: QueryName


@dataclass(frozen=True, slots=True)
class BatchPlanned:
    """A batch has its offsets and asks, before it reads a row, what it is to keep.

    ``planned`` is what it takes and leaves, None where the source does not tell. ``is_rerun`` says that an earlier run
    of the query planned it already, ``is_estimate`` that it is not planned yet and its rows are a guess.
    """

    query: QueryName
    batch_id: int
    planned: PlannedBatch | None
    is_rerun: bool = False
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class BatchFinished:
    """A batch is done; ``core_s`` is for how long it kept cores busy, None where nobody knows."""

    signal: BatchSignal
    core_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutorsSeen:
    """The executors as they are now, and queries that have nothing to do."""

    view: EngineView
    idle: frozenset[QueryName] = frozenset()


@dataclass(frozen=True, slots=True)
class GoalChanged:
    """Somebody asks for something else; ``asked_by`` says who."""

    query: QueryName
    goal: Goal
    asked_by: str = "user"


@dataclass(frozen=True, slots=True)
class KeepBoundsChanged:
    """Whoever plans for several engines holds what a query keeps to bounds; it need not run yet."""

    query: QueryName
    bounds: KeepBounds


@dataclass(frozen=True, slots=True)
class UsageSeen:
    """One window of the engine's use, its shape as it is, and what the cluster has free; None where nobody knows.

    ``is_asked_for`` says that the operator asked for the size that is recommended, whatever the mode is.
    """

    signal: UsageSignal
    shape: EngineShape
    capacity: Capacity | None = None
    is_asked_for: bool = False


@dataclass(frozen=True, slots=True)
class ResizeEnded:
    """A change of shape has ended, well or not."""

    outcome: ResizeOutcome


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    QueryStarted
    | QueryEnded
    | BatchPlanned
    | BatchFinished
    | ExecutorsSeen
    | GoalChanged
    | KeepBoundsChanged
    | UsageSeen
    | ResizeEnded
    | Tick
)
