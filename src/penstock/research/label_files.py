"""Labelled series from files: the change-point set (tcpd) and the anomaly benchmark (nab)."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidProfileError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class AnnotatedSeries:
    """A series, one row a dimension, and the change points of each annotator."""

    name: str
    values: NDArray[np.float64]
    annotations: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class WindowedSeries:
    """A series with its times in seconds from the start, and the windows in which something happened."""

    name: str
    times_s: NDArray[np.float64]
    values: NDArray[np.float64]
    windows: list[tuple[float, float]]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise InvalidProfileError(f"labelled series {str(path)!r} cannot be read ({error.strerror})") from error


def read_annotated(folder: Path) -> list[AnnotatedSeries]:
    """Series of ``annotations.csv`` and the files that it names; an index of -1 is an annotator who saw no change."""
    points: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for row in _rows(folder / "annotations.csv"):
        own = points[row["dataset"]].setdefault(row["annotator"], [])
        if int(row["change_point_index"]) >= 0:
            own.append(int(row["change_point_index"]))
    found = []
    for name, own_points in points.items():
        rows = _rows(folder / f"{name}.csv")
        columns = [column for column in rows[0] if column != "t"]
        table = [[float(row[column] or "nan") for row in rows] for column in columns]
        found.append(AnnotatedSeries(name, np.array(table), own_points))
    return found


def read_windowed(folder: Path) -> list[WindowedSeries]:
    """All series below a folder, with the windows of ``windows_relative.csv``; those not named there have none."""
    windows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in _rows(folder / "windows_relative.csv"):
        windows[row["file"]].append((float(row["start_second"]), float(row["end_second"])))
    found = []
    for path in sorted(folder.glob("*/*.csv")):
        rows = _rows(path)
        moments = [datetime.fromisoformat(row["timestamp"]) for row in rows]
        times_s = np.array([(moment - moments[0]).total_seconds() for moment in moments])
        values = np.array([float(row["value"]) for row in rows])
        name = str(path.relative_to(folder))
        found.append(WindowedSeries(name, times_s, values, windows[name]))
    return found
