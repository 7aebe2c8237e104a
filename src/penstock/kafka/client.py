"""A client of a Kafka cluster that asks and never consumes: topics, offsets, groups; failures as sentences."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import BrokerError
from penstock.extras import require
from penstock.kafka.chatter import chatter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

# Whoever lacks the library is first told what to install.
require("kafka", "asking Kafka")
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition  # noqa: E402 - see above
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # noqa: E402 - as above; the library has these without saying so in types
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

Offsets = dict[str, dict[int, int]]
"""Offset by topic and partition, as Spark writes them but with whole numbers as keys."""

T = TypeVar("T")
_RETRY_S = 0.1
DEFAULT_TIMEOUT_S = 10.0
# librdkafka's own codes; their public names begin with an underscore.
_TRANSPORT = frozenset(
    getattr(KafkaError, name) for name in ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE")
)
_REFUSED = frozenset(getattr(KafkaError, name) for name in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"))
_NOT_YET = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class _NotYetError(BrokerError):
    """A partition or group that will have somebody in charge of it in a moment."""


class KafkaClient:
    """Asks one cluster about topics, offsets and groups.

    Parameters
    ----------
    bootstrap
        Addresses such as ``"127.0.0.1:9092"``, several with commas.
    options
        Further settings of librdkafka, such as ``{"security.protocol": "SASL_SSL", ...}``.
    timeout_s
        How long to wait for an answer.
    """

    def __init__(
        self, bootstrap: str, options: Mapping[str, str] | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._refusal: str | None = None
        settings: dict[str, Any] = {
            **(options or {}),
            "bootstrap.servers": bootstrap,
            "error_cb": self._on_error,
            "logger": chatter,
            # Without this a broker that comes back is tried again after ten seconds only.
            "reconnect.backoff.max.ms": 1000,
        }
        self._asking = threading.Lock()
        self._admin = AdminClient(settings)

    def brokers(self) -> list[int]:
        """Ids of the brokers that are up."""
        return sorted(self._metadata().brokers)

    def partitions(self) -> dict[str, int]:
        """Number of partitions of every topic, those of Kafka itself left out."""
        topics = self._metadata().topics
        return {name: len(topics[name].partitions) for name in sorted(topics) if not name.startswith("__")}

    def create_topic(self, name: str, partitions: int, replicas: int = 1) -> None:
        """Create a topic; one that exists is an error."""
        made = self._admin.create_topics([NewTopic(name, partitions, replicas)], operation_timeout=self.timeout_s)
        self._result(made[name], f"topic {name!r} was not created")

    def delete_topic(self, name: str) -> None:
        """Delete a topic with everything in it."""
        self._require_topics([name])
        gone = self._admin.delete_topics([name], operation_timeout=self.timeout_s)
        self._result(gone[name], f"topic {name!r} was not deleted")

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, so many in all."""
        self._require_topics([name])
        grown = self._admin.create_partitions([NewPartitions(name, partitions)], operation_timeout=self.timeout_s)
        self._result(grown[name], f"topic {name!r} did not get {partitions} partitions")

    def end_offsets(self, topics: Iterable[str]) -> Offsets:
        """Where the next record of every partition will go."""
        return self._offsets(topics, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def begin_offsets(self, topics: Iterable[str]) -> Offsets:
        """The oldest record that every partition still has."""
        return self._offsets(topics, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def commit(self, group: str, offsets: Offsets) -> None:
        """Write offsets as those of a consumer group, so that tools which show a group's lag show this one."""
        places = [
            TopicPartition(topic, partition, offset)
            for topic, by_partition in offsets.items()
            for partition, offset in by_partition.items()
        ]
        self._patiently(lambda: self._commit_once(group, ConsumerGroupTopicPartitions(group, places)))

    def _commit_once(self, group: str, request: ConsumerGroupTopicPartitions) -> None:
        answer = self._admin.alter_consumer_group_offsets([request])
        written = self._result(answer[group], f"offsets were not committed to group {group!r}")
        for place in written.topic_partitions:
            if place.error is not None:
                what = f"offset of {place.topic} {place.partition} was not committed to group {group!r}"
                kind = _NotYetError if place.error.code() in _NOT_YET else BrokerError
                raise kind(f"{what}: {place.error.str()}")

    def committed(self, group: str) -> Offsets:
        """Offsets of a consumer group."""
        request = [ConsumerGroupTopicPartitions(group)]
        what = f"group {group!r} cannot be read"
        ask = self._admin.list_consumer_group_offsets
        found: Offsets = {}
        for place in self._patiently(lambda: self._result(ask(request)[group], what)).topic_partitions:
            found.setdefault(place.topic, {})[place.partition] = place.offset
        return found

    def _offsets(self, topics: Iterable[str], moment: OffsetSpec) -> Offsets:
        known = self._require_topics(topics)
        wanted = {TopicPartition(name, part): moment for name, count in known.items() for part in range(count)}
        return self._patiently(lambda: self._offsets_once(wanted))

    def _offsets_once(self, wanted: dict[TopicPartition, OffsetSpec]) -> Offsets:
        found: Offsets = {}
        for place, future in self._admin.list_offsets(wanted, request_timeout=self.timeout_s).items():
            what = f"offsets of {place.topic} {place.partition} cannot be read"
            found.setdefault(place.topic, {})[place.partition] = int(self._result(future, what).offset)
        return found

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while a partition or group that was just made, or whose broker went away, has nobody in charge."""
        deadline_s = time.monotonic() + self.timeout_s
        while True:
            try:
                # One at a time: commits have a thread of their own, and the library's answers are not made for several.
                with self._asking:
                    return ask()
            except _NotYetError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_RETRY_S)

    def _require_topics(self, names: Iterable[str]) -> dict[str, int]:
        known = self.partitions()
        wanted = list(names)
        for name in wanted:
            if name not in known:
                listing = ", ".join(known) or "none"
                raise BrokerError(f"no topic {name!r} at {self.bootstrap}; known topics: {listing}")
        return {name: known[name] for name in wanted}

    def _metadata(self) -> Any:  # noqa: ANN401 - the library's own class of cluster metadata is not exported
        try:
            return self._admin.list_topics(timeout=self.timeout_s)
        except KafkaException as error:
            raise self._failure("no answer", error) from error

    def _result(self, future: Future[T], what: str) -> T:
        try:
            return future.result(timeout=self.timeout_s + 1.0)
        except (KafkaException, TimeoutError) as error:
            raise self._failure(what, error) from error

    def _failure(self, what: str, error: Exception) -> BrokerError:
        # Why a connection failed is told by a callback, and callbacks wait until somebody polls.
        self._admin.poll(_RETRY_S)
        cause = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
        if self._refusal is not None or (cause is not None and cause.code() in _REFUSED):
            said = self._refusal or (cause.str() if cause else "")
            return BrokerError(
                f"the broker at {self.bootstrap} refused the credentials ({said}): check user and password"
            )
        if cause is None or cause.code() in _TRANSPORT:
            return BrokerError(
                f"no Kafka broker answers at {self.bootstrap} within {self.timeout_s:g} s: check the address, or start "
                "one with 'penstock kafka up'"
            )
        kind = _NotYetError if cause.code() in _NOT_YET else BrokerError
        return kind(f"{what}: {cause.str()}")

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in _REFUSED:
            self._refusal = error.str()
