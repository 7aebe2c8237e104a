"""Queries that shed as a test wants, and what they kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from live.helpers import wait_until
from penstock.model import QueryName
from penstock.model.decision import KeepRatio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pytest
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock
    from penstock.control.events import BatchPlanned

Keys = set[tuple[Any, ...]]


class Kept:
    """A sink that remembers what each attempt at a batch was given; at chosen batches the first attempt fails."""

    def __init__(self, columns: Sequence[str], fail_at: Sequence[int] = ()) -> None:
        self.attempts: dict[int, list[Keys]] = {}
        self._columns, self._fail_at = list(columns), set(fail_at)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch, as foreachBatch gives it."""
        found = keys_of(frame, self._columns)
        self.attempts.setdefault(batch_id, []).append(found)
        if batch_id in self._fail_at:
            self._fail_at.remove(batch_id)
            raise RuntimeError(f"batch {batch_id} fails, as the test wants")

    @property
    def rows(self) -> Keys:
        """What all batches kept."""
        return set().union(*(each[-1] for each in self.attempts.values()))


def keys_of(frame: DataFrame, columns: Sequence[str]) -> Keys:
    """The rows of a frame by some of their columns; a row that is there twice is an error."""
    found = [tuple(row) for row in frame.select(*columns).collect()]
    assert len(found) == len(set(found)), "a row is there twice"
    return set(found)


def shed(
    pen: Penstock, monkeypatch: pytest.MonkeyPatch, ratios: Callable[[int], float], late: Callable[[int], float | None]
) -> None:
    """Let batches of a governed query be told what the test wants."""

    def answer(event: BatchPlanned) -> KeepRatio:
        ratio = ratios(event.batch_id)
        late_before_s = None if ratio >= 1.0 else late(event.batch_id)
        return KeepRatio(
            query=QueryName(event.query), cause="test", reason="as the test wants", batch_id=event.batch_id,
            keep_ratio=ratio, keep_floor=0.05, late_before_s=late_before_s, everything=ratio >= 1.0,
        )  # fmt: skip

    monkeypatch.setattr(pen.loop, "answer", answer)


def run(
    rows: DataFrame,
    sink: Callable[[DataFrame, int], None],
    checkpoint: Path | str,
    name: str,
    *,
    until: int | None = None,
    count: int = 0,
) -> None:
    """Run a query until a batch is done and so many rows are kept or dropped, or until it fails without ``until``."""
    writer = rows.writeStream.queryName(name).option("checkpointLocation", str(checkpoint))
    query = writer.foreachBatch(sink).start()

    def is_over() -> bool:
        if until is None:
            return not query.isActive
        assert query.exception() is None, f"the query died: {query.exception()}"
        return _is_reported(query, until) and sum(report.numInputRows for report in query.recentProgress) >= count

    wait_until(is_over, f"end of {name}")
    query.stop()


def _is_reported(query: StreamingQuery, batch_id: int) -> bool:
    last = query.lastProgress
    return last is not None and last.batchId >= batch_id
