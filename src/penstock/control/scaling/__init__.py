"""How many executors: one policy a file, one interface for all, guards around every one of them."""

from penstock.control.scaling.autoscaler import Autoscaler
from penstock.control.scaling.autoscaler_settings import AutoscalerSettings
from penstock.control.scaling.base import Scaler, StatelessScaler
from penstock.control.scaling.by_name import ScalerSetup, guarded, make_scaler
from penstock.control.scaling.ds2 import Ds2
from penstock.control.scaling.dstreams import BatchRatio
from penstock.control.scaling.dynamic_allocation import DynamicAllocation
from penstock.control.scaling.flink import FlinkAutoscaler
from penstock.control.scaling.guards import Guarded, GuardSettings
from penstock.control.scaling.hpa import HorizontalPod
from penstock.control.scaling.keda import KafkaLag
from penstock.control.scaling.reactive import Reactive
from penstock.control.scaling.static import Schedule, StaticPeak
from penstock.model.scaling import ONLINE_POLICIES

SCALERS: dict[str, type[Scaler]] = {
    scaler.name: scaler
    for scaler in (
        Autoscaler,
        Reactive,
        HorizontalPod,
        KafkaLag,
        BatchRatio,
        Ds2,
        FlinkAutoscaler,
        DynamicAllocation,
        StaticPeak,
        Schedule,
    )
}
"""Every policy by the name that users write."""

__all__ = [
    "ONLINE_POLICIES",
    "SCALERS",
    "Autoscaler",
    "AutoscalerSettings",
    "BatchRatio",
    "Ds2",
    "DynamicAllocation",
    "FlinkAutoscaler",
    "GuardSettings",
    "Guarded",
    "HorizontalPod",
    "KafkaLag",
    "Reactive",
    "Scaler",
    "ScalerSetup",
    "Schedule",
    "StatelessScaler",
    "StaticPeak",
    "guarded",
    "make_scaler",
]
