"""What an element's readers allow it to put out: max-flow, from reports that may be late or lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.model.graph import ElementGraph


@dataclass(frozen=True, slots=True)
class ReaderReport:
    """The rate that a reader can take, and when it said so."""

    maximum_rows_per_s: float
    time_s: float


def allowed_output(
    reports: Mapping[str, ReaderReport],
    targets_rows_per_s: Mapping[str, float],
    *,
    now_s: float,
    stale_after_s: float,
) -> float | None:
    r"""Largest output rate that some reader can use; None for an element that nobody reads.

    Eq. 8 of "Adaptive control of extreme-scale stream processing systems":

    .. math:: r_o(n) \le \max \{ r_{max,i}(n) : i \in \text{readers} \}

    The maximum, not the minimum: a slow reader loses rows rather than hold back the others (*max-flow*). A reader that
    has not reported for ``stale_after_s`` counts with its long-term target from tier one: zero would stop the producer
    on a lost message, its last report could flood it for as long as the silence lasts.

    Examples
    --------
    >>> reports = {"a": ReaderReport(10.0, 99.9), "b": ReaderReport(30.0, 99.9), "c": ReaderReport(500.0, 42.0)}
    >>> allowed_output(reports, {"a": 10.0, "b": 20.0, "c": 20.0}, now_s=100.0, stale_after_s=1.0)
    30.0
    """
    rates = [_rate(reports.get(reader), target, now_s - stale_after_s) for reader, target in targets_rows_per_s.items()]
    return max(rates) if rates else None


def smallest_output(rates_rows_per_s: Iterable[float]) -> float | None:
    """What *min-flow* would allow: the slowest reader's rate, as in TCP; for comparison."""
    return min(rates_rows_per_s, default=None)


def _rate(report: ReaderReport | None, target_rows_per_s: float, oldest_s: float) -> float:
    if report is None or report.time_s < oldest_s:
        return target_rows_per_s
    return report.maximum_rows_per_s


def feeder_parts(graph: ElementGraph, rates_rows_per_s: Mapping[str, float]) -> tuple[tuple[float, ...], ...]:
    r"""Part of what each element takes of others that each of its feeders brings, by planned rates.

    .. math:: p_{ji} = m_j r_j / \sum_{k \in \text{feeders}(i)} m_k r_k

    with selectivities :math:`m` and planned intakes :math:`r`. Even parts, where plans differ, hold a feeder of nine
    rows in ten to five, and the room of the others stays empty.

    Examples
    --------
    >>> from penstock.model.graph import Element, ElementGraph, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("east"),),
    ...     (InputStream("a", 90.0), InputStream("b", 10.0)),
    ...     (
    ...         Element("left", "east", ("a",), 900.0),
    ...         Element("right", "east", ("b",), 900.0, selectivity=2.0),
    ...         Element("both", "east", ("left", "right"), 900.0, weight=1.0),
    ...     ),
    ... )
    >>> feeder_parts(graph, {"left": 60.0, "right": 10.0, "both": 80.0})
    ((), (), (0.75, 0.25))
    """
    found = []
    for feeders in graph.feeders:
        sent = [graph.elements[each].selectivity * rates_rows_per_s[graph.elements[each].name] for each in feeders]
        whole = sum(sent)
        found.append(tuple(rows / whole if whole > 0 else 1.0 / len(feeders) for rows in sent))
    return tuple(found)
