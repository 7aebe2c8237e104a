"""Work that waits and does not compute, so that executors add capacity on a machine with fewer cores than executors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa


def wait_for_each_row(row_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Let every row pass after a time of its own, as a call to a service elsewhere would; for ``mapInArrow``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> began_s = time.monotonic()
    >>> [batch.num_rows for batch in wait_for_each_row(0.01)(iter([pa.record_batch({"key": [1, 2, 3]})]))]
    [3]
    >>> time.monotonic() - began_s >= 0.03
    True
    """

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(row_s * batch.num_rows)
            yield batch

    return wait
