"""What a directory remembers of its Standalone cluster, and which clusters cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from penstock.cluster.standalone import (
    default_directory,
    read_cluster,
    require_cluster,
    start_cluster,
    stop_cluster,
    stop_worker,
)
from penstock.cluster.standalone_config import StandaloneSpec, daemon_properties, master_arguments
from penstock.errors import ClusterError
from penstock.process import group
from penstock.spark.standalone_master import parse_answer

SPEC = {"workers": 1, "cores": 4, "memory": "4g", "heap": "256m"}


def write_state(directory: Path, **master: object) -> None:
    daemons = [{"number": 0, **master}, {"number": 1}]
    tree = {"spec": SPEC, "port": 1, "ui_port": 2, "daemons": daemons}
    (directory / "cluster.json").write_text(json.dumps(tree))


def test_a_process_with_the_same_id_is_not_taken_for_a_daemon(tmp_path: Path) -> None:
    """The test process has the id on record, but began at another moment: it is neither running nor ended."""
    write_state(tmp_path, pid=os.getpid(), started_s=psutil.Process().create_time() - 3600)
    assert require_cluster(tmp_path).running == ()
    assert stop_cluster(tmp_path) == ()
    assert require_cluster(tmp_path).daemons[0].pid is None


def test_another_cluster_in_the_same_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one runs there, as far as its process tells, it is neither changed nor taken for the one asked for."""
    monkeypatch.setattr(group, "command_of", lambda _: [f"-Dpenstock.directory={tmp_path}"])
    write_state(tmp_path, pid=os.getpid(), started_s=psutil.Process().create_time())
    with pytest.raises(ClusterError, match="runs already, with 1 workers of 4 cores and 4g: stop it with"):
        start_cluster(StandaloneSpec(tmp_path, workers=2))


def test_a_planted_state_ends_no_other_process(tmp_path: Path) -> None:
    """A process that is on record with its id and its moment, but was not started for this cluster, is left running."""
    write_state(tmp_path, pid=os.getpid(), started_s=psutil.Process().create_time())
    assert require_cluster(tmp_path).running == ()
    assert stop_cluster(tmp_path) == ()


def test_the_daemons_let_in_only_who_knows_their_secret() -> None:
    """Programs are handed in with proof or not at all, and nobody ends them through a page."""
    lines = daemon_properties("s3").splitlines()
    assert {"spark.authenticate true", "spark.authenticate.secret s3", "spark.master.rest.enabled false"} <= set(lines)
    assert "spark.ui.killEnabled false" in lines
    assert not any("s3" in word for word in master_arguments(1, 2))


def test_an_empty_directory_has_no_cluster(tmp_path: Path) -> None:
    """None is told from broken, and a worker that is not there from one that is."""
    assert read_cluster(tmp_path) is None
    with pytest.raises(ClusterError, match="start one with 'penstock cluster up'"):
        require_cluster(tmp_path)
    write_state(tmp_path)
    with pytest.raises(ClusterError, match="has no worker 7, only 1 to 1"):
        stop_worker(tmp_path, 7)
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(ClusterError, match="cannot be read"):
        read_cluster(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workers": 0}, "--workers 0"),
        ({"cores": 0}, "--cores 0"),
        ({"memory": "lots"}, "--memory 'lots': write a number and a unit"),
        ({"heap": "0m"}, "--heap '0m'"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    """By the option that is wrong."""
    with pytest.raises(ClusterError, match=message):
        StandaloneSpec(Path("/data"), **changes)  # type: ignore[arg-type]


def test_the_directory_is_where_the_user_keeps_state() -> None:
    """Beside that of Kafka, and not the same."""
    assert default_directory({"XDG_STATE_HOME": "/state"}) == Path("/state/penstock/spark")


def test_a_masters_answer_is_read() -> None:
    """Dead workers stay on its list; applications are told with their cores."""
    worker = {"cores": 4, "coresfree": 3, "memory": 4096, "memoryfree": 3584}
    tree = {
        "workers": [{"id": "w1", "state": "ALIVE", **worker}, {"id": "w2", "state": "DEAD", **worker}],
        "activeapps": [{"id": "app-1", "cores": 1}],
    }
    answer = parse_answer(tree)
    assert [(room.worker_id, room.is_alive, room.cores_free) for room in answer.workers] == [
        ("w1", True, 3),
        ("w2", False, 3),
    ]
    assert answer.cores_by_application == {"app-1": 1}
