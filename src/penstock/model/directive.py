"""Directives: what one batch is told to keep of its rows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidGoalError
from penstock.model.shed_history import LEVELS, NEVER_S, NOTHING_SHED, UNKNOWN_S, ShedHistory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.model.decision import KeepRatio

NOTHING_LATE_S = -1e15
"""A moment before which no row arrived; as an array of numbers has no place for None."""

KEEP_RATIO_AT, LATE_BEFORE_AT, ANSWERED_AT = 0, 2, 3
"""Where in the array for a guard the requested ratio stands, the moment before which rows are late, and the answer."""

HISTORY_AT = 5
"""Where in the array for a guard the moments of the history begin."""

LARGEST_WEIGHT_AT = HISTORY_AT + LEVELS
"""Where the largest weight stands that was ever in force."""

RATIO_AT = LARGEST_WEIGHT_AT + 1
"""Where the probability stands with which a row that is in time, and has no utility of its own, is kept."""

FLOOR_AT = RATIO_AT + 1
"""Where the least probability stands: late rows, and those of no utility, are kept with it."""

SMALLEST_RATIO = 1e-6
"""No probability is smaller: weights are one over it, and a sum of them must keep six of a double's fifteen digits."""

LATE_PART = 0.125
"""No row is kept with less than this part of the requested keep ratio, however late or useless it is.

The weights of a batch then lie within a factor of eight, and an interval can rest on them. Of rows at 0.4 and as many
late ones at 0.001 the late ones leave nothing behind in three groups of four, and no estimate knows of them.
"""


