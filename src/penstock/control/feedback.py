"""What an element's readers allow it to put out: max-flow, from reports that may be late or lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
