"""What was decided, when, and why."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.model import ActionKind, Mode
from penstock.report.moments import moment_s
from penstock.report.text import asked_name, clean, html_table, local_time, short_number, shown_name, text_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from penstock.model import QueryName, RecordedAction
    from penstock.store.base import Store

DEFAULT_LAST = 50
HEAD = ("time", "query", "kind", "change", "cause", "reason")

_TEXT_COLUMNS = 160


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which actions are asked for; ``last`` 0 means all of them."""

    query: QueryName | None = None
    kinds: tuple[ActionKind, ...] = ()
    since_s: float | None = None
    until_s: float | None = None
    last: int = DEFAULT_LAST

    def read(self, store: Store, *, after_id: int = 0, last: int | None = None) -> list[RecordedAction]:
        """Give the actions that match, oldest first."""
        return store.actions(
            query=self.query, kinds=self.kinds, since_s=self.since_s, until_s=self.until_s, after_id=after_id, last=last
        )

    def each(self, store: Store, *, after_id: int = 0) -> Iterator[RecordedAction]:
        """Give all actions that match one by one, oldest first, whatever ``last`` is."""
        return store.each_action(
            query=self.query, kinds=self.kinds, since_s=self.since_s, until_s=self.until_s, after_id=after_id
        )


@dataclass(frozen=True, slots=True)
class LogView:
    """Recorded actions, oldest first; prints as a table, and shows as one in a notebook.

    Examples
    --------
    >>> from penstock.model import Action, QueryName
    >>> from penstock.store import MemoryStore
    >>> store = MemoryStore()
    >>> hold = Action(ActionKind.HOLD, QueryName("clicks"), "batch 1", "2.5 s of 5 s")
    >>> entry = store.append(hold, time_s=10.0, mode=Mode.ACT)
    >>> view = LogView.read(store, query="clicks", kinds=["hold", "fault"])
    >>> [(row["kind"], row["reason"]) for row in view.rows()]
    [('hold', '2.5 s of 5 s')]
    """

    entries: tuple[RecordedAction, ...]
    older_exist: bool = False

    @classmethod
    def read(
        cls,
        store: Store,
        *,
        query: str | None = None,
        kinds: Collection[str] = (),
        since: str | float | None = None,
        until: str | float | None = None,
        last: int = DEFAULT_LAST,
        now_s: float | None = None,
    ) -> LogView:
        """Read what matches, as ``penstock log`` does.

        Parameters
        ----------
        store
            Where the log is.
        query
            Only this query; ``"(application)"`` for what was decided about the whole application.
        kinds
            Only these kinds, or this one; see :class:`~penstock.model.action.ActionKind`.
        since, until
            A local time such as ``"2026-01-05T10:00:00"``, how long ago such as ``"10 minutes"``, or seconds since the
            epoch.
        last
            The newest so many; 0 for all.
        now_s
            What "ago" counts from, now if left out.
        """
        wanted = [kinds] if isinstance(kinds, str) else kinds
        now = time.time() if now_s is None else now_s
        chosen = LogFilter(
            query=None if query is None else asked_name(query),
            kinds=tuple(ActionKind(kind) for kind in wanted),
            since_s=None if since is None else moment_s(since, now_s=now),
            until_s=None if until is None else moment_s(until, now_s=now),
            last=last,
        )
        return cls.of(store, chosen)

    @classmethod
    def of(cls, store: Store, wanted: LogFilter) -> LogView:
        """Read what a filter asks for."""
        # One more than asked for tells whether there are older ones that are not shown.
        recorded = wanted.read(store, last=wanted.last + 1 if wanted.last else None)
        older_exist = bool(wanted.last) and len(recorded) > wanted.last
        return cls(tuple(recorded[1:] if older_exist else recorded), older_exist)

    def rows(self) -> list[dict[str, Any]]:
        """One mapping an action, units in the keys; for ``pandas.DataFrame`` for one."""
        return [entry.to_dict() for entry in self.entries]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[RecordedAction]:
        return iter(self.entries)

    def __str__(self) -> str:
        if not self.entries:
            return "no actions that match"
        table = text_table(HEAD, [cells(entry) for entry in self.entries], columns=_TEXT_COLUMNS, shrink=len(HEAD) - 1)
        return f"{table}\nolder ones exist" if self.older_exist else table

    __repr__ = __str__

    def _repr_html_(self) -> str:
        caption = "older ones exist" if self.older_exist else ""
        return html_table(HEAD, [cells(entry) for entry in self.entries], caption=caption)


def cells(entry: RecordedAction) -> tuple[str, ...]:
    """One line of the log, as :data:`HEAD` names its parts."""
    action = entry.action
    kind = action.kind.value if entry.mode is Mode.ACT else f"{action.kind.value} (observed only)"
    texts = (kind, describe_change(entry), action.cause, action.reason)
    return local_time(entry.time_s), shown_name(action.query), *(clean(text) for text in texts)


def describe_change(entry: RecordedAction) -> str:
    """Say what an action changed: ``"source 0: 1,000 -> 2,500 rows"``, or ``"batch 7: 100 -> 42 %"`` of the rows."""
    action = entry.action
    if action.value is None:
        return action.target
    scale, unit = (100.0, "%") if action.unit == "ratio" else (1.0, action.unit)
    values = [short_number(scale * number) for number in (action.previous, action.value) if number is not None]
    change = f"{' -> '.join(values)} {unit}".rstrip()
    return f"{action.target}: {change}" if action.target else change
