"""Plain data: goals, queries and their sources, signals, actions with their reasons."""

from penstock.model.action import Action, ActionKind, Mode, RecordedAction
from penstock.model.duration import parse_duration_s
from penstock.model.goal import Goal
from penstock.model.query import LimitUnit, QueryName, QuerySpec, SourceSpec
from penstock.model.series import Metric, SeriesPoint
from penstock.model.signal import BatchSignal, ExecutorSignal, GuardSignal, PlannedBatch, SourceSignal

__all__ = [
    "Action",
    "ActionKind",
    "BatchSignal",
    "ExecutorSignal",
    "Goal",
    "GuardSignal",
    "LimitUnit",
    "Metric",
    "Mode",
    "PlannedBatch",
    "QueryName",
    "QuerySpec",
    "RecordedAction",
    "SeriesPoint",
    "SourceSignal",
    "SourceSpec",
    "parse_duration_s",
]
