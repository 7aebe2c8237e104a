"""Scaling policies by name, for declarations and replays, and what one's own is made of.

A policy of one's own is a :class:`Scaler`, or a :class:`StatelessScaler` where every decision depends on one signal
alone; ``penstock.attach(..., policy=...)`` takes it.

Examples
--------
>>> from penstock.policies import POLICY_NAMES, ScaleDecision, ScalingSignal, StatelessScaler
>>> "proactive" in POLICY_NAMES
True
>>> class ByRate(StatelessScaler):
...     name = "by rate"
...
...     def decide(self, signal: ScalingSignal) -> ScaleDecision:
...         executors = 1 + int((signal.demand_rows_per_s or 0.0) // 500)
...         return ScaleDecision(executors, f"{signal.demand_rows_per_s:.0f} rows/s arrive")
>>> ByRate().decide(ScalingSignal(0.0, 1, 1, 1_200.0, 500.0, 1.0, 900.0, 0.1))
ScaleDecision(executors=3, reason='1200 rows/s arrive', kind=<ScaleKind.SCALE: 'scale'>, wanted=None, notice='')
"""

from __future__ import annotations

from penstock.control.scaling import Scaler, ScalerSetup, StatelessScaler, make_scaler
from penstock.model.scaling import ONLINE_POLICIES as POLICY_NAMES
from penstock.model.scaling import ScaleDecision, ScalingSignal

__all__ = [
    "POLICY_NAMES",
    "ScaleDecision",
    "Scaler",
    "ScalerSetup",
    "ScalingSignal",
    "StatelessScaler",
    "make_scaler",
]
