"""Decisions: typed, frozen, complete. What is applied is in them, and nothing else is applied.

A decision is recorded as an :class:`~penstock.model.action.Action` (:func:`to_action`), and comes back from the log as
the equal decision (:func:`from_action`). "Nothing to do" and "cannot be done" are decisions too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.model.action import Action, ActionKind
from penstock.model.decision_base import Decision as Decision  # noqa: PLC0414 - mypy wants a name that others import said twice
from penstock.model.fleet import FLEET_DECISIONS, StreamKeepRatio
from penstock.model.query import LimitUnit

if TYPE_CHECKING:
    from penstock.model.sizing import ResizeOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimit(Decision):
    """A source of a query gives a batch no more than so many units, from the next planned batch on."""

    kind: ClassVar[ActionKind] = ActionKind.READ_LIMIT
    source: int
    units: int
    limit_unit: LimitUnit
    previous_units: int | None = None

    @property
    def target(self) -> str:
        """The source."""
        return f"source {self.source}"

    @property
    def value(self) -> float | None:
        """Units a batch."""
        return float(self.units)

    @property
    def previous(self) -> float | None:
        """Units a batch before."""
        return None if self.previous_units is None else float(self.previous_units)

    @property
    def unit(self) -> str:
        """Rows, files or bytes."""
        return str(self.limit_unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRatio(Decision):
    """What one batch keeps of its rows; the answer that its guards get, now and whenever it runs again.

    Parameters
    ----------
    batch_id
        The batch.
    keep_ratio
        Part of its rows that is requested; above one where a guard with a utility keeps less than that of its rows.
    keep_floor
        The least that is kept of any row.
    late_before_s
        Rows that arrived before this moment (seconds since the epoch) are too old to be out in time, and of them no
        more is kept than the floor; None where no row counts as late.
    previous_ratio
        Of the batch before.
    everything
        Every row is kept, whatever its utility or age.
    """

    kind: ClassVar[ActionKind] = ActionKind.KEEP_RATIO
    batch_id: int
    keep_ratio: float
    keep_floor: float
    late_before_s: float | None = None
    previous_ratio: float | None = None
    everything: bool = False

    @property
    def target(self) -> str:
        """The batch."""
        return f"batch {self.batch_id}"

    @property
    def value(self) -> float | None:
        """The ratio."""
        return self.keep_ratio

    @property
    def previous(self) -> float | None:
        """The ratio of the batch before."""
        return self.previous_ratio

    @property
    def unit(self) -> str:
        """A ratio."""
        return "ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors(Decision):
    """So many executors are to serve, and so many more to wait on standby.

    ``number`` counts these decisions; what comes of one names it (:attr:`ExecutorsDone.number`).
    """

    kind: ClassVar[ActionKind] = ActionKind.EXECUTORS
    executors: int
    standby: int = 0
    previous_executors: int | None = None
    number: int = 0

    @property
    def value(self) -> float | None:
        """Executors that are to serve."""
        return float(self.executors)

    @property
    def previous(self) -> float | None:
        """Executors that were to serve before."""
        return None if self.previous_executors is None else float(self.previous_executors)

    @property
    def unit(self) -> str:
        """Executors."""
        return "executors"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorsDone(Decision):
    """What came of a decision on executors, or of a loss; ``took_s`` is None for one that another overtook.

    ``number`` is that of the decision, None after a loss.
    """

    kind: ClassVar[ActionKind] = ActionKind.EXECUTORS_DONE
    took_s: float | None = None
    expected_s: float | None = None
    number: int | None = None

    @property
    def value(self) -> float | None:
        """Seconds from the decision to service, or until the last executor had left."""
        return self.took_s

    @property
    def previous(self) -> float | None:
        """Seconds that were expected."""
        return self.expected_s

    @property
    def unit(self) -> str:
        """Seconds."""
        return "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(Decision):
    """Executors are to have another shape (:class:`~penstock.model.sizing.EngineShape`, as plain data).

    Parameters
    ----------
    policy
        ``"P1"`` to ``"P8"``; ``"operator"`` where somebody changed it by hand, ``"roll-back"`` after a failure.
    resource
        What the policy wanted to change.
    shape, previous_shape
        All of the new and the old shape: applied as a whole.
    number
        Counts these decisions; what comes of one names it (:attr:`ResizeDone.number`).
    figures
        What the decision stood on.
    unplaced
        What was wanted and had no room; empty where all of it had.
    is_applied
        Whether it is carried out, and not only recommended.
    """

    kind: ClassVar[ActionKind] = ActionKind.RESIZE
    policy: str
    resource: str
    shape: Mapping[str, int]
    previous_shape: Mapping[str, int]
    number: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    unplaced: str = ""
    is_applied: bool = True

    @property
    def target(self) -> str:
        """The resource."""
        return self.resource

    @property
    def value(self) -> float | None:
        """Memory of one executor, or cores in all for a change of CPU or parallelism."""
        return self._amount(self.shape)

    @property
    def previous(self) -> float | None:
        """The same before."""
        return self._amount(self.previous_shape)

    @property
    def unit(self) -> str:
        """Megabytes for each executor, or cores in all."""
        return "MB" if self.resource in {"heap", "memory"} else "cores"

    def _amount(self, shape: Mapping[str, int]) -> float:
        if self.resource == "heap":
            return float(shape["heap_mb"])
        if self.resource == "memory":
            return float(shape["heap_mb"] + shape["overhead_mb"] + shape["python_mb"])
        return float(shape["executors"] * shape["cores"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeDone(Decision):
    """What came of a change of shape: whether it is there, how it was carried out, and what was seen afterwards.

    ``way`` is how it came about: ``"executors"``, ``"task slots"``, ``"reshape"`` or ``"restart"``. Some windows later
    another record tells of its ``"effect"``; ``expected`` and ``seen`` have the same names there.
    """

    kind: ClassVar[ActionKind] = ActionKind.RESIZE_DONE
    number: int
    is_done: bool
    way: str = ""
    took_s: float | None = None
    downtime_s: float | None = None
    seen: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, outcome: ResizeOutcome, *, why: str = "") -> ResizeDone:
        """What came of a change, as it ended; ``why`` it was made that way."""
        way = f"{outcome.way}: {why}" if why else outcome.way
        return cls(
            cause=f"number {outcome.number}",
            reason=outcome.reason or f"{outcome.shape}, by {way}",
            number=outcome.number,
            is_done=outcome.is_done,
            way=outcome.way,
            took_s=outcome.took_s,
            downtime_s=outcome.downtime_s,
        )

    @property
    def value(self) -> float | None:
        """Seconds from the decision until the last old executor had left."""
        return self.took_s

    @property
    def unit(self) -> str:
        """Seconds."""
        return "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPlan(Decision):
    """Rows a second that each query of the graph is to read (tier one of ACES)."""

    kind: ClassVar[ActionKind] = ActionKind.GRAPH_PLAN
    targets_rows_per_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Govern(Decision):
    """A query is governed from now on, or by another goal than before."""

    kind: ClassVar[ActionKind] = ActionKind.GOVERN
    query_id: str = ""
    latency_s: float | None = None
    minimum_accuracy: float = 1.0
    priority: int = 1
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Decision):
    """A query is not governed any more; its sources have their own limits."""

    kind: ClassVar[ActionKind] = ActionKind.RELEASE


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible(Decision):
    """The goal cannot be met with what there is."""

    kind: ClassVar[ActionKind] = ActionKind.INFEASIBLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(Decision):
    """All stays as it is, although something asked for a change; or what did not fit fits again."""

    kind: ClassVar[ActionKind] = ActionKind.HOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmanaged(Decision):
    """A query, or one of its sources, cannot be acted on and is only observed."""

    kind: ClassVar[ActionKind] = ActionKind.UNMANAGED
    source: int | None = None

    @property
    def target(self) -> str:
        """The source, where it is one."""
        return "" if self.source is None else f"source {self.source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFinding(Decision):
    """An operator behind a guard whose result is not right, or not what it seems; ``operator`` names it."""

    kind: ClassVar[ActionKind] = ActionKind.PLAN_FINDING
    operator: str

    @property
    def target(self) -> str:
        """The operator."""
        return self.operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Repayment(Decision):
    """What became of batches that are repaid when there is room: what they dropped was processed, or cannot be.

    Parameters
    ----------
    first_batch_id, last_batch_id, batches
        Which batches, and how many: those in between that dropped nothing, or are told of elsewhere, do not count.
    is_repaid
        Whether they are repaid. Otherwise they never will be, but for what ``partial`` may still find of them.
    parts, parts_unit
        What they had read, dropped or kept, that was read again or is lost: rows, offsets or files; None if unknown.
    """

    kind: ClassVar[ActionKind] = ActionKind.REPAY
    first_batch_id: int
    last_batch_id: int
    batches: int = 1
    is_repaid: bool
    parts: int | None = None
    parts_unit: str = ""

    @property
    def target(self) -> str:
        """The batches."""
        if self.first_batch_id == self.last_batch_id:
            return f"batch {self.first_batch_id}"
        return f"{self.batches} batches, {self.first_batch_id} to {self.last_batch_id}"

    @property
    def value(self) -> float | None:
        """What was read again, or is lost."""
        return None if self.parts is None else float(self.parts)

    @property
    def unit(self) -> str:
        """Rows, offsets or files."""
        return self.parts_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuatorOff(Decision):
    """Something that this Spark does not offer, or that is off for a reason that somebody can mend."""

    kind: ClassVar[ActionKind] = ActionKind.ACTUATOR_OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Decision):
    """Penstock itself, or what it stands on, failed."""

    kind: ClassVar[ActionKind] = ActionKind.FAULT


DECISIONS: tuple[type[Decision], ...] = (
    ReadLimit, KeepRatio, Executors, ExecutorsDone, Resize, ResizeDone, GraphPlan, Govern, Release, Infeasible, Hold,
    Unmanaged, PlanFinding, Repayment, ActuatorOff, Fault, *FLEET_DECISIONS,
)  # fmt: skip
_BY_KIND = {kind.kind: kind for kind in DECISIONS}
_COMMON = frozenset(each.name for each in fields(Decision))


def to_action(decision: Decision) -> Action:
    """The decision as it goes into the log.

    Examples
    --------
    >>> from penstock.model.query import QueryName
    >>> limit = ReadLimit(
    ...     query=QueryName("clicks"), cause="batch 3", reason="2.1 s", source=0, units=900, limit_unit=LimitUnit.ROWS
    ... )
    >>> action = to_action(limit)
    >>> action.kind.value, action.target, action.value, action.unit
    ('read_limit', 'source 0', 900.0, 'rows')
    >>> from_action(action) == limit
    True
    """
    details = {each.name: getattr(decision, each.name) for each in fields(decision) if each.name not in _COMMON}
    return Action(
        decision.kind,
        decision.query,
        decision.cause,
        decision.reason,
        target=decision.target,
        value=decision.value,
        previous=decision.previous,
        unit=decision.unit,
        expected=dict(decision.expected),
        details={name: _plain(value) for name, value in details.items() if value is not None},
    )


def from_action(action: Action) -> Decision:
    """The decision that was recorded."""
    kind = _BY_KIND[action.kind]
    details: dict[str, Any] = dict(action.details)
    if kind is ReadLimit:
        details["limit_unit"] = LimitUnit(details["limit_unit"])
    if kind is StreamKeepRatio:
        details["producers"] = tuple(details["producers"])  # JSON knows no tuples
    return kind(query=action.query, cause=action.cause, reason=action.reason, expected=dict(action.expected), **details)


def _plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(value, LimitUnit):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
