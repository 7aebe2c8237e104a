"""The applications on Kafka and on the embedded source, governed and plain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from live.helpers import show
from live.kafka_helpers import new_topic
from penstock.apps.catalog import APPS
from penstock.apps.run import run_app
from penstock.apps.streams import EmbeddedStream, KafkaStream
from penstock.kafka.client import KafkaClient
from penstock.model.profile import LoadProfile
from penstock.process.ports import free_port
from penstock.spark.load import register

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from penstock import Penstock
    from penstock.apps.streams import Stream
    from penstock.kafka.broker import Cluster

    Attach = Callable[..., Penstock]

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]
EMBEDDED = list(APPS)
RATES = {"taxi-drives": 300, "knn": 500, "mentions": 100, "word-count": 1_000, "click-fraud": 1_000}


def run(
    spark: SparkSession, name: str, streams: list[Stream], place: Path, *, pen: Penstock | None, seconds: float,
    client: KafkaClient | None = None,
) -> dict[str, Any]:  # fmt: skip
    app = APPS[name]
    figures = run_app(
        app, spark, streams,
        pen=pen, goal=app.goal, instances=app.instances, seconds=seconds, checkpoints=place, client=client,
    )  # fmt: skip
    return {row.query: row for row in figures}


@pytest.mark.slow
@pytest.mark.parametrize("name", EMBEDDED)
def test_applications_run_on_the_embedded_source(
    spark: SparkSession, attach: Attach, tmp_path: Path, name: str
) -> None:
    """Governed, every query of the application reads rows and says how old they were, and nobody fails."""
    register(spark)
    app = APPS[name]
    profile = LoadProfile.constant(RATES[name])
    streams: list[Stream] = [
        EmbeddedStream(profile, time.time(), app.content, seed) for seed, _ in enumerate(app.topics, start=1)
    ]
    figures = run(spark, name, streams, tmp_path, pen=attach(), seconds=20)
    assert len(figures) == {"taxi-drives": 3, "knn": 2}.get(name, 1)
    for row in figures.values():
        assert row.read_rows > 0
        # Rows arrive from the start on, while six Python workers are still being started on two cores.
        assert row.latency_p95_s > 0
        assert (tmp_path / row.query / "offsets" / "0").exists()
    show(f"{name}: {[(row.query, row.read_rows, row.latency_p95_s) for row in figures.values()]}")


@pytest.mark.slow
def test_instances_share_out_the_partitions_of_a_topic(
    spark: SparkSession, attach: Attach, kafka: Cluster, tmp_path: Path
) -> None:
    """Two instances over four partitions read every record exactly once between them, plain as well as governed."""
    topic = new_topic(kafka, 4_000, partitions=4)
    client = KafkaClient(kafka.bootstrap)
    streams: list[Stream] = [KafkaStream(kafka.bootstrap, topic, APPS["knn"].content)]
    for mode, pen in (("plain", None), ("governed", attach())):
        figures = run(spark, "knn", streams, tmp_path / mode, pen=pen, seconds=10, client=client)
        assert sum(row.read_rows for row in figures.values()) == 4_000
        assert {row.lag_end_rows for row in figures.values()} == {0}
        places = [_partitions_read(tmp_path / mode / name) for name in ("knn-0", "knn-1")]
        assert places == [{"0", "2"}, {"1", "3"}]


def _partitions_read(checkpoint: Path) -> set[str]:
    offsets = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[2])
    return {partition for by_partition in offsets.values() for partition in by_partition}


@pytest.mark.slow
def test_two_topics_flow_into_one_query(spark: SparkSession, kafka: Cluster, tmp_path: Path) -> None:
    """The landmarks see the drives of both companies, the two instances of the detours half of them each."""
    topics = [new_topic(kafka, 500, partitions=2), new_topic(kafka, 300, partitions=2)]
    streams: list[Stream] = [KafkaStream(kafka.bootstrap, topic, APPS["taxi-drives"].content) for topic in topics]
    client = KafkaClient(kafka.bootstrap)
    figures = run(spark, "taxi-drives", streams, tmp_path, pen=None, seconds=10, client=client)
    assert figures["taxi-landmarks"].read_rows == 800
    assert figures["taxi-detours-0"].read_rows + figures["taxi-detours-1"].read_rows == 800


def penstock(place: Path, *words: str, wait: bool = True) -> Any:
    """The command line in a process of its own, with its own state home."""
    code = "import sys; from penstock.cli import main; sys.exit(main())"
    environment = {**os.environ, "XDG_STATE_HOME": str(place)}
    command = [sys.executable, "-c", code, *words]
    if not wait:
        return subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_commands_of_the_guide_work_as_written(tmp_path: Path) -> None:
    """Up, load, run and down from nothing: all that was sent is read, and no process is left."""
    up = penstock(tmp_path, "kafka", "up", "--port", str(free_port()), "--json")
    try:
        assert up["is_running"]
        words = ["--topic", "clicks", "--profile", "constant:rate=1000,seconds=6", "--truth", "truth.csv", "--json"]
        loading = penstock(tmp_path, "load", *words, wait=False)
        time.sleep(3)
        limits = ["--seconds", "300", "--rows", "6000"]  # how long Spark takes to start is no part of what is tested
        ran = penstock(tmp_path, "run", "click-fraud", "--kafka", *limits, "--out", "out", "--json")
        sent = json.loads(loading.communicate(timeout=200)[0])
        assert sent["rows"] == 6_000
        assert sent["lost_rows"] == 0
        (row,) = ran["rows"]
        assert row["query"] == "click-fraud"
        assert row["read_rows"] == 6_000
        assert row["lag_end_rows"] == 0
        show(f"sent late by {sent['late_p99_ms']} ms (99 %), latency p95 {row['latency_p95_s']} s")
    finally:
        down = penstock(tmp_path, "kafka", "down", "--delete", "--json")
    assert [broker["broker"] for broker in down["rows"]] == [broker["broker"] for broker in up["rows"]]
    assert down["is_deleted"]
    # Not whether it took force: a broker that has no core to itself may take longer to end than it is given.
    running = {each.pid for each in psutil.process_iter(["status"]) if each.info["status"] != psutil.STATUS_ZOMBIE}
    assert not running & {broker["pid"] for broker in up["rows"]}
