"""Executors that follow a Kafka load on a Standalone cluster, decided on by the policy of a replay."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from live.helpers import show

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1500)]

# A process of its own: the engine is a Spark application, and a process has one at a time.
COMMAND = "import sys; from penstock.cli import main; sys.exit(main(sys.argv[1:]))"


def test_executors_follow_a_kafka_load() -> None:
    """Up before the load and down after it, in one run of the query, without a gap, a failed task or a lost row."""
    arguments = ["bench", "elastic", "--json"]
    done = subprocess.run([sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert len(result["run_ids"]) == 1
    assert not result["batch_ids_have_gap"]
    assert result["failed_tasks"] == 0
    assert result["faults"] == []
    assert result["query"]["read_rows"] == result["sent_rows"]
    sizes = [row["to"] for row in result["rows"]]
    assert max(sizes) >= 3
    assert sizes[-1] < max(sizes)
    assert all(row["outcome"] is not None for row in result["rows"])
    served = [row["service_s"] for row in result["rows"] if row["service_s"] is not None]
    assert served
    assert all(0 <= seconds < 120 for seconds in served)
    assert result["query"]["latency_p95_s"] <= result["goal_s"]
    show(f"sizes {sizes}, in service after {served} s, p95 {result['query']['latency_p95_s']:.1f} s")
