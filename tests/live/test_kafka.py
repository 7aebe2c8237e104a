"""A real broker: read limits of unmodified queries, rates and lag from offsets, committed groups."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from live.helpers import actions_of, costly, limit_values, show, wait_for_batches, wait_until
from live.kafka_helpers import fill, kafka_rows, new_topic, start
from penstock import Goal
from penstock.cli import main
from penstock.kafka.artifacts import BROKER, TOOLS, connector_set, resolved
from penstock.kafka.client import KafkaClient
from penstock.kafka.group import GroupCommits
from penstock.kafka.lag import TopicRates, offsets_of_checkpoint, offsets_of_progress, query_lag
from penstock.kafka.load import run_load
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model import ActionKind, Metric, QueryName
from penstock.model.profile import LoadProfile
from penstock.model.rows import PlainContent
from penstock.process.java import required_java
from penstock.spark.collector import parse_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock import Penstock
    from penstock.kafka.broker import Cluster
    from penstock.kafka.load_tally import LoadTally

    Attach = Callable[..., Penstock]

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]


def test_a_second_start_resolves_nothing(kafka: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sets of jars are in the cache by now, and are found there without Java and so without a network."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert [path.name.rpartition("-")[0] for path in resolved(connector_set())] == [
        "commons-pool2", "kafka-clients", "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13",
    ]  # fmt: skip
    assert any(path.name.startswith("kafka_2.13") for path in resolved(BROKER))


@pytest.mark.slow
def test_an_empty_cache_is_filled_by_java_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector's four jars come through the Ivy among Spark's jars, and the second time from the cache."""
    first = resolved(connector_set(), tmp_path)
    assert len(first) == 4
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert resolved(connector_set(), tmp_path) == first
    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == ["spark-kafka-connector-4.2.0"]


def test_limits_of_a_running_query_are_obeyed(spark: SparkSession, attach: Attach, kafka: Cluster) -> None:
    """Each new limit holds within 5 % from the batch after the next on, and the lag falls by what was read."""
    topic = new_topic(kafka, 400_000, partitions=3)
    pen = attach()
    query = start(kafka_rows(spark, kafka, topic, maxOffsetsPerTrigger="2000"), "commanded")
    wait_for_batches(query, 3)
    watched = pen.watched("commanded")
    watched.describe(starting=False)
    for rows in (20_000, 500, 50_000):
        watched.set_limit(0, rows)
        # One batch was planned already when the limit changed.
        first = len(wait_for_batches(query, 1))
        done = wait_for_batches(query, first + 4)[first + 1 :][:3]
        assert [batch.rows for batch in done] == [pytest.approx(rows, rel=0.05)] * 3
        reports = [parse_progress(report.json) for report in query.recentProgress]
        lags = {report["batchId"]: _lag(report) for report in reports}
        drained = [lags[batch.batch_id - 1] - lags[batch.batch_id] for batch in done]
        assert drained == [batch.rows for batch in done]
        show(f"limit {rows}: rows {[batch.rows for batch in done]}, lag fell by {drained}")


def _lag(report: dict[str, object]) -> int:
    source = report["sources"][0]  # type: ignore[index]
    ends, read = source["latestOffset"], source["endOffset"]
    return sum(ends[topic][number] - offset for topic, places in read.items() for number, offset in places.items())


def test_an_unmodified_query_is_governed_by_its_name(spark: SparkSession, attach: Attach, kafka: Cluster) -> None:
    """A standing backlog is read in batches that are the decided limits, from the first batch on, without a loss."""
    topic = new_topic(kafka, 200_000)
    pen = attach(goals={"backlog": Goal(latency="4 seconds")})
    query = start(costly(kafka_rows(spark, kafka, topic), 40), "backlog")
    done = wait_until(
        lambda: (found := _batches(query)) and sum(found) == 200_000 and found, "end of the backlog", within_s=400
    )
    limits = limit_values(pen.store, "backlog")
    assert limits[0] == 1000
    assert done[0] == pytest.approx(1000, rel=0.05)
    # All but the last, which has what is left.
    assert all(any(abs(rows - limit) <= 0.05 * limit for limit in limits) for rows in done[:-1])
    assert {action.unit for action in actions_of(pen.store, "backlog", ActionKind.READ_LIMIT)} == {"rows"}
    lags = [point.value for point in pen.store.points(QueryName("backlog"), Metric.LAG_ROWS)]
    assert lags[0] == 200_000 - done[0]
    assert lags == sorted(lags, reverse=True)
    show(f"limits {limits[:6]}, batches {done[:6]}")


