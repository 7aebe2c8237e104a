"""What goes wrong with Kafka: the query recovers, or somebody is told in a sentence."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as fn

from live.helpers import show, wait_for_batches, wait_until
from live.kafka_helpers import fill, kafka_rows, new_topic, start
from penstock import Goal
from penstock.errors import BrokerError
from penstock.kafka.broker import running_cluster, start_cluster, start_node, stop_node
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.kafka.load import run_load
from penstock.kafka.load_records import SCHEMAS
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model import Metric, QueryName
from penstock.model.profile import LoadProfile
from penstock.model.rows import PlainContent
from penstock.process.ports import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock import Penstock
    from penstock.kafka.broker import Cluster
    from penstock.kafka.load_tally import LoadTally

    Attach = Callable[..., Penstock]

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def rows_of(query: StreamingQuery) -> int:
    return sum(report.numInputRows for report in query.recentProgress)


def test_no_row_is_lost_or_doubled_by_a_broker_restart(spark: SparkSession, attach: Attach, tmp_path: Path) -> None:
    """A governed query writes each row of the generator once, though the broker goes away in the middle of it."""
    with running_cluster(ClusterSpec(tmp_path / "cluster", port=free_port())) as cluster:
        topic = new_topic(cluster)
        pen = attach(goals={"restarted": Goal(latency="4 seconds")})
        rows = kafka_rows(spark, cluster, topic)
        offsets = rows.select(fn.from_json(fn.col("value").cast("string"), SCHEMAS[PlainContent]).alias("row"))
        writer = offsets.select("row.offset").writeStream.format("parquet").queryName("restarted")
        writer = writer.option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(processingTime="1 second").start()
        tally = _send_through_a_restart(cluster, topic)
        wait_until(lambda: rows_of(query) >= tally.rows or query.exception(), "all rows", within_s=90)
        assert query.exception() is None
        query.stop()
    written = spark.read.parquet(str(tmp_path / "out"))
    counted = written.agg(fn.count("*").alias("rows"), fn.count_distinct("offset").alias("different")).collect()[0]
    assert tally.lost == 0
    assert (counted["rows"], counted["different"]) == (tally.rows, tally.rows) == (24_000, 24_000)
    show(f"{tally.rows} sent, {counted['rows']} written; sent late by up to {tally.late_ms(1.0):g} ms")
    pen.detach()


def _send_through_a_restart(cluster: Cluster, topic: str) -> LoadTally:
    sent: list[LoadTally] = []

    def send() -> None:
        target = KafkaTarget(cluster.bootstrap, topic, acks="all")
        profile = LoadProfile.constant(2_000, seconds=12)
        sent.append(run_load(profile, PlainContent(), target, processes=1, seconds=None, watch=lambda _: None)[0])

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(5)
    stop_node(cluster.directory, 1)
    time.sleep(1)
    start_node(cluster.directory, 1)
    sender.join()
    return sent[0]


def test_a_new_partition_is_read_and_counts_in_the_lag(spark: SparkSession, attach: Attach, kafka: Cluster) -> None:
    """Rows of a partition that is added while the query runs arrive like all others."""
    topic = new_topic(kafka, 2_000, partitions=1)
    pen = attach(goals={"grown": Goal(latency="4 seconds")})
    query = start(kafka_rows(spark, kafka, topic, **{"kafka.metadata.max.age.ms": "1000"}), "grown")
    wait_until(lambda: rows_of(query) == 2_000, "first rows")
    KafkaClient(kafka.bootstrap).grow_topic(topic, 3)
    fill(kafka, topic, 3_000, first=2_000)
    ends = KafkaClient(kafka.bootstrap).end_offsets([topic])[topic]
    assert sum(ends.values()) == 5_000
    assert len([end for end in ends.values() if end]) == 3
    wait_until(lambda: rows_of(query) == 5_000, "rows of the new partitions")

    def lag_rows() -> float:
        return pen.store.points(QueryName("grown"), Metric.LAG_ROWS)[-1].value

    # The query's own report may be there before Penstock has put it on record.
    wait_until(lambda: lag_rows() == 0, "a lag without rows")
    assert query.exception() is None


@pytest.mark.slow
def test_a_deleted_topic_ends_its_query_and_nothing_else(spark: SparkSession, attach: Attach, kafka: Cluster) -> None:
    """The query dies with Spark's own reason; another one, and Penstock, go on."""
    doomed_topic, other_topic = new_topic(kafka, 1_000), new_topic(kafka, 1_000)
    pen = attach(goals={"doomed": Goal(latency="4 seconds"), "other": Goal(latency="4 seconds")})
    options = {"kafka.request.timeout.ms": "4000", "kafka.default.api.timeout.ms": "5000"}
    doomed = start(kafka_rows(spark, kafka, doomed_topic, **options), "doomed")
    other = start(kafka_rows(spark, kafka, other_topic), "other")
    wait_for_batches(doomed, 1)
    wait_until(lambda: rows_of(doomed) == rows_of(other) == 1_000, "rows of both")
    KafkaClient(kafka.bootstrap).delete_topic(doomed_topic)
    error = wait_until(doomed.exception, "end of the query", within_s=90)
    assert isinstance(error, StreamingQueryException)
    assert doomed_topic in str(error) or "UnknownTopicOrPartition" in str(error)
    fill(kafka, other_topic, 500, first=1_000)
    wait_until(lambda: rows_of(other) == 1_500, "rows of the other query")
    pen.release("other")


