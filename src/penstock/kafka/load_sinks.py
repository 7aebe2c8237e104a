"""Where generated records go: a Kafka topic, or files that a file source reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import BrokerError
from penstock.extras import require
from penstock.kafka.chatter import chatter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

_FLUSHED_WITHIN_S = 60.0
_MOST_WAITING_RECORDS = 400_000


class Sink(Protocol):
    """Takes records; :meth:`close` gives the number of those that were lost."""

    def send(self, keys: list[bytes], values: list[bytes]) -> None:
        """Take some records; waits only while there is no room for more."""

    def poll(self) -> None:
        """Let deliveries go on."""

    def close(self) -> int:
        """Wait until everything is delivered."""


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """A topic of a cluster.

    ``acks`` is "1" (the leader has it) or "all" (every copy has it, and nothing is doubled by a retry).
    """

    bootstrap: str
    topic: str
    acks: str = "1"
    options: Mapping[str, str] = field(default_factory=dict)

    def open(self, process: int) -> Sink:
        """A producer for one process."""
        return _KafkaSink(self, process)


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A directory in which a file of JSON lines appears per send and process."""

    directory: str

    def open(self, process: int) -> Sink:
        """A writer for one process."""
        return _FileSink(Path(self.directory), process)


class _KafkaSink:
    def __init__(self, target: KafkaTarget, process: int) -> None:
        require("kafka", "sending to Kafka")
        from confluent_kafka import Producer  # noqa: PLC0415 - the library's threads belong to the process that sends

        self._topic = target.topic
        self._failed = 0
        settings: dict[str, Any] = {
            "acks": target.acks,
            "enable.idempotence": target.acks == "all",
            # Records that wait a moment travel together: without this each takes a request of its own.
            "linger.ms": 5,
            "batch.num.messages": 20_000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2 * _MOST_WAITING_RECORDS,
            "queue.buffering.max.kbytes": 1_000_000,
            # Java's own clients put the same key into the same partition.
            "partitioner": "murmur2_random",
            # A report for every record costs more than the record; what is not reported was delivered.
            "delivery.report.only.error": True,
            **target.options,
            "bootstrap.servers": target.bootstrap,
            "client.id": f"penstock-load-{process}",
            "on_delivery": self._on_delivery,
            "logger": chatter,
        }
        self._producer = Producer(settings)

    def send(self, keys: list[bytes], values: list[bytes]) -> None:
        while len(self._producer) > _MOST_WAITING_RECORDS:
            self._producer.poll(0.01)
        messages: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
        self._producer.produce_batch(self._topic, messages)
        self._failed += sum("_error" in message for message in messages)
        self._producer.poll(0)

    def poll(self) -> None:
        self._producer.poll(0)

    def close(self) -> int:
        waiting = self._producer.flush(_FLUSHED_WITHIN_S)
        return self._failed + waiting

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed += 1


class _FileSink:
    def __init__(self, directory: Path, process: int) -> None:
        self._directory = directory
        self._process = process
        self._number = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BrokerError(f"{directory} cannot be made ({error.strerror}): name another directory") from error

    def send(self, keys: list[bytes], values: list[bytes]) -> None:
        del keys  # they are in the text as well
        name = f"load-{self._process}-{self._number:08}.json"
        # Spark passes over names that begin with a dot, so it never sees half a file.
        scratch = self._directory / f".{name}"
        scratch.write_bytes(b"\n".join(values) + b"\n")
        scratch.rename(self._directory / name)
        self._number += 1

    def poll(self) -> None:
        """Nothing waits."""

    def close(self) -> int:
        return 0
