"""What exploration collects: workload, executors and backlog ratio of settled samples, as many as fit."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_LARGEST_SHARE = 2.0


class Samples:
    """The newest samples; a backlog ratio is cut at two, from where on it says nothing but "too much".

    Examples
    --------
    >>> samples = Samples(memory=2)
    >>> for executors in (1, 2, 3):
    ...     samples.add(100.0, executors, 9.0)
    >>> [column.tolist() for column in samples.columns()]
    [[100.0, 100.0], [2.0, 3.0], [2.0, 2.0]]
    """

    def __init__(self, *, memory: int = 1_200, rows: Iterable[tuple[float, float, float]] = ()) -> None:
        self._rows: deque[tuple[float, float, float]] = deque(rows, maxlen=memory)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, demand_rows_per_s: float, executors: int, backlog_ratio: float) -> None:
        """Collect one."""
        self._rows.append((demand_rows_per_s, float(executors), min(backlog_ratio, _LARGEST_SHARE)))

    def clear(self) -> None:
        """Forget all: they describe something that has changed."""
        self._rows.clear()

    def columns(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Demand, executors and backlog ratio as arrays."""
        table = np.array(self._rows, dtype=np.float64).reshape(-1, 3)
        return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()

    def rows(self) -> tuple[tuple[float, float, float], ...]:
        """All of them, oldest first."""
        return tuple(self._rows)
