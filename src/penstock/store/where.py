"""Conditions of look-ups in the store's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model import ActionKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.model import QueryName


class Where:
    """Conditions of a look-up; values travel beside the text, never inside it."""

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.values: list[object] = []

    def add(self, condition: str, *values: object) -> None:
        """One more condition."""
        self._conditions.append(condition)
        self.values.extend(values)

    def add_range(self, since_s: float | None, until_s: float | None) -> None:
        """A range of time, open where an end is None."""
        if since_s is not None:
            self.add("time_s >= ?", float(since_s))
        if until_s is not None:
            self.add("time_s <= ?", float(until_s))

    @property
    def text(self) -> str:
        """The conditions, with marks where values go."""
        return " AND ".join(self._conditions)


def values_of(kinds: Collection[ActionKind]) -> list[str]:
    """The stored texts of kinds, sorted, each once."""
    return sorted({ActionKind(kind).value for kind in kinds})


def of_actions(
    query: QueryName | None, kinds: Sequence[str], since_s: float | None, until_s: float | None, after_id: int
) -> Where:
    """Conditions that actions must meet; both ends of the time range belong to it."""
    where = Where()
    where.add("action_id > ?", after_id)
    if query is not None:
        where.add("query = ?", query)
    if kinds:
        where.add(f"kind IN ({', '.join('?' * len(kinds))})", *kinds)
    where.add_range(since_s, until_s)
    return where
