"""Repay on Kafka: shed under overload, repay afterwards, and count every row; programs are killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.apps.session import local_session
from penstock.bench.repay_job import CHECKPOINT, END, KEPT, REPAID, counts
from penstock.errors import BrokerError
from penstock.kafka import jars
from penstock.kafka.broker import running_cluster
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.kafka.lag import offsets_of_checkpoint
from penstock.kafka.load import run_load
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model.profile import LoadProfile
from penstock.model.rows import PlainContent
from penstock.process.ports import free_port
from penstock.spark.folders import open_folder
from penstock.spark.record import FOLDER, CheckpointRecord, RepaidState

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from penstock.kafka.broker import Cluster

_TOPIC, _BACKLOG_TOPIC = "clicks", "backlog"
_PARTITIONS = 4
_BACKLOG_ROWS = 600_000
_POLL_S = 0.2
_ENDS_WITHIN_S, _PATIENCE = 1800.0, 4.0
"""A program has half an hour, and four times what repaying takes at the capacity: other programs may want the cores."""


@dataclass(frozen=True, slots=True)
class RepayResult:
    """What was kept, what was repaid, and in how many windows that is not what a run without shedding gives."""

    capacity_rows_per_s: float
    load_rows_per_s: float
    seconds: float
    rows: int
    kept_rows: int
    repaid_rows: int
    windows: int
    differing_windows: int
    batches_shed: int
    kills: int
    repay_s: float

    @property
    def is_met(self) -> bool:
        """Whether rows were dropped, and every window is as if none had been."""
        return self.differing_windows == 0 and 0 < self.kept_rows < self.rows == self.kept_rows + self.repaid_rows

    def to_dict(self) -> dict[str, object]:
        """As one JSON object."""
        return {"bench": "repay", **asdict(self), "is_met": self.is_met}


def bench_repay(*, seconds: float, times: float, goal_s: float, kill: bool, say: Callable[[str], None]) -> RepayResult:
    """Overload a governed query for so long, repay what it dropped, and compare with all rows of the topic."""
    with tempfile.TemporaryDirectory(prefix="penstock-repay-bench-") as scratch:
        folder = Path(scratch)
        with running_cluster(ClusterSpec(folder / "cluster", port=free_port())) as cluster:
            return _Bench(cluster, folder, goal_s, say).run(seconds, times, kill=kill)


@dataclass(frozen=True, slots=True)
class _Bench:
    cluster: Cluster
    folder: Path
    goal_s: float
    say: Callable[[str], None]

    def run(self, seconds: float, times: float, *, kill: bool) -> RepayResult:
        """Measure, shed, repay, count."""
        capacity = self._capacity()
        self.say(f"capacity: {capacity:,.0f} rows/s; {times:g} times that for {seconds:g} s")
        self._client().create_topic(_TOPIC, _PARTITIONS)
        profile = LoadProfile.constant(times * capacity, seconds=seconds)
        sender = threading.Thread(target=self._send, args=(profile, _TOPIC))
        sender.start()
        kills = self._shed(sender, seconds, kill=kill)
        batches = sum(each.sheds for each in self._record().batches())
        self.say(f"{batches} batches shed; repaying")
        began_s = time.monotonic()
        kills += self._repay(batches, _ENDS_WITHIN_S + _PATIENCE * times * seconds, kill=kill)
        repay_s = time.monotonic() - began_s
        with local_session("penstock bench repay", memory="1g", jars=jars()) as spark:
            figures = self._compare(spark)
        return RepayResult(
            capacity_rows_per_s=round(capacity, 1),
            load_rows_per_s=round(times * capacity, 1),
            seconds=seconds,
            batches_shed=batches,
            kills=kills,
            repay_s=round(repay_s, 1),
            **figures,
        )

    def _client(self) -> KafkaClient:
        return KafkaClient(self.cluster.bootstrap)

    def _record(self) -> CheckpointRecord:
        return CheckpointRecord(open_folder(str(self.folder / CHECKPOINT / FOLDER)))

    def _capacity(self) -> float:
        self._client().create_topic(_BACKLOG_TOPIC, _PARTITIONS)
        self._send(LoadProfile.constant(1.0, seconds=1.0).with_backlog(_BACKLOG_ROWS), _BACKLOG_TOPIC)
        job = self._start("capacity", _BACKLOG_TOPIC)
        out, _ = job.communicate(timeout=_ENDS_WITHIN_S)
        return float(out.split()[-1])

    def _shed(self, sender: threading.Thread, seconds: float, *, kill: bool) -> int:
        job, kills = self._start("shed", _TOPIC), 0
        try:
            sender.join(seconds / 2)
            if kill:
                self._kill(job)
                kills += 1
                job = self._start("shed", _TOPIC)
            sender.join()
            (self.folder / END).touch()
            self._await(job, _ENDS_WITHIN_S)
        finally:
            self._kill(job)
        return kills

    def _repay(self, batches: int, within_s: float, *, kill: bool) -> int:
        job, kills = self._start("repay", _TOPIC), 0
        try:
            if kill:
                while job.poll() is None and self._repaid() < batches / 3:
                    time.sleep(_POLL_S)
                self._kill(job)
                kills += 1
                self.say(f"killed with {self._repaid()} of {batches} batches repaid; going on")
                job = self._start("repay", _TOPIC)
            self._await(job, within_s)
        finally:
            self._kill(job)
        return kills

    def _repaid(self) -> int:
        return sum(state is RepaidState.DONE for state in self._record().marks().values())

    # Processes

    def _start(self, what: str, topic: str) -> subprocess.Popen[str]:
        arguments = [what, str(self.folder), self.cluster.bootstrap, topic, str(self.goal_s)]
        command = [sys.executable, "-m", "penstock.bench.repay_job", *arguments]
        with (self.folder / f"{what}.err").open("ab") as errors:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)

    def _await(self, job: subprocess.Popen[str], within_s: float) -> None:
        if job.wait(timeout=within_s) != 0:
            told = "".join(path.read_text(encoding="utf-8")[-2000:] for path in self.folder.glob("*.err"))
            raise BrokerError(f"a program of the benchmark ended with code {job.returncode}: {told}")

    def _kill(self, job: subprocess.Popen[str]) -> None:
        """Kill -9 for a driver with its JVM and workers; nothing where it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()

    def _send(self, profile: LoadProfile, topic: str) -> None:
        target = KafkaTarget(self.cluster.bootstrap, topic, acks="all")
        run_load(profile, PlainContent(), target, processes=1, seconds=None, watch=lambda _: None)

    # Counting

    def _compare(self, spark: SparkSession) -> dict[str, int]:
        ends = offsets_of_checkpoint(self.folder / CHECKPOINT)[_TOPIC]
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", self.cluster.bootstrap)
        bounded = reader.option("subscribe", _TOPIC).option("startingOffsets", "earliest")
        everything = bounded.option("endingOffsets", _spark_offsets({_TOPIC: ends})).load()
        truth = _by_window(counts(everything, hashes=1))
        kept, repaid = (_by_window(self._written(spark, name)) for name in (KEPT, REPAID))
        both = {
            key: (
                kept.get(key, (0, 0))[0] + repaid.get(key, (0, 0))[0],
                kept.get(key, (0, 0))[1] ^ repaid.get(key, (0, 0))[1],
            )
            for key in kept.keys() | repaid.keys()
        }
        differing = [key for key in both.keys() | truth.keys() if both.get(key) != truth.get(key)]
        totals = {"rows": truth, "kept_rows": kept, "repaid_rows": repaid}
        figures = {name: sum(rows for rows, _ in found.values()) for name, found in totals.items()}
        return {**figures, "windows": len(truth), "differing_windows": len(differing)}

    def _written(self, spark: SparkSession, name: str) -> DataFrame:
        return spark.read.parquet(*(str(path) for path in sorted((self.folder / name).glob("batch=*"))))


def _by_window(frame: DataFrame) -> dict[tuple[object, int], tuple[int, int]]:
    """Rows and identities by window and bucket, over all batches."""
    found: dict[tuple[object, int], tuple[int, int]] = {}
    for row in frame.select("window", "bucket", "rows", "identities").collect():
        rows, identities = found.get((row.window, row.bucket), (0, 0))
        found[row.window, row.bucket] = rows + row["rows"], identities ^ row.identities
    return found


def _spark_offsets(offsets: dict[str, dict[int, int]]) -> str:
    return json.dumps({topic: {str(part): end for part, end in parts.items()} for topic, parts in offsets.items()})
