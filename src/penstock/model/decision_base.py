"""What every decision has: whom it is about, what it answers to, why, and what it should bring about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from penstock.model.action import APPLICATION, ActionKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.query import QueryName


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision about one query, or about the whole application where ``query`` is empty.

    Parameters
    ----------
    query
        The query that it is about; :data:`~penstock.model.action.APPLICATION` for the application.
    cause
        What it answers to: ``"batch 12"``, ``"start"``, ``"tick"``.
    reason
        One sentence for a person, with the figures that decided.
    expected
        What it should bring about, to be compared with what happens.
    """

    kind: ClassVar[ActionKind]
    query: QueryName = APPLICATION
    cause: str
    reason: str
    expected: Mapping[str, float] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """What is acted on inside the query, for people."""
        return ""

    @property
    def value(self) -> float | None:
        """The new setting, for people and charts."""
        return None

    @property
    def previous(self) -> float | None:
        """The setting that it replaces."""
        return None

    @property
    def unit(self) -> str:
        """Of the settings."""
        return ""
