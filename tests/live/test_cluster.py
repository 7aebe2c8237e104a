"""Engines on a real Standalone cluster: executors come and go while a query runs, and nothing of the query is lost.

Every scenario is a driver of its own (``driver_cluster.py``), because a process has one Spark application at a time.
"""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from live.helpers import show
from penstock.cli import main
from penstock.cluster.standalone import running_cluster, start_worker
from penstock.cluster.standalone_config import StandaloneSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]

PATIENCE_S = 600.0
DRIVER = Path(__file__).parent / "driver_cluster.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Two workers with room for two small executors each, more cores than the machine may have."""
    spec = StandaloneSpec(tmp_path_factory.mktemp("spark"), workers=2, cores=2, memory="1g")
    with running_cluster(spec, timeout_s=PATIENCE_S) as cluster:
        yield cluster


def run(cluster: StandaloneCluster, scenario: str) -> dict[str, Any]:
    """What a scenario tells."""
    errors = cluster.spec.directory / f"{scenario}.err"
    with errors.open("w") as log:
        command = [sys.executable, str(DRIVER), str(cluster.spec.directory), scenario]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
    assert done.returncode == 0, errors.read_text()[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def assert_undisturbed(result: dict[str, Any]) -> None:
    """One run, batches without a gap, every row once."""
    assert result["is_active"]
    assert len(result["run_ids"]) == 1
    ids = result["batch_ids"]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert result["rows"] == result["rows_by_offset"]


def of_kind(result: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [action for action in result["actions"] if action["kind"] == kind]


def test_executors_come_and_go_without_a_restart(cluster: StandaloneCluster) -> None:
    """1 to 3 to 4 to 1 executors: no task fails; asked for 9, the cluster gives what it has, and the log says so."""
    result = run(cluster, "up_and_down")
    assert_undisturbed(result)
    assert result["sizes"] == [3, 4, 1]
    assert result["failed_tasks"] == 0
    decided = [action["value"] for action in of_kind(result, "executors")]
    assert decided == [1, 3, 4, 1]
    (refusal,) = of_kind(result, "infeasible")
    wish = "9 are wished for; 9 exceeds max_executors = 8"
    assert refusal["reason"] == f"9 executors are wanted, and the cluster has room for 4: {wish}"
    assert of_kind(result, "fault") == []
    outcomes = of_kind(result, "executors_done")
    numbers = {action["details"]["number"] for action in of_kind(result, "executors")}
    for outcome in outcomes:
        assert outcome["details"]["number"] in numbers
        assert outcome["unit"] == "s"
        assert outcome["value"] > 0
    assert len(outcomes) >= 3
    show(f"executors start in {result['start_s']} s and leave in {result['release_s']} s")


@pytest.mark.slow
def test_standby_serves_at_once_and_is_replaced(cluster: StandaloneCluster) -> None:
    """An executor on standby gets no task; called, it gets some within a cycle; another one waits in its place."""
    result = run(cluster, "standby")
    assert_undisturbed(result)
    assert result["tasks_while_waiting"] == 0
    assert result["tasks_once_called"] > 0
    assert result["other"] != result["waiting"]
    assert result["failed_tasks"] == 0
    growth = [action for action in of_kind(result, "executors_done") if "from standby" in action["reason"]]
    assert len(growth) == 1
    assert growth[0]["value"] < 2
    show(f"from standby in {growth[0]['value']:.2f} s, started anew in {result['start_s']} s")


def test_a_killed_worker_is_survived(cluster: StandaloneCluster) -> None:
    """The query goes on in the same run, the loss is on record, and the other worker gives what was lost."""
    try:
        result = run(cluster, "killed_worker")
    finally:
        start_worker(cluster.spec.directory, 1, timeout_s=PATIENCE_S)
    assert_undisturbed(result)
    assert result["processes_killed"] >= 1
    show(f"the loss was seen after {result['seen_s']:.1f} s")
    losses = of_kind(result, "fault")
    assert losses
    assert all(loss["cause"].startswith("loss of executor") for loss in losses)
    recovery = of_kind(result, "executors_done")[-1]
    assert recovery["cause"] == losses[0]["cause"]
    show(f"loss seen after {result['seen_s']:.1f} s, two executors serve again {recovery['value']:.1f} s after that")


@pytest.mark.slow
def test_executors_follow_the_load(cluster: StandaloneCluster) -> None:
    """Load goes up and down in steps: from 1 to 4 executors and back, one run, no failed task, every time on record."""
    result = run(cluster, "ramp")
    assert_undisturbed(result)
    assert result["failed_tasks"] == 0
    decided = [action["value"] for action in of_kind(result, "executors")]
    assert decided[0] == decided[-1] == 1
    assert max(decided) == 4
    top = decided.index(4)
    assert decided[: top + 1] == sorted(decided[: top + 1])
    assert decided[top:] == sorted(decided[top:], reverse=True)
    assert all(action["cause"] == "arrival rate" for action in of_kind(result, "executors")[1:])
    outcomes = of_kind(result, "executors_done")
    assert len(outcomes) >= 2
    assert len(result["start_s"]) >= 3
    show(f"decided {decided}; started in {result['start_s']} s, left in {result['release_s']} s")


def test_a_cluster_lets_in_only_who_knows_its_secret(cluster: StandaloneCluster) -> None:
    """Its daemons authenticate and take no programs by REST; nobody else can read the secret, on no command line."""
    directory = cluster.spec.directory
    settings = directory / "conf" / "spark-defaults.conf"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (settings, settings.parent, directory)] == [
        0o600,
        0o700,
        0o700,
    ]
    secret = dict(line.split() for line in settings.read_text().splitlines())["spark.authenticate.secret"]
    commands = [word for process in psutil.process_iter(["cmdline"]) for word in process.info["cmdline"] or []]
    assert any(str(directory) in word for word in commands)
    assert not any(secret in word for word in commands)
    log = (directory / "master" / "daemon.log").read_text()
    assert "authentication enabled" in log
    assert "RestServer" not in log


def test_nothing_is_left_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster of the command line is up, tells where it is, and leaves no process once it is down."""
    place = ["--dir", str(tmp_path / "spark"), "--json"]
    assert main(["cluster", "up", "--workers", "1", "--cores", "3", "--memory", "1g", *place]) == 0
    up = json.loads(capsys.readouterr().out)
    started = [psutil.Process(row["pid"]) for row in up["rows"]]
    assert (up["is_running"], up["cores_free"], up["memory_free_mb"], len(started)) == (True, 3, 1024, 2)
    assert main(["cluster", "status", *place]) == 0
    assert main(["cluster", "down", "--delete", *place]) == 0
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in started)
    assert not (tmp_path / "spark").exists()
