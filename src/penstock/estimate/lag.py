"""Lag of a query: what its topics hold beyond what it has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def partition_lag(
    read: Mapping[str, Mapping[int, int]], ends: Mapping[str, Mapping[int, int]]
) -> dict[tuple[str, int], int]:
    """Offsets that wait in every partition of the topics that a query reads.

    ``read`` is where the query goes on reading. A partition that it has not begun yet is new and waits from its
    beginning; one whose end lies before that place was created anew, and has everything in it waiting. A query that
    reads some partitions of a topic only is passed the ends of these alone.

    Examples
    --------
    >>> partition_lag({"clicks": {0: 90, 1: 70}}, {"clicks": {0: 100, 1: 70, 2: 5}})
    {('clicks', 0): 10, ('clicks', 1): 0, ('clicks', 2): 5}
    >>> partition_lag({"clicks": {0: 90}}, {"clicks": {0: 3}})
    {('clicks', 0): 3}
    """
    lags: dict[tuple[str, int], int] = {}
    for topic, by_partition in ends.items():
        for partition, end in by_partition.items():
            begin = read.get(topic, {}).get(partition, 0)
            lags[topic, partition] = end - begin if end >= begin else end
    return lags
