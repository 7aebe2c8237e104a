"""Forecasts of the load: one kind a file, one interface for all."""

from penstock.estimate.forecast.base import Forecaster
from penstock.estimate.forecast.combined import Combined
from penstock.estimate.forecast.level import Level
from penstock.estimate.forecast.linear import LinearTrend
from penstock.estimate.forecast.seasonal import Seasonal

FORECASTERS: dict[str, type[Forecaster]] = {kind.name: kind for kind in (LinearTrend, Level, Seasonal, Combined)}
"""Every kind by its name."""

__all__ = ["FORECASTERS", "Combined", "Forecaster", "Level", "LinearTrend", "Seasonal"]
