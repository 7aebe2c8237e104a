"""Penstock keeps PySpark Structured Streaming queries inside their goals while load changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import uncaught
from penstock.model.goal import Goal

if TYPE_CHECKING:
    from penstock.spark.attach import Penstock, attach

__version__ = "0.1.0"
__all__ = ["Goal", "Penstock", "__version__", "attach"]

uncaught.install()


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the module protocol
    """Import what needs Spark only when it is used, so that the command line answers at once."""
    if name in {"attach", "Penstock"}:
        from penstock.spark import attach as module  # noqa: PLC0415 - imported only where it is used

        return getattr(module, name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
