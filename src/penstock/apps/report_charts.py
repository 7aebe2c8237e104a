"""Charts of a report, as texts of SVG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from penstock.apps.fraud_truth import FraudCount
    from penstock.apps.measure import Measured

_COLOURS = ("#b4432f", "#1f6f8b", "#4c8c4a", "#8a6d3b", "#6b4c9a")


def charts_of(runs: Sequence[Measured], counts: Sequence[FraudCount]) -> list[tuple[str, str]]:
    """Draw all charts of the runs; each with the sentence that stands below it."""
    goal_s = runs[0].goal_s
    charts = [
        (
            _chart(runs, "event latency, s", _draw_latency, line=("goal", goal_s)),
            "Age of rows when their results came out: median and oldest of each batch.",
        ),
        (
            _chart(runs, "batch time, s", _draw_batch_time, line=("half the goal", goal_s / 2)),
            "How long each batch took, at the moment when it was done.",
        ),
        (_chart(runs, "rows in a batch", _draw_rows), "Rows that each batch read: steps follow the read limit."),
        (
            _chart(runs, "rows read and offered, millions", _draw_backlog),
            "Rows offered (dotted) and rows read; the gap between them is the lag.",
        ),
    ]
    if counts:
        text = (
            "Records of each fraudster and window in the governed run: estimate with its 95 % interval, and the truth."
        )
        charts.insert(1, (_count_chart(counts), text))
    return charts


def _count_chart(counts: Sequence[FraudCount]) -> str:
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(counts))
    # One without an interval is drawn as a point.
    errors = [
        [0.0 if count.low is None else count.estimate - count.low for count in counts],
        [0.0 if count.high is None else count.high - count.estimate for count in counts],
    ]
    estimates = [count.estimate for count in counts]
    axes.errorbar(places, estimates, yerr=errors, fmt="o", ms=4, capsize=3, color=_COLOURS[1], label="estimate, 95 %")
    axes.plot(places, [count.true for count in counts], "x", ms=7, color=_COLOURS[0], label="truth")
    axes.set_xlabel("fraudster and window")
    axes.set_ylabel("records")
    axes.grid(alpha=0.25)
    axes.legend(loc="best", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return _svg(figure)


def _chart(
    runs: Sequence[Measured],
    label: str,
    draw: Callable[[Axes, Measured, str], None],
    line: tuple[str, float] | None = None,
) -> str:
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for run, colour in zip(runs, _COLOURS, strict=False):
        draw(axes, run, colour)
    if line is not None:
        axes.axhline(line[1], color="#555", linewidth=1, linestyle="--", label=line[0])
    axes.set_xlabel("seconds since the run began")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return _svg(figure)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer)  # type: ignore[no-untyped-call]
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _began_s(run: Measured) -> float:
    return min((batch.started_s for batch in run.batches), default=0.0)


def _draw_latency(axes: Axes, run: Measured, colour: str) -> None:
    times = [done - _began_s(run) for done, _, _ in run.latency_by_batch_s]
    axes.plot(times, [median for _, median, _ in run.latency_by_batch_s], "o-", color=colour, ms=3, label=run.name)
    axes.plot(times, [oldest for _, _, oldest in run.latency_by_batch_s], ":", color=colour)


def _draw_batch_time(axes: Axes, run: Measured, colour: str) -> None:
    times = [batch.finished_s - _began_s(run) for batch in run.batches]
    axes.plot(times, [batch.duration_s for batch in run.batches], "o-", color=colour, ms=3, label=run.name)


def _draw_rows(axes: Axes, run: Measured, colour: str) -> None:
    times = [batch.started_s - _began_s(run) for batch in run.batches]
    axes.step(times, [batch.rows for batch in run.batches], where="post", color=colour, label=run.name)


def _draw_backlog(axes: Axes, run: Measured, colour: str) -> None:
    times = [batch.finished_s - _began_s(run) for batch in run.batches]
    axes.plot(times, [batch.end_offset / 1e6 for batch in run.batches], "o-", color=colour, ms=3, label=run.name)
    axes.plot([0.0, run.seconds], [0.0, run.offered_rows / 1e6], ":", color=colour)