def _batches(query: object) -> list[int]:
    return [report.numInputRows for report in query.recentProgress if report.numInputRows]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_rates_from_offsets_are_those_of_the_generator(kafka: Cluster) -> None:
    """Over a wave of load the estimate is off by at most 0.5 % on average, and by 2 % at the 90th percentile."""
    topic = new_topic(kafka, partitions=4)
    profile = LoadProfile.sine(mean_rate=5_000, amplitude_rate=2_500, period_s=20, seconds=24)
    sent: list[tuple[LoadTally, float]] = []

    def send() -> None:
        target = KafkaTarget(kafka.bootstrap, topic)
        sent.append(run_load(profile, PlainContent(), target, processes=1, seconds=None, watch=lambda _: None))

    sender = threading.Thread(target=send)
    rates = TopicRates(KafkaClient(kafka.bootstrap), [topic], window_s=4.0)
    looks: list[tuple[float, float, float]] = []
    sender.start()
    while sender.is_alive():
        time.sleep(0.5)
        rates.look()
        window = rates.estimate.snapshot()
        if len(window) > 1:
            looks.append((window[0].time_s, window[-1].time_s, rates.estimate.by_topic()[topic]))
    sender.join()
    tally, began_s = sent[0]
    assert tally.lost == 0
    errors = _errors(looks, tally, began_s)
    show(
        f"{len(errors)} estimates: mean error {np.mean(errors):+.3%}, "
        f"90th percentile {np.quantile(np.abs(errors), 0.9):.2%}, largest {np.abs(errors).max():.2%}"
    )
    assert len(errors) >= 20
    assert abs(np.mean(errors)) <= 0.005
    assert np.quantile(np.abs(errors), 0.9) <= 0.02


def _errors(looks: list[tuple[float, float, float]], tally: LoadTally, began_s: float) -> np.ndarray:
    """Relative errors of estimates against the generator's file of seconds, while it was sending."""
    seconds = np.array(sorted(tally.rows_by_second))
    arrived = np.concatenate([[0], np.cumsum([tally.rows_by_second[second] for second in seconds])])
    moments = np.append(seconds, seconds[-1] + 1)
    errors = []
    for first_s, last_s, estimate in looks:
        if began_s + 1 <= first_s and last_s <= moments[-2]:
            true = (np.interp(last_s, moments, arrived) - np.interp(first_s, moments, arrived)) / (last_s - first_s)
            errors.append(estimate / true - 1)
    return np.array(errors)


@pytest.mark.slow
def test_kafkas_own_tool_sees_the_lag(spark: SparkSession, attach: Attach, kafka: Cluster, tmp_path: Path) -> None:
    """Offsets committed to a group are what Kafka's consumer-group tool shows, and what Penstock says of the lag."""
    topic = new_topic(kafka, 10_000)
    client = KafkaClient(kafka.bootstrap)
    with GroupCommits(spark, client, {"grouped": "spark-grouped"}):
        rows = kafka_rows(spark, kafka, topic)
        query = rows.writeStream.format("noop").queryName("grouped").option("checkpointLocation", str(tmp_path)).start()
        wait_until(lambda: sum(_batches(query)) == 10_000, "all records")
        read = offsets_of_progress(parse_progress(query.recentProgress[-1].json))
        wait_until(lambda: client.committed("spark-grouped") == read, "commit")
        query.stop()
    fill(kafka, topic, 700, first=10_000)
    assert offsets_of_checkpoint(tmp_path) == read
    lags = query_lag(client, read)
    assert sum(lags.values()) == 700
    assert main(["kafka", "lag", str(tmp_path), "--bootstrap", kafka.bootstrap, "--group", "by-command", "--json"]) == 0
    assert client.committed("by-command") == read
    shown = _group_tool(kafka, "spark-grouped")
    assert {(row["TOPIC"], int(row["PARTITION"])): int(row["LAG"]) for row in shown} == lags


def _group_tool(kafka: Cluster, group: str) -> list[dict[str, str]]:
    jars = ":".join(map(str, [*resolved(BROKER), *resolved(TOOLS)]))
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    words = ["--bootstrap-server", kafka.bootstrap, "--describe", "--group", group]
    done = subprocess.run([required_java(), "-cp", jars, tool, *words], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    begin = next(number for number, cells in enumerate(lines) if "LAG" in cells)
    return [dict(zip(lines[begin], cells, strict=True)) for cells in lines[begin + 1 :]]