def test_an_unreachable_broker_is_told_with_the_remedy() -> None:
    """Nobody listens on a free port: one sentence, with address, patience and what to do."""
    address = f"{HOST}:{free_port()}"
    with pytest.raises(BrokerError) as refusal:
        KafkaClient(address, timeout_s=2.0).partitions()
    assert str(refusal.value) == (
        f"no Kafka broker answers at {address} within 2 s: check the address, or start one with 'penstock kafka up'"
    )


def test_a_wrong_topic_is_told_with_the_right_ones(kafka: Cluster) -> None:
    """The topics that there are stand in the error."""
    topic = new_topic(kafka)
    with pytest.raises(BrokerError, match=rf"no topic 'clocks' at {kafka.bootstrap}; known topics: .*{topic}"):
        KafkaClient(kafka.bootstrap).end_offsets(["clocks"])


@pytest.mark.slow
def test_refused_credentials_are_told(tmp_path: Path) -> None:
    """A listener with passwords lets the right one in, and says of the wrong one that it was refused."""
    secure = free_port()
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="right" ;'
    port, controller = free_port(), free_port()
    properties = {
        "listeners": f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{secure},CONTROLLER://{HOST}:{controller}",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    with running_cluster(ClusterSpec(tmp_path, port=port, properties=properties)):
        right, wrong = (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "ann",
                "sasl.password": p,
            }
            for p in ("right", "wrong")
        )
        assert KafkaClient(f"{HOST}:{secure}", right).partitions() == {}
        with pytest.raises(BrokerError, match="refused the credentials"):
            KafkaClient(f"{HOST}:{secure}", wrong, timeout_s=5.0).partitions()


def test_a_taken_port_and_another_size_are_told(kafka: Cluster, tmp_path: Path) -> None:
    """A cluster that cannot be as asked is not started, and the sentence names the option."""
    with pytest.raises(BrokerError, match=r"port \d+ is taken by another program: choose one with --port"):
        start_cluster(ClusterSpec(tmp_path, port=kafka.nodes[0].port))
    with pytest.raises(BrokerError, match="holds a cluster of 1 brokers, not of 3: name another directory with --dir"):
        start_cluster(ClusterSpec(kafka.directory, port=kafka.nodes[0].port, brokers=3))


@pytest.mark.slow
def test_three_brokers_outlive_one(tmp_path: Path) -> None:
    """With one of three brokers stopped, a topic of three copies still takes and gives records."""
    ports = free_port()
    with running_cluster(ClusterSpec(tmp_path, brokers=3, port=min(ports, 60_000))) as cluster:
        client = KafkaClient(cluster.bootstrap)
        client.create_topic("safe", 2, replicas=3)
        fill(cluster, "safe", 1_000)
        stop_node(cluster.directory, 2)
        fill(cluster, "safe", 1_000, first=1_000)
        assert sum(client.end_offsets(["safe"])["safe"].values()) == 2_000
        assert len(start_node(cluster.directory, 2).running) == 3
