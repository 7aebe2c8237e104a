"""Change detectors side by side on labelled series: the thesis's fixed threshold, river's, and Penstock's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidProfileError
from penstock.estimate.change import Adwin, ChangeDetector, FixedThreshold, PageHinkley, Referenced
from penstock.estimate.two_lines import TwoLines
from penstock.research.change_scores import alarms_of, change_point_f1, matched, window_score
from penstock.research.label_files import AnnotatedSeries, WindowedSeries, read_annotated, read_windowed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Row = dict[str, float | int | str | bool | None]

SILENCE = "silence"


class _Silent(ChangeDetector):
    name = SILENCE

    def update(self, value: float) -> int | None:  # noqa: ARG002 - it hears nothing
        return None

    def reset(self) -> None:
        pass


DETECTORS: dict[str, Callable[[], ChangeDetector]] = {
    SILENCE: _Silent,
    "threshold 0.08": lambda: Referenced(FixedThreshold()),
    "page_hinkley": lambda: Referenced(PageHinkley(fewest=10, delta=0.5, threshold=20.0)),
    "adwin": lambda: Referenced(Adwin(delta=0.002)),
    "two_lines": TwoLines,
}
"""Every detector by the name in the table.

None sees more of a series than there is by then: two lines compare squared residuals, whatever their scale, and the
others get deviations from the mean of the first values since the last alarm.
"""


def score_annotated(series: Sequence[AnnotatedSeries], maker: Callable[[], ChangeDetector]) -> Row:
    """Mean F1 over series with annotated change points, and how many values after a true change the alarm came."""
    scores, delays, count = [], [], 0
    for one in series:
        alarms = [alarm for values in one.values for alarm in alarms_of(maker(), values)]
        count += len(alarms)
        scores.append(change_point_f1(one.annotations, [alarm.changed for alarm in alarms]))
        truth = sorted({point for points in one.annotations.values() for point in points})
        raised = {alarm.changed: alarm.raised for alarm in alarms}
        delays += [raised[found] - change for change, found in matched(truth, list(raised))]
    return {
        "series": len(series),
        "f1": float(np.mean(scores)),
        "alarms": count,
        "delay_median_values": float(np.median(delays)) if delays else None,
    }


def score_windowed(series: Sequence[WindowedSeries], maker: Callable[[], ChangeDetector]) -> Row:
    """F1 over all labelled windows of all series together, and how long after the start of a window the alarm came."""
    hits = missed = false_alarms = 0
    delays: list[float] = []
    for one in series:
        alarms = alarms_of(maker(), one.values)
        score = window_score([float(one.times_s[alarm.raised]) for alarm in alarms], one.windows)
        hits += score.hits
        missed += score.missed
        false_alarms += score.false_alarms
        delays += score.delays
    total = 2 * hits + missed + false_alarms
    return {
        "series": len(series),
        "f1": 2 * hits / total if total else 0.0,
        "alarms": hits + false_alarms,
        "windows_found": hits,
        "windows": hits + missed,
        "delay_median_s": float(np.median(delays)) if delays else None,
    }


def score_changes(
    folder: Path, *, parts: Sequence[str] = ("tcpd", "nab"), say: Callable[[str], None] | None = None
) -> list[Row]:
    """Every detector on both sets of labelled series, as far as the folder has them."""
    if not folder.is_dir():
        raise InvalidProfileError(
            f"folder {str(folder)!r} of labelled series does not exist: name it with --traces or PENSTOCK_TRACES"
        )
    rows: list[Row] = []
    for part in parts:
        if say is not None:
            say(f"labelled series in {part}")
        for name, maker in DETECTORS.items():
            found = (
                score_annotated(read_annotated(folder / part), maker)
                if part == "tcpd"
                else score_windowed(read_windowed(folder / part), maker)
            )
            rows.append({"set": part, "detector": name, **found})
    return rows
