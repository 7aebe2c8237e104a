"""Penstock keeps PySpark Structured Streaming queries inside their goals while load changes.

What users need is here: :func:`attach`, :class:`Application` and what it is made of, :class:`Goal`; weighted aggregates
in :mod:`penstock.functions`, scaling policies in :mod:`penstock.policies`, plants and fakes for tests of one's own in
:mod:`penstock.testing`. Importing it changes nothing global and starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.model.application import Application, ExecutorsDeclaration, QueryDeclaration
from penstock.model.executors import ExecutorBounds
from penstock.model.goal import Goal

if TYPE_CHECKING:
    from penstock.spark.attach import Penstock, attach

__version__ = "0.1.0"
__all__ = [
    "Application",
    "ExecutorBounds",
    "ExecutorsDeclaration",
    "Goal",
    "Penstock",
    "PenstockError",
    "QueryDeclaration",
    "__version__",
    "attach",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the module protocol
    """Import what needs Spark only when it is used, so that the command line answers at once."""
    if name in {"attach", "Penstock"}:
        from penstock.spark import attach as module  # noqa: PLC0415 - imported only where it is used

        return getattr(module, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