@dataclass(frozen=True, slots=True)
class Directive:
    """What a batch is told; the part of a :class:`~penstock.model.decision.KeepRatio` that its tasks need.

    Parameters
    ----------
    batch_id
        The batch that it was made for.
    keep_ratio
        Part of its rows that is kept. A guard with a utility multiplies it with each row's, so it may exceed one.
    keep_floor
        The least that is kept of any row.
    late_before_s
        Rows that arrived before this moment (seconds since the epoch) are late, and of them no more is kept than the
        floor, or :data:`LATE_PART` of the ratio; None where no row counts as late.
    everything
        Every row is kept, late ones and those of no utility too; nothing else is looked at.
    history
        When batches of the query, this one included, last dropped rows.

    Examples
    --------
    >>> directive = Directive(7, keep_ratio=0.4, keep_floor=0.1, late_before_s=1_790_000_000.5)
    >>> directive.to_array(answered=True)[:HISTORY_AT]
    [0.4, 0.1, 1790000000.5, 1.0, 0.0]
    >>> directive.to_json()
    '{"batch_id": 7, "keep_ratio": 0.4, "keep_floor": 0.1, "late_before_s": 1790000000.5, "everything": false}'
    >>> Directive.from_json(directive.to_json()) == directive
    True
    >>> directive.as_fallback(9) == Directive(9, keep_ratio=0.4, keep_floor=0.1)
    True
    >>> directive.least_ratio
    0.1
    >>> directive.to_array(answered=True)[RATIO_AT:]
    [0.4, 0.1]
    """

    batch_id: int
    keep_ratio: float = 1.0
    keep_floor: float = 0.0
    late_before_s: float | None = None
    everything: bool = False
    history: ShedHistory = NOTHING_SHED

    def __post_init__(self) -> None:
        if not self.keep_ratio > 0 or not isfinite(self.keep_ratio):
            # A row kept with probability zero has no weight: every estimate that it belongs to would be wrong.
            raise InvalidGoalError(
                f"a keep ratio of {self.keep_ratio!r} has no weights: it must be above zero, so set a minimum accuracy "
                "above zero"
            )
        if not 0 <= self.keep_floor <= 1:
            raise InvalidGoalError(f"a keep floor of {self.keep_floor!r} means nothing: it must be from 0 to 1")
        if self.late_before_s is not None and not isfinite(self.late_before_s):
            raise InvalidGoalError(f"{self.late_before_s!r} is no moment: give seconds since the epoch, or None")

    @classmethod
    def from_decision(cls, decision: KeepRatio) -> Directive:
        """The directive that carries a decision out."""
        return cls(
            decision.batch_id, decision.keep_ratio, decision.keep_floor, decision.late_before_s, decision.everything
        )

    @classmethod
    def from_array(cls, batch_id: int, values: Sequence[float]) -> Directive:
        """Read what :meth:`to_array` gave, as guards report it with their batch.

        Examples
        --------
        >>> directive = Directive(7, keep_ratio=0.4, keep_floor=0.1)
        >>> Directive.from_array(7, directive.to_array(answered=False)) == directive
        True
        """
        keep_ratio, keep_floor, late_before_s, _, everything = (float(value) for value in values[:HISTORY_AT])
        moment_s = None if late_before_s <= NOTHING_LATE_S else late_before_s
        return cls(batch_id, keep_ratio, keep_floor, moment_s, everything=everything > 0)

    @property
    def sheds(self) -> bool:
        """Whether rows may be dropped by it."""
        return not self.everything

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Directive:
        """Read what :meth:`to_plain` gave; ValueError, TypeError or KeyError for anything else."""
        late_before_s = values["late_before_s"]
        return cls(
            batch_id=int(values["batch_id"]),
            keep_ratio=float(values["keep_ratio"]),
            keep_floor=float(values["keep_floor"]),
            late_before_s=None if late_before_s is None else float(late_before_s),
            everything=values["everything"] is True,
            history=ShedHistory(tuple(map(float, values["history"]))) if "history" in values else ShedHistory(),
        )

    @classmethod
    def from_json(cls, text: str) -> Directive:
        """Read what :meth:`to_json` wrote; ValueError, TypeError or KeyError for anything else."""
        return cls.from_plain(json.loads(text))

    def to_plain(self) -> dict[str, Any]:
        """The fields, as JSON holds them; without the history of a query that never dropped anything."""
        plain = asdict(self)
        del plain["history"]
        return plain if self.history == ShedHistory() else {**plain, "history": list(self.history.moments_s)}

    def to_json(self) -> str:
        """The directive as text."""
        return json.dumps(self.to_plain())

    @property
    def least_ratio(self) -> float:
        """The smallest probability with which a row of the batch is kept, where rows have no utility of their own."""
        if self.everything:
            return 1.0
        ratio = min(1.0, self.keep_ratio)
        return ratio if self.late_before_s is None else min(ratio, max(self.keep_floor, LATE_PART * ratio))

    def added_to(self, history: ShedHistory, now_s: float) -> ShedHistory:
        """When rows were dropped, with a batch that is told this.

        Late rows are thinned out more, and arrived before a moment: a window that began after it has lost none of them.

        Examples
        --------
        >>> directive = Directive(7, keep_ratio=0.4, keep_floor=0.01, late_before_s=90.0)
        >>> found = directive.added_to(NOTHING_SHED, 100.0)
        >>> [round(found.largest_weight(since_s), 1) for since_s in (80.0, 95.0, 105.0)]
        [22.6, 2.8, 1.0]
        """
        if self.everything:
            return history
        found = history.with_ratio(min(1.0, self.keep_ratio), now_s)
        if self.late_before_s is None:
            return found
        return found.with_ratio(self.least_ratio, max(NEVER_S / 2.0, min(now_s, self.late_before_s)))

    @property
    def floor(self) -> float:
        """The least probability with which any row of the batch is kept, however late or useless."""
        if self.everything:
            return 1.0
        return max(self.keep_floor, LATE_PART * min(1.0, self.keep_ratio), SMALLEST_RATIO)

    def to_array(self, *, answered: bool) -> list[float]:
        """The directive for a guard: ratio, floor, moment before which rows are late, answered, everything.

        The moments of the history follow (:data:`HISTORY_AT`); a batch that drops rows counts for every window that is
        open while it runs, also where whoever made its directive knows of no history. Last come the two probabilities
        that follow from all that (:data:`RATIO_AT`, :data:`FLOOR_AT`): what is the same for all rows is not left to
        the plan, whose every expression is optimised and turned into code again in every batch.

        Numbers in an array, because Spark writes a plain number into the code that it compiles, and would compile anew
        for every other number.
        """
        late_before_s = NOTHING_LATE_S if self.late_before_s is None else self.late_before_s
        head = [self.keep_ratio, self.keep_floor, late_before_s, float(answered), float(self.everything)]
        history = self.added_to(self.history, UNKNOWN_S)
        ratios = [min(1.0, max(self.floor, self.keep_ratio)), self.floor]
        return [*head, *history.moments_s, history.largest_weight(NEVER_S / 2.0), *ratios]

    def as_fallback(self, batch_id: int) -> Directive:
        """The same for a batch that it was not made for: which of its rows would be late is not known."""
        if batch_id == self.batch_id:
            return self
        return replace(self, batch_id=batch_id, late_before_s=None)
