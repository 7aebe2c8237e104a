"""Why a query is where it is now, in at most eight lines."""

from __future__ import annotations

import html
import time
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from penstock.errors import UnknownQueryError
from penstock.model import APPLICATION, ActionKind, Metric, Mode
from penstock.report.standing import READ_ROWS, ExecutorsStanding, Standing, read_executors, read_standing
from penstock.report.status import LiveFigures, QueryStatus, State, status_of
from penstock.report.text import APPLICATION_NAME, clean, clock_time, percent, short_number, shown_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model import QueryName, RecordedAction, SeriesPoint
    from penstock.store.base import Store

_SAME_START_S = 60.0
"""What is found when a query starts is recorded right before it is governed."""

SUMMARY_POINTS = 20
"""How many points of one part of a query its summary is made of."""

_UNITS = {"_rows_per_s": " rows/s", "_per_row_s": " s a row", "_rows": " rows", "_bytes": " bytes", "_s": " s"}


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
    """Sentences about what is in force, and the records that they rest on."""

    query: QueryName
    status: QueryStatus
    sentences: tuple[str, ...]
    actions: tuple[RecordedAction, ...]
    series: tuple[SeriesSummary, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the explanation as plain data."""
        return {
            "query": str(self.query),
            "state": self.status.state.value,
            "sentences": list(self.sentences),
            "actions": [entry.to_dict() for entry in self.actions],
            "rows": [summary.to_dict() for summary in self.series],
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "<ul>" + "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences) + "</ul>"


def explain(
    store: Store, query: QueryName, *, live: LiveFigures | None = None, now_s: float | None = None
) -> Explanation:
    """Explain one query; one that nothing is recorded of is an error that lists the known ones."""
    known = [name for name in store.queries() if name != APPLICATION]
    if query not in known:
        raise UnknownQueryError(query, [str(name) for name in known])
    teller = _Teller(time.time() if now_s is None else now_s)
    standing, executors = read_standing(store, query), read_executors(store)
    status = status_of(store, standing, executors, live or LiveFigures())
    lines = (
        teller.state(standing, status),
        teller.goal(standing),
        teller.limits(standing),
        teller.keep(standing),
        teller.executors(executors),
        teller.trouble("cannot meet its goal", standing.infeasible),
        teller.trouble("had a fault", standing.fault)
        or teller.trouble("has a finding in its plan", _newest_finding(store, query, standing)),
        teller.effect(store, standing),
    )
    series = tuple(summary for metric in Metric for summary in _summaries(store, query, metric))
    sentences = tuple(clean(line) for line in lines if line)
    entries = standing.entries if executors.decided is None else (*standing.entries, executors.decided)
    return Explanation(query, status, sentences, entries, series)


def _newest_finding(store: Store, query: QueryName, standing: Standing) -> RecordedAction | None:
    """What the look at the plan found when the query was governed last; the log has all of it."""
    found = store.actions(query=query, kinds=(ActionKind.PLAN_FINDING,), last=1)
    governed = standing.governed
    is_current = bool(found) and governed is not None and governed.time_s - found[0].time_s < _SAME_START_S
    return found[0] if is_current else None


class _Teller:
    """Each line of an explanation; empty where there is nothing to tell."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s

    def state(self, standing: Standing, status: QueryStatus) -> str:
        name = shown_name(standing.query)
        governed = standing.governed
        if governed is None and status.state is State.OBSERVED:
            decided = "" if standing.entries else "; nothing was decided about it yet"
            return f"{name} is observed only{decided}."
        if governed is not None and governed.action.kind is ActionKind.RELEASE and status.state is State.OBSERVED:
            return f"{name} is not governed any more since {self._at(governed)}: {governed.action.reason}"
        if governed is not None and governed.mode is Mode.OBSERVE and status.state is State.OBSERVED:
            return f"{name} is observed only since {self._at(governed)}: what is decided is not applied."
        since = f" (since {clock_time(status.since_s, now_s=self._now_s)})" if status.since_s else ""
        return f"{name} {status.state.sentence}{since}."

    def goal(self, standing: Standing) -> str:
        governed = standing.governed
        if governed is None or governed.action.kind is not ActionKind.GOVERN:
            return ""
        words = []
        if standing.latency_s is not None:
            words.append(f"results within {short_number(standing.latency_s)} s")
        if standing.minimum_accuracy is not None:
            words.append(f"at least {percent(standing.minimum_accuracy)} of rows kept")
        if standing.priority is not None:
            words.append(f"priority {standing.priority}")
        # Records of earlier versions have the goal in their reason only.
        return f"goal since {self._at(governed)}: {', '.join(words) or governed.action.reason}"

    def limits(self, standing: Standing) -> str:
        words = [_limit(entry) for entry in standing.limits]
        told = ""
        if words:
            newest = max(standing.limits, key=lambda entry: entry.action_id)
            told = f"reads at most {', '.join(words)} since {self._at(newest)}{self._why(newest)}"
        others = [
            f"{entry.action.target or 'the query'} is unmanaged: {entry.action.reason}" for entry in standing.unmanaged
        ]
        return "; ".join(filter(None, (told, *others)))

    def keep(self, standing: Standing) -> str:
        told = filter(None, (self._kept(standing), self._repaid(standing.repaid)))
        return "; ".join(told)

    def _repaid(self, entry: RecordedAction | None) -> str:
        if entry is None:
            return ""
        became = "was repaid" if entry.action.details.get("is_repaid") else "cannot be repaid"
        return f"what {entry.action.target} dropped {became} as of {self._at(entry)}: {entry.action.reason}"

    def _kept(self, standing: Standing) -> str:
        entry = standing.keep
        if entry is None or entry.action.value is None:
            return ""
        minimum = standing.minimum_accuracy
        bound = "" if minimum is None else f" (min accuracy {percent(minimum)})"
        kept = percent(min(1.0, entry.action.value))
        return f"keeps {kept} of rows since {self._at(entry)}{bound}{self._why(entry)}"

    def executors(self, executors: ExecutorsStanding) -> str:
        words = [] if executors.serving is None else [f"{executors.serving} executors serve"]
        entry = executors.decided
        if entry is not None and executors.target is not None:
            words.append(f"{executors.target} are to serve since {self._at(entry)}{self._why(entry)}")
        return f"{APPLICATION_NAME} {', '.join(words)}" if words else ""

    def trouble(self, what: str, entry: RecordedAction | None) -> str:
        return "" if entry is None else f"{what} as of {self._at(entry)}{self._why(entry)}"

    def effect(self, store: Store, standing: Standing) -> str:
        """What the newest decision with an expectation was to bring, and what was seen since."""
        for entry in sorted(standing.entries, key=lambda entry: -entry.action_id):
            words = list(_effects(store, entry))
            if words:
                return "; ".join(words)
        return ""

    def _at(self, entry: RecordedAction) -> str:
        return clock_time(entry.time_s, now_s=self._now_s)

    def _why(self, entry: RecordedAction) -> str:
        seen = "" if entry.mode is Mode.ACT else " (observed only, not applied)"
        return f"{seen}, {entry.action.cause}: {entry.action.reason}"


def _limit(entry: RecordedAction) -> str:
    action = entry.action
    place = f" from {action.target}" if action.target else ""
    return f"{'any amount' if action.value is None else _amount(action.value, action.unit)} a batch{place}"


def _amount(value: float, unit: str) -> str:
    return f"{short_number(value)} {unit}".rstrip()


def _effects(store: Store, entry: RecordedAction) -> Iterator[str]:
    for name, expected in entry.action.expected.items():
        if name not in Metric.__members__.values():
            continue
        points = store.points(entry.action.query, Metric(name), since_s=entry.time_s, last=READ_ROWS)
        values = [point.value for point in points if not point.subject]
        if values:
            what, unit = _metric_words(name)
            seen = f"{short_number(fmean(values))}{unit} on average over {len(values)} points since"
            yield f"{what} was expected to be {short_number(expected)}{unit}; it is {seen}"


def _metric_words(name: str) -> tuple[str, str]:
    for ending, unit in _UNITS.items():
        if name.endswith(ending):
            return name.removesuffix(ending).replace("_", " "), unit
    return name.replace("_", " "), ""


def _summaries(store: Store, query: QueryName, metric: Metric) -> Iterator[SeriesSummary]:
    by_subject: dict[str, list[SeriesPoint]] = {}
    for point in store.points(query, metric, last=READ_ROWS):
        by_subject.setdefault(point.subject, []).append(point)
    for subject, points in sorted(by_subject.items()):
        newest = points[-SUMMARY_POINTS:]
        values = [point.value for point in newest]
        latest = newest[-1]
        yield SeriesSummary(
            metric, subject, latest.time_s, latest.value, min(values), fmean(values), max(values), len(values)
        )
