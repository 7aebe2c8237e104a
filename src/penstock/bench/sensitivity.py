"""What each constant of the proactive scaler moves: halved and doubled, on recorded loads, in virtual time.

A constant that moves nothing is one too many; one that moves much must be derived from what it depends on, or be told.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from penstock.control.scaling import Autoscaler, AutoscalerSettings, guarded
from penstock.sim.parallel import run_all
from penstock.sim.rate_traces import RateTrace, scaled_to
from penstock.sim.replay import ReplaySettings, Row, needed_sizes, run_policy, scaler_setup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.sim.calibration import Calibration

FACTORS = (0.5, 2.0)
_OF_THE_ENGINE = frozenset({"interval_s", "start_s"})
"""Not chosen but given: how often it decides, and how long executors take."""
_MOVES_VIOLATIONS, _MOVES_HOURS_RATIO = 1, 0.002
"""A sample in violation, or two executor-hours in a thousand: less than another seed of batch times moves."""


def changed(settings: AutoscalerSettings, name: str, factor: float) -> AutoscalerSettings:
    """The settings with one constant multiplied; of a quantile, the part beyond it.

    Examples
    --------
    >>> changed(AutoscalerSettings(quantile=0.99), "quantile", 2.0).quantile
    0.98
    """
    value = getattr(settings, name)
    new = 1.0 - factor * (1.0 - value) if name == "quantile" else type(value)(factor * value)
    return replace(settings, **{name: new})


def constants() -> list[str]:
    """Everything that is chosen about the scaler."""
    return [field.name for field in fields(AutoscalerSettings) if field.name not in _OF_THE_ENGINE]


@dataclass(frozen=True, slots=True)
class SensitivityJob:
    """One constant at one factor, or none, on all loads."""

    traces: tuple[RateTrace, ...]
    calibration: Calibration
    settings: ReplaySettings
    name: str = ""
    factor: float = 1.0


def run_job(job: SensitivityJob) -> Row:
    """Violations and executor-hours over all loads."""
    calibration, settings = job.calibration, job.settings
    violations, executor_s = 0, 0.0
    for trace in job.traces:
        rates = scaled_to(
            trace, calibration, peak_executors=settings.peak_executors, window_s=settings.interval_s, seed=settings.seed
        ).rates
        setup = scaler_setup(calibration, settings)
        numbers = AutoscalerSettings(interval_s=setup.interval_s, start_s=setup.start_s)
        numbers = changed(numbers, job.name, job.factor) if job.name else numbers
        first = int(needed_sizes(rates, calibration, settings)[0])
        scaler = guarded(Autoscaler(numbers), setup)
        run = run_policy(rates, scaler, calibration, settings, executors=first, policy=scaler.name)
        violations += sum(late >= settings.late_share for late in run.late_share)
        executor_s += run.paid_executor_s
    return {
        "constant": job.name,
        "factor": job.factor,
        "value": getattr(numbers, job.name) if job.name else None,
        "violations": violations,
        "executor_hours": executor_s / 3600.0,
    }


def run_sensitivity(
    traces: Sequence[RateTrace],
    calibration: Calibration,
    settings: ReplaySettings,
    *,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """The scaler as it is, then each constant halved and doubled."""
    base = SensitivityJob(tuple(traces), calibration, settings)
    jobs = [base, *(replace(base, name=name, factor=factor) for name in constants() for factor in FACTORS)]
    rows = run_all(run_job, jobs, processes=processes, progress=progress)
    return [_compared(row, rows[0]) for row in rows]


def unmoved(rows: Sequence[Row]) -> list[str]:
    """Constants that neither halving nor doubling moves.

    Examples
    --------
    >>> rows = [
    ...     {"constant": name, "more_violations": more, "executor_hours_ratio": ratio}
    ...     for name, more, ratio in (("a", 0, 1.0), ("a", 0, 1.001), ("b", 0, 1.0), ("b", 3, 1.0))
    ... ]
    >>> unmoved(rows)
    ['a']
    """
    names = dict.fromkeys(str(row["constant"]) for row in rows if row["constant"])
    moved = {row["constant"] for row in rows if _has_moved(row)}
    return [name for name in names if name not in moved]


def _has_moved(row: Row) -> bool:
    more, ratio = int(row["more_violations"] or 0), float(row["executor_hours_ratio"] or 1.0)
    return abs(more) >= _MOVES_VIOLATIONS or abs(ratio - 1.0) >= _MOVES_HOURS_RATIO


def _compared(row: Row, base: Row) -> Row:
    more = int(row["violations"] or 0) - int(base["violations"] or 0)
    ratio = float(row["executor_hours"] or 0.0) / float(base["executor_hours"] or 1.0)
    return {**row, "more_violations": more, "executor_hours_ratio": ratio}
