"""Rates and lag of topics and queries from offsets, without consuming a record.

Spark does not commit offsets to Kafka: where a query is stands in its progress reports and in its checkpoint. Both are
held against the end offsets that the broker gives.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from penstock.errors import BrokerError
from penstock.estimate.lag import partition_lag
from penstock.estimate.offset_rate import OffsetRate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from penstock.estimate.offset_rate import Partition
    from penstock.kafka.client import KafkaClient, Offsets

_WINDOW_S = 5.0


class TopicRates:
    """Arrival rates of topics, from a look at their end offsets now and then.

    Examples
    --------
    ::

        rates = TopicRates(KafkaClient("127.0.0.1:9092"), ["clicks"])
        rates.look()  # once a second, say
        rates.estimate.by_topic(), rates.estimate.by_partition()
    """

    def __init__(self, client: KafkaClient, topics: Iterable[str], *, window_s: float = _WINDOW_S) -> None:
        self._client = client
        self._topics = list(topics)
        self.estimate = OffsetRate(window_s)

    def look(self) -> Offsets:
        """Ask for the end offsets once and learn from them."""
        before_s = time.time()
        ends = self._client.end_offsets(self._topics)
        # The broker answered at some moment in between; the middle is wrong by half of the call at most.
        self.estimate.update((before_s + time.time()) / 2, flattened(ends))
        return ends


def flattened(offsets: Offsets) -> dict[Partition, int]:
    """Offsets under topic and partition together.

    Examples
    --------
    >>> flattened({"clicks": {0: 5, 1: 7}})
    {('clicks', 0): 5, ('clicks', 1): 7}
    """
    return {(topic, part): offset for topic, by_part in offsets.items() for part, offset in by_part.items()}


def offsets_of_progress(progress: Mapping[str, Any]) -> Offsets:
    """Where a query goes on reading its Kafka sources, from a progress report as parsed JSON.

    Examples
    --------
    >>> offsets_of_progress({"sources": [{"endOffset": {"clicks": {"0": 5, "1": 7}}}, {"endOffset": {"row": 3}}]})
    {'clicks': {0: 5, 1: 7}}
    """
    return _merged(source.get("endOffset") for source in progress["sources"])


def offsets_of_checkpoint(directory: Path) -> Offsets:
    """Where a query goes on reading, from its checkpoint: the offsets of the last batch that is done."""
    done = [int(path.name) for path in (directory / "commits").glob("*") if path.name.isdigit()]
    if not done:
        raise BrokerError(f"{directory} is not the checkpoint of a query that has finished a batch: it has no commits")
    text = (directory / "offsets" / str(max(done))).read_text(encoding="utf-8")
    # A version, a line of metadata, then a line for every source.
    return _merged(json.loads(line) for line in text.splitlines()[2:] if line.startswith("{"))


def query_lag(client: KafkaClient, read: Offsets) -> dict[Partition, int]:
    """Records that wait for a query in every partition that it reads; ``read`` is where it goes on."""
    return partition_lag(read, client.end_offsets(read))


def _merged(offsets: Iterable[object]) -> Offsets:
    found: Offsets = {}
    for offset in offsets:
        tree = json.loads(offset) if isinstance(offset, str) and offset.startswith("{") else offset
        if not isinstance(tree, dict):
            continue
        for topic, by_partition in tree.items():
            # The offsets of other sources are plain numbers under names.
            if isinstance(by_partition, dict):
                places = found.setdefault(topic, {})
                places.update({int(number): int(offset) for number, offset in by_partition.items()})
    return found
