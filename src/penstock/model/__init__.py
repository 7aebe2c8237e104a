"""Plain data: goals, queries and their sources, signals, actions with their reasons."""

from penstock.model.action import APPLICATION, Action, ActionKind, Mode, RecordedAction
from penstock.model.application import Application, ExecutorsDeclaration, QueryDeclaration
from penstock.model.duration import parse_duration_s
from penstock.model.executors import EngineView, Executor, ExecutorBounds
from penstock.model.goal import Goal
from penstock.model.query import LimitUnit, QueryName, QuerySpec, SourceSpec
from penstock.model.series import Metric, SeriesBin, SeriesPoint
from penstock.model.signal import BatchSignal, ExecutorSignal, GuardSignal, PlannedBatch, SourceSignal

__all__ = [
    "APPLICATION",
    "Action",
    "ActionKind",
    "Application",
    "BatchSignal",
    "EngineView",
    "Executor",
    "ExecutorBounds",
    "ExecutorSignal",
    "ExecutorsDeclaration",
    "Goal",
    "GuardSignal",
    "LimitUnit",
    "Metric",
    "Mode",
    "PlannedBatch",
    "QueryDeclaration",
    "QueryName",
    "QuerySpec",
    "RecordedAction",
    "SeriesBin",
    "SeriesPoint",
    "SourceSignal",
    "SourceSpec",
    "parse_duration_s",
]
