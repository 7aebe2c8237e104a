"""A store that only counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model import Action, ActionKind, Mode, RecordedAction


class CountingStore(MemoryStore):
    """Counts decisions by kind and forgets them: a long simulation has millions of them."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[ActionKind] = Counter()

    def append_all(self, actions: Sequence[Action], *, time_s: float, mode: Mode) -> list[RecordedAction]:  # noqa: ARG002 - as stores have it
        """Count."""
        self.counts.update(action.kind for action in actions)
        return []
