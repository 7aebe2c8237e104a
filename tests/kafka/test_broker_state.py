"""What a directory remembers of its cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from penstock.errors import BrokerError
from penstock.kafka.broker import read_cluster, require_cluster, stop_cluster
from penstock.kafka.broker_config import ClusterSpec, Node, node_properties
from penstock.process import group


def write_state(directory: Path, **node: object) -> None:
    tree = {"cluster_id": "x", "heap": "512m", "nodes": [{"node_id": 1, "port": 1, "controller_port": 2, **node}]}
    (directory / "cluster.json").write_text(json.dumps(tree))


def test_a_process_with_the_same_id_is_not_taken_for_a_broker(tmp_path: Path) -> None:
    """The test process has the id on record, but began at another moment: it is neither running nor ended."""
    began_s = psutil.Process().create_time()
    write_state(tmp_path, pid=os.getpid(), started_s=began_s - 3600)
    assert require_cluster(tmp_path).running == ()
    assert stop_cluster(tmp_path) == ()
    assert require_cluster(tmp_path).nodes[0].pid is None


def test_a_planted_state_ends_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is on record with its id and its moment counts only if it was started for this directory."""
    write_state(tmp_path, pid=os.getpid(), started_s=psutil.Process().create_time())
    assert require_cluster(tmp_path).running == ()
    assert stop_cluster(tmp_path) == ()
    write_state(tmp_path, pid=os.getpid(), started_s=psutil.Process().create_time())
    monkeypatch.setattr(group, "command_of", lambda _: [f"-Dpenstock.directory={tmp_path}"])
    assert len(require_cluster(tmp_path).running) == 1


def test_an_empty_directory_has_no_cluster(tmp_path: Path) -> None:
    """None is told from broken."""
    assert read_cluster(tmp_path) is None
    with pytest.raises(BrokerError, match="start one with 'penstock kafka up'"):
        require_cluster(tmp_path)
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(BrokerError, match="cannot be read"):
        read_cluster(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"brokers": 0}, "--brokers 0"),
        ({"port": 80}, "--port 80"),
        ({"heap": "lots"}, "such as 512m or 1g"),
        ({"partitions": 0}, "at least 1"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    """By the option that is wrong."""
    with pytest.raises(BrokerError, match=message):
        ClusterSpec(Path("/data"), **changes)  # type: ignore[arg-type]


def test_three_brokers_keep_copies_of_everything(tmp_path: Path) -> None:
    """All nodes vote, internal topics have three copies, and one broker may be away."""
    nodes = tuple(Node(number, 9091 + number, 19091 + number) for number in (1, 2, 3))
    lines = node_properties(ClusterSpec(tmp_path, brokers=3), nodes, nodes[1]).splitlines()
    assert "controller.quorum.voters=1@127.0.0.1:19092,2@127.0.0.1:19093,3@127.0.0.1:19094" in lines
    assert "offsets.topic.replication.factor=3" in lines
    assert "min.insync.replicas=2" in lines
    assert f"log.dirs={tmp_path}/node-2/data" in lines
