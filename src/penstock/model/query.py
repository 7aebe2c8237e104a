"""Queries and the sources they read, as Penstock sees them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

QueryName = NewType("QueryName", str)
"""The name under which a query is governed and recorded: its query name, or its id where it has none."""


class LimitUnit(StrEnum):
    """What a source's read limit counts."""

    ROWS = "rows"
    FILES = "files"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source of a query, and how far Penstock may limit what it reads.

    ``unit`` is None for a source that must be left alone; ``reason`` then says why.
    """

    index: int
    description: str
    unit: LimitUnit | None
    own_limit_units: int | None = None
    reason: str = ""

    @property
    def is_limitable(self) -> bool:
        """Whether a read limit may be set on this source."""
        return self.unit is not None


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """What is fixed about a query while it runs.

    ``trigger_interval_s`` is 0 for a query that runs batch after batch.
    """

    name: QueryName
    sources: tuple[SourceSpec, ...]
    trigger_interval_s: float = 0.0
