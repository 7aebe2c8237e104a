"""Charts of several panels above each other, drawn without a display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from pathlib import Path


def new_panels(count: int, *, height: float = 2.4) -> tuple[Figure, Any]:
    """Give a figure and its panels, from the top, with one axis for all."""
    figure = Figure(figsize=(10, height * count), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]


def save_panels(figure: Figure, path: Path, title: str) -> Path:
    """Write the figure under its title and give its path."""
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    return path
