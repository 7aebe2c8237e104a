"""The file behind an attached application: goals that change in it, and queries in it that nobody starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.control.events import GoalChanged
from penstock.declaration import DeclarationWatch, difference, needs_restart, unstarted
from penstock.errors import InvalidDeclarationError
from penstock.model.decision import Decision, Unmanaged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.declaration import Declaration, GoalChange

logger = logging.getLogger("penstock")

_START_WITHIN_S = 60.0
"""A query that is declared and has not started a minute after the declaration was read is likely misspelt."""


class DeclaredFile:
    """What is looked at once a cycle, where an application comes from a file.

    Parameters
    ----------
    declaration
        As it was read.
    is_watched
        Whether goals that change in the file take hold while queries run.
    now_s
        When it was read.
    record
        Puts a word about the file into the log.
    take
        Takes over a goal, for the query that runs and those to come; gives whether the loop must be told.
    """

    def __init__(
        self,
        declaration: Declaration,
        *,
        is_watched: bool,
        now_s: float,
        record: Callable[[Sequence[Decision]], object],
        take: Callable[[GoalChange], bool],
    ) -> None:
        self._declaration = declaration
        self._watch = DeclarationWatch(declaration.path) if is_watched else None
        self._declared_s = now_s
        self._record, self._take = record, take
        self._told: set[str] = set()

    def look(self, started_names: set[str], now_s: float) -> list[GoalChanged]:
        """Goals that changed in the file; whatever is wrong with it is said once."""
        for sentence in unstarted(
            self._declaration, started_names, declared_s=self._declared_s, now_s=now_s, patience_s=_START_WITHIN_S
        ):
            self._say(sentence)
        changed = self._changed()
        if changed is None:
            return []
        for sentence in needs_restart(self._declaration, changed):
            self._say(sentence)
        found = difference(self._declaration.application, changed.application)
        self._declaration = changed
        asked_by = str(changed.path)
        return [
            GoalChanged(change.query, change.new, asked_by)
            for change in found
            if self._take(change) and change.new is not None
        ]

    def _changed(self) -> Declaration | None:
        if self._watch is None:
            return None
        try:
            return self._watch.changes()
        except InvalidDeclarationError as error:
            self._say(f"{error}; the goals stay as they are")
            return None

    def _say(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            logger.warning("%s", sentence)
            self._record([Unmanaged(cause="declaration", reason=sentence)])
