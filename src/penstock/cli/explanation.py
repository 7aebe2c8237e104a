"""Why a query is where it is, from what is recorded of it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from penstock.cli.output import local_time, short_number
from penstock.errors import UnknownQueryError
from penstock.model import ActionKind, Metric, Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.model import QueryName, RecordedAction, SeriesPoint
    from penstock.store.base import Store

# How many points of one part of a query its summary is made of.
SUMMARY_POINTS = 20
# How many points are read to find those of every part: a batch has about ten phases, an engine a few executors.
_POINTS_READ = 400
# How many actions are read to find the newest one of every source.
_ACTIONS_READ = 200

_STATES = (ActionKind.GOVERN, ActionKind.RELEASE)
_STANDING = (
    ActionKind.READ_LIMIT,
    ActionKind.KEEP_RATIO,
    ActionKind.EXECUTORS,
    ActionKind.UNMANAGED,
    ActionKind.ACTUATOR_OFF,
)
_EVENTS = (ActionKind.EXECUTORS_DONE, ActionKind.HOLD, ActionKind.INFEASIBLE, ActionKind.FAULT)

_PHRASES: dict[ActionKind, str] = {
    ActionKind.GOVERN: "is governed since {time}",
    ActionKind.RELEASE: "is not governed any more since {time}",
    ActionKind.READ_LIMIT: "reads at most {value} a batch since {time}{before}",
    ActionKind.KEEP_RATIO: "keeps {value} of its rows since {time}{before}",
    ActionKind.EXECUTORS: "is to have {value} since {time}{before}",
    ActionKind.EXECUTORS_DONE: "got there in {value} at {time}",
    ActionKind.UNMANAGED: "is left alone since {time}",
    ActionKind.ACTUATOR_OFF: "cannot be acted on since {time}",
    ActionKind.HOLD: "was left as it is at {time}",
    ActionKind.INFEASIBLE: "cannot meet its goal as of {time}",
    ActionKind.FAULT: "had a fault at {time}",
}


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """The newest points of one metric of one part of a query."""

    metric: Metric
    subject: str
    time_s: float
    latest: float
    low: float
    mean: float
    high: float
    count: int

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as plain data; the unit of the values is in the metric's name."""
        return {
            "metric": self.metric.value, "subject": self.subject, "time_s": self.time_s, "latest": self.latest,
            "low": self.low, "mean": self.mean, "high": self.high, "count": self.count,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Explanation:
    """Sentences, and the records that they rest on."""

    query: QueryName
    sentences: tuple[str, ...]
    actions: tuple[RecordedAction, ...]
    series: tuple[SeriesSummary, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the explanation as plain data."""
        return {
            "query": str(self.query),
            "sentences": list(self.sentences),
            "actions": [entry.to_dict() for entry in self.actions],
            "rows": [summary.to_dict() for summary in self.series],
        }


def explain_query(store: Store, query: QueryName) -> Explanation:
    """Explain one query; one that nothing is recorded of is an error that lists the known ones."""
    known = store.queries()
    if query not in known:
        raise UnknownQueryError(query, [str(name) for name in known])
    actions = tuple(_actions_in_force(store, query))
    sentences = [_sentence(entry) for entry in actions] or [f"{query} is observed; nothing was decided about it yet."]
    sentences += [text for entry in actions for text in _effects(store, entry)]
    series = tuple(summary for metric in Metric for summary in _summaries(store, query, metric))
    return Explanation(query, tuple(sentences), actions, series)


def _actions_in_force(store: Store, query: QueryName) -> Iterator[RecordedAction]:
    """Give what the query stands on now: its state, the newest word on each part, and what happened since."""
    state = store.actions(query=query, kinds=_STATES, last=1)
    yield from state
    if state and state[0].action.kind is ActionKind.RELEASE:
        return
    # A governed start sets its first limit before the query runs, so limits count from the last release on.
    released = store.actions(query=query, kinds=(ActionKind.RELEASE,), last=1)
    after_id = released[0].action_id if released else 0
    standing = _newest_of_each(store.actions(query=query, kinds=_STANDING, after_id=after_id, last=_ACTIONS_READ))
    yield from standing
    newest_id = max((entry.action_id for entry in standing), default=after_id)
    for kind in _EVENTS:
        # A hold or an infeasible goal older than the newest limit is answered by it; a fault stays worth telling.
        since_id = after_id if kind is ActionKind.FAULT else newest_id
        yield from store.actions(query=query, kinds=(kind,), after_id=since_id, last=1)


def _newest_of_each(entries: Iterable[RecordedAction]) -> list[RecordedAction]:
    newest = {(entry.action.kind, entry.action.target): entry for entry in entries}
    return sorted(newest.values(), key=lambda entry: (entry.action.target, entry.action_id))


def _sentence(entry: RecordedAction) -> str:
    action = entry.action
    # The id of a query tells its checkpoint apart from others in the log; to a reader it is noise.
    has_part = action.target and action.kind is not ActionKind.GOVERN
    subject = f"{action.query}, {action.target}," if has_part else f"{action.query}"
    value = "any amount" if action.value is None else _amount(action.value, action.unit)
    before = "" if action.previous is None else f" ({_amount(action.previous, action.unit)} before)"
    phrase = _PHRASES[action.kind].format(time=local_time(entry.time_s), value=value, before=before)
    seen = "" if entry.mode is Mode.ACT else " (observed only, not carried out)"
    return f"{subject} {phrase}{seen}, {action.cause}: {action.reason}"


def _amount(value: float, unit: str) -> str:
    return f"{short_number(value)} {unit}".rstrip()


def _effects(store: Store, entry: RecordedAction) -> Iterator[str]:
    """Compare what an action was expected to do with what was observed since."""
    action = entry.action
    for name, expected in action.expected.items():
        if name not in Metric.__members__.values():
            continue
        points = store.points(action.query, Metric(name), since_s=entry.time_s)
        values = [point.value for point in points if not point.subject]
        if values:
            found = f"{short_number(fmean(values))} on average over {len(values)} points since"
            yield f"{action.kind.value} was to bring {name} to {short_number(expected)}; it is {found}."


def _summaries(store: Store, query: QueryName, metric: Metric) -> Iterator[SeriesSummary]:
    by_subject: dict[str, list[SeriesPoint]] = {}
    for point in store.points(query, metric, last=_POINTS_READ):
        by_subject.setdefault(point.subject, []).append(point)
    for subject, points in sorted(by_subject.items()):
        newest = points[-SUMMARY_POINTS:]
        values = [point.value for point in newest]
        latest = newest[-1]
        yield SeriesSummary(
            metric, subject, latest.time_s, latest.value, min(values), fmean(values), max(values), len(values)
        )
