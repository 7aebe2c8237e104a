"""Penstock keeps PySpark Structured Streaming queries inside their goals while load changes."""

from penstock.model.goal import Goal

__version__ = "0.1.0"
__all__ = ["Goal", "__version__"]
