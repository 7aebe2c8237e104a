"""Topics of a cluster: what they hold, and how they are made, grown and deleted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock.errors import BrokerError

if TYPE_CHECKING:
    from penstock.kafka.client import KafkaClient


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """Offsets of one partition."""

    topic: str
    partition: int
    begin: int
    end: int

    @property
    def records(self) -> int:
        """Offsets between the oldest record and the next one."""
        return self.end - self.begin

    def to_dict(self) -> dict[str, object]:
        """As one row of a table."""
        return {**asdict(self), "records": self.records}


def list_partitions(client: KafkaClient, topic: str | None = None) -> list[PartitionRow]:
    """Offsets of all partitions of a topic, or of all topics."""
    names = list(client.partitions()) if topic is None else [topic]
    if not names:
        return []
    begins, ends = client.begin_offsets(names), client.end_offsets(names)
    return [
        PartitionRow(name, partition, begins[name][partition], end)
        for name in names
        for partition, end in sorted(ends[name].items())
    ]


def change_topic(
    client: KafkaClient, name: str, *, partitions: int | None, replicas: int = 1, delete: bool = False
) -> str:
    """Delete a topic, or see to it that it has so many partitions; says what was done, empty for nothing."""
    if delete:
        client.delete_topic(name)
        return f"topic {name!r} is deleted"
    if partitions is None:
        return ""
    existing = client.partitions().get(name)
    if existing is None:
        client.create_topic(name, partitions, replicas)
        return f"topic {name!r} is created with {partitions} partitions"
    if existing > partitions:
        raise BrokerError(f"topic {name!r} has {existing} partitions, and Kafka cannot take any away: delete it first")
    if existing == partitions:
        return ""
    client.grow_topic(name, partitions)
    return f"topic {name!r} has {partitions} partitions, {partitions - existing} of them new"
