"""What an operator reports of a batch: one list of numbers from each partition, added up by the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

REPORT_FIELDS = (
    "offered_rows", "kept_rows", "keep_ratio", "answered", "everything", "oldest_s", "newest_s", "offered_work",
    "kept_work", "function_s", "late_rows", "kept_late_rows", "late_work", "kept_late_work",
)  # fmt: skip
PARTITIONS = "partitions"
"""Name of the observed value: Spark aggregates each observed value row by row, so there is only this one."""


def total_report(partitions: Sequence[Sequence[float | None]]) -> dict[str, float | None]:
    """The reports of all partitions of a batch as one, by name.

    Examples
    --------
    >>> first = (10.0, 4.0, 0.5, 1.0, 0.0, 100.0, 102.0, 3.0, 1.5, 0.2, 0.0, 0.0, 0.0, 0.0)
    >>> second = (20.0, 6.0, 0.5, 0.0, 0.0, 99.0, 103.0, 6.0, 2.5, 0.3, 5.0, 1.0, 1.5, 0.5)
    >>> total = total_report([first, second])
    >>> total["offered_rows"], total["kept_late_rows"], total["answered"], total["oldest_s"], total["newest_s"]
    (30.0, 1.0, 0.0, 99.0, 103.0)
    """
    known = {
        name: [value for partition in partitions if (value := partition[place]) is not None]
        for place, name in enumerate(REPORT_FIELDS)
    }
    total: dict[str, float | None] = {name: sum(values) for name, values in known.items()}
    total |= {name: min(known[name], default=1.0) for name in ("answered", "everything")}
    total["keep_ratio"] = max(known["keep_ratio"], default=1.0)
    total["oldest_s"], total["newest_s"] = min(known["oldest_s"], default=None), max(known["newest_s"], default=None)
    return total
