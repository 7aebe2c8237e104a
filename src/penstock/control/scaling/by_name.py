"""Policies by name, with their usual settings, inside their guards: the same in a replay and on a live engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.control.scaling.autoscaler import Autoscaler
from penstock.control.scaling.autoscaler_settings import AutoscalerSettings
from penstock.control.scaling.ds2 import Ds2
from penstock.control.scaling.dstreams import BatchRatio
from penstock.control.scaling.flink import FlinkAutoscaler
from penstock.control.scaling.guards import Guarded, GuardSettings
from penstock.control.scaling.hpa import HorizontalPod
from penstock.control.scaling.keda import KafkaLag
from penstock.control.scaling.reactive import Reactive
from penstock.control.scaling.static import StaticPeak
from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.control.scaling.base import Scaler

_LEAST_SETTLE_S = 60.0
_LEAST_BACKLOG_SHARE = 0.1

ONLINE_POLICIES = ("proactive", "reactive", "hpa", "keda", "dstreams", "ds2", "flink", "static")
"""All that decide while the load comes; a clairvoyant has to know it beforehand."""


@dataclass(frozen=True, slots=True)
class ScalerSetup:
    """What policies must know of the engine that they decide about.

    Parameters
    ----------
    least, most
        Executors that there are always, and at most.
    interval_s
        Time between two decisions.
    start_s
        From asking for an executor to its first task.
    limit
        Queue share that the proactive and the reactive policy keep below.
    rows_for_each
        Rows of lag for each executor, for ``keda``.
    peak
        Size of ``static``; the most where it is not given.
    down_every_s
        Time between two steps down.
    budget_executor_hours
        Executor-hours within any 24 hours; None is no budget.
    """

    least: int = 1
    most: int = 20
    interval_s: float = 15.0
    start_s: float = 30.0
    limit: float = 0.4
    rows_for_each: float = 5_500.0
    peak: int | None = None
    down_every_s: float = 60.0
    budget_executor_hours: float | None = None


def make_scaler(policy: str, setup: ScalerSetup) -> Scaler:
    """A policy inside the guards that all of them wear.

    Examples
    --------
    >>> make_scaler("reactive", ScalerSetup(most=4)).name
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
                most=setup.most,
                limit=setup.limit,
                ahead_s=setup.start_s + 2.0 * interval_s,
                settle_s=max(_LEAST_SETTLE_S, 2.0 * interval_s),
                down_every_s=setup.down_every_s,
            )
        ),
        "reactive": lambda: Reactive(limit=setup.limit, settle_s=2.0 * interval_s),
        "hpa": HorizontalPod,
        "keda": lambda: KafkaLag(setup.rows_for_each),
        "dstreams": BatchRatio,
        "ds2": Ds2,
        "flink": lambda: FlinkAutoscaler(restart_s=setup.start_s),
        "static": lambda: StaticPeak(setup.peak or setup.most),
    }
    if policy not in makers:
        raise InvalidSettingError("scaling policy", policy, f"one of {', '.join(ONLINE_POLICIES)}")
    guards = GuardSettings(
        least=setup.least,
        most=setup.most,
        cooldown_down_s=setup.down_every_s,
        backlog_share=max(setup.limit, _LEAST_BACKLOG_SHARE),
        budget_executor_hours=setup.budget_executor_hours,
    )
    return Guarded(makers[policy](), guards)
