"""The rows of the data source ``penstock.load``: when each arrives by the wall clock, and what is in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidProfileError
from penstock.model.rows import PlainContent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from penstock.model.profile import LoadProfile
    from penstock.model.rows import ClicksContent
    from penstock.spark.load_options import Content

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_EVENT_TYPES: Final = pa.array(["display", "click"])


@dataclass(frozen=True, slots=True)
class LoadTruth:
    """When every row arrives by the wall clock, to hold measured latencies and lags against.

    Examples
    --------
    >>> from penstock.model.profile import LoadProfile
    >>> truth = LoadTruth.from_offset(LoadProfile.constant(10), '{"row": 7, "epoch_ms": 1700000000000}')
    >>> truth.arrival_epoch_s([0, 9]).tolist(), truth.rows_by_epoch_s(1700000002.5)
    ([1700000000.1, 1700000001.0], 25)
    """

    profile: LoadProfile
    epoch_ms: int

    @classmethod
    def from_offset(cls, profile: LoadProfile, offset: str | Mapping[str, int]) -> LoadTruth:
        """Take the epoch from an offset as it stands in a query's progress or checkpoint."""
        tree = json.loads(offset) if isinstance(offset, str) else offset
        return cls(profile, int(tree["epoch_ms"]))

    def arrival_epoch_s(self, offsets: ArrayLike) -> NDArray[np.float64]:
        """When rows arrive, in seconds since 1970; infinity for rows that never do."""
        return self.epoch_ms / 1000 + self.profile.arrival_s(offsets)

    def arrival_epoch_us(self, offsets: ArrayLike) -> NDArray[np.int64]:
        """When rows arrive, in whole microseconds since 1970, as the column ``timestamp`` has it."""
        arrivals_us = np.rint(self.profile.arrival_s(offsets) * 1e6)
        if not np.all(np.isfinite(arrivals_us)):
            raise InvalidProfileError(
                f"load profile: it ends after {self.profile.total_rows} rows, but offset {np.max(offsets)} is asked "
                "for: a query must be restarted with the profile it was started with, or from a new checkpoint"
            )
        return self.epoch_ms * 1000 + arrivals_us.astype(np.int64)

    def rows_by_epoch_s(self, epoch_s: float) -> int:
        """How many rows have arrived at a moment given in seconds since 1970."""
        return self.rows_by_epoch_ms(epoch_s * 1000)

    def rows_by_epoch_ms(self, epoch_ms: float) -> int:
        """How many rows have arrived at a moment given in milliseconds since 1970."""
        return self.profile.rows_by((epoch_ms - self.epoch_ms) / 1000)


def arrow_batch(content: Content, truth: LoadTruth, first: int, end: int) -> pa.RecordBatch:
    """Make the rows from ``first`` up to but not including ``end``."""
    offsets = np.arange(first, end, dtype=np.int64)
    columns = {
        "offset": pa.array(offsets),
        "timestamp": pa.array(truth.arrival_epoch_us(offsets)).view(_TIMESTAMP),
    }
    if isinstance(content, PlainContent):
        columns["key"] = pa.array(content.keys_of(offsets))
        columns["value"] = pa.array(content.values_of(offsets))
    else:
        ips, users = _pools(content)
        rows = content.columns(offsets)
        columns["ip"] = ips.take(pa.array(rows.ip))
        columns["userID"] = users.take(pa.array(rows.user))
        columns["eventType"] = _EVENT_TYPES.take(pa.array(rows.is_click.view(np.int8)))
    return pa.RecordBatch.from_pydict(columns)


@lru_cache(maxsize=4)
def _pools(content: ClicksContent) -> tuple[pa.StringArray, pa.StringArray]:
    # Kept between tasks: a Python worker lives on, and the pools cost as much as a hundred thousand rows.
    return pa.array(content.ip_pool()), pa.array(content.user_pool())
