"""Which rows to drop when not all of them fit: one strategy a file, one interface for all."""

from penstock.control.shedding.base import Decision, Rows, Shedder, Snapshot
from penstock.control.shedding.base_line import BaseLine
from penstock.control.shedding.check import Constraint
from penstock.control.shedding.deadline import Deadline
from penstock.control.shedding.economic import Economic
from penstock.control.shedding.full_knowledge import FullKnowledge
from penstock.control.shedding.las import LoadAware
from penstock.control.shedding.semantic import Semantic
from penstock.control.shedding.straw_man import StrawMan
from penstock.control.shedding.uniform import Uniform

STRATEGIES: dict[str, type[Shedder]] = {
    strategy.name: strategy
    for strategy in (Uniform, BaseLine, StrawMan, FullKnowledge, LoadAware, Economic, Semantic, Deadline)
}
"""Every strategy by the name that users write."""

__all__ = [
    "STRATEGIES",
    "BaseLine",
    "Constraint",
    "Deadline",
    "Decision",
    "Economic",
    "FullKnowledge",
    "LoadAware",
    "Rows",
    "Semantic",
    "Shedder",
    "Snapshot",
    "StrawMan",
    "Uniform",
]
