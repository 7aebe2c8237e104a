"""Policies by name, with their usual settings, inside their guards: the same in a replay and on a live engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.scaling.autoscaler import Autoscaler
from penstock.control.scaling.autoscaler_settings import AutoscalerSettings
from penstock.control.scaling.ds2 import Ds2
from penstock.control.scaling.dstreams import BatchRatio
from penstock.control.scaling.dynamic_allocation import DynamicAllocation
from penstock.control.scaling.flink import FlinkAutoscaler
from penstock.control.scaling.guards import UP_TO_TWENTY, Guarded, GuardSettings
from penstock.control.scaling.hpa import HorizontalPod
from penstock.control.scaling.keda import KafkaLag
from penstock.control.scaling.reactive import Reactive
from penstock.control.scaling.static import StaticPeak
from penstock.errors import InvalidSettingError
from penstock.model.scaling import ONLINE_POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.control.scaling.base import Scaler
    from penstock.model.executors import ExecutorBounds


@dataclass(frozen=True, slots=True)
class ScalerSetup:
    """What policies must know of the engine that they decide about.

    Parameters
    ----------
    bounds
        How few and how many executors there may be.
    interval_s
        Time between two decisions.
    start_s
        From asking for an executor to its first task.
    rows_for_each
        Rows of lag for each executor, for ``keda``.
    peak
        Size of ``static``; ``max_executors`` where it is not given.
    down_every_s
        Time between two steps down.
    down_after_s, quantile, memory_s
        Of ``proactive``: :class:`~penstock.control.scaling.autoscaler_settings.AutoscalerSettings`.
    utilisation
        Target of ``hpa``.
    budget_executor_hours
        Executor-hours within any 24 hours; None is no budget.
    """

    bounds: ExecutorBounds = UP_TO_TWENTY
    interval_s: float = 15.0
    start_s: float = 30.0
    rows_for_each: float = 5_500.0
    peak: int | None = None
    down_every_s: float = 60.0
    down_after_s: float = 120.0
    quantile: float = 0.99
    memory_s: float = 1_800.0
    utilisation: float = 0.8
    budget_executor_hours: float | None = None


def make_scaler(policy: str, setup: ScalerSetup) -> Scaler:
    """A policy inside the guards that all of them wear.

    Examples
    --------
    >>> from penstock.model.executors import ExecutorBounds
    >>> make_scaler("reactive", ScalerSetup(ExecutorBounds(max_executors=4))).name
    'reactive'
    >>> make_scaler("oracle", ScalerSetup())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidSettingError: setting 'scaling policy' = 'oracle' is not allowed: one of proactive, ...
    """
    interval_s = setup.interval_s
    makers: dict[str, Callable[[], Scaler]] = {
        "proactive": lambda: Autoscaler(
            AutoscalerSettings(
                interval_s=interval_s,
                start_s=setup.start_s,
                down_after_s=setup.down_after_s,
                quantile=setup.quantile,
                memory_s=setup.memory_s,
            )
        ),
        "reactive": lambda: Reactive(settle_s=2.0 * interval_s),
        "hpa": lambda: HorizontalPod(target_share=setup.utilisation),
        "keda": lambda: KafkaLag(setup.rows_for_each),
        "dstreams": BatchRatio,
        "ds2": Ds2,
        "flink": lambda: FlinkAutoscaler(restart_s=setup.start_s),
        "spark": DynamicAllocation,
        "static": lambda: StaticPeak(setup.peak or setup.bounds.max_executors),
    }
    if policy not in makers:
        raise InvalidSettingError("scaling policy", policy, f"one of {', '.join(ONLINE_POLICIES)}")
    return guarded(makers[policy](), setup)


def guarded(scaler: Scaler, setup: ScalerSetup) -> Scaler:
    """Any policy, one's own as well, inside those guards.

    Examples
    --------
    >>> from penstock.control.scaling.static import StaticPeak
    >>> from penstock.model.executors import ExecutorBounds
    >>> from penstock.model.scaling import ScalingSignal
    >>> own = guarded(StaticPeak(9), ScalerSetup(ExecutorBounds(max_executors=4)))
    >>> own.decide(ScalingSignal(0.0, 2, 2, 900.0, 900.0, 0.9, 0.0, 0.2)).executors
    4
    """
    guards = GuardSettings(
        bounds=setup.bounds,
        cooldown_down_s=setup.down_every_s,
        budget_executor_hours=setup.budget_executor_hours,
    )
    return Guarded(scaler, guards)
