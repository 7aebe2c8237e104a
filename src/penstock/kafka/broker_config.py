"""What a Kafka cluster for development is made of: nodes, ports, properties."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import BrokerError
from penstock.process.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BROKERS = 9
_MIN_PORT, _MAX_PORT = 1024, 65_535 - MAX_BROKERS


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster on loopback in a directory of its own.

    Parameters
    ----------
    directory
        Holds data, configuration, logs and the state of the cluster.
    brokers
        Nodes; each is broker and controller in one.
    port
        Port of the first broker; the others follow.
    heap
        Largest heap of each broker, as Java writes it.
    partitions
        Partitions of topics that come into being by being written to.
    properties
        Further properties of every broker, such as listeners with authentication.
    """

    directory: Path
    brokers: int = 1
    port: int = 9092
    heap: str = "512m"
    partitions: int = 2
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.brokers <= MAX_BROKERS:
            raise BrokerError(f"--brokers {self.brokers}: from 1 to {MAX_BROKERS} on one machine")
        if not _MIN_PORT <= self.port <= _MAX_PORT:
            raise BrokerError(f"--port {self.port}: from {_MIN_PORT} to {_MAX_PORT}")
        if not re.fullmatch(r"[1-9]\d*[mMgG]", self.heap):
            raise BrokerError(f"--heap {self.heap!r}: write a number and a unit, such as 512m or 1g")
        if self.partitions < 1:
            raise BrokerError(f"partitions {self.partitions}: at least 1")


@dataclass(frozen=True, slots=True)
class Node:
    """One broker of a cluster, and its process while it runs."""

    node_id: int
    port: int
    controller_port: int
    pid: int | None = None
    started_s: float | None = None

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{HOST}:{self.port}"


def node_directory(directory: Path, node: Node) -> Path:
    """Data, configuration and log of one node."""
    return directory / f"node-{node.node_id}"


def node_properties(spec: ClusterSpec, nodes: tuple[Node, ...], node: Node) -> str:
    """The configuration of one node.

    Examples
    --------
    >>> from pathlib import Path
    >>> node = Node(1, port=9092, controller_port=19092)
    >>> text = node_properties(ClusterSpec(Path("/data/kafka")), (node,), node)
    >>> [line for line in text.splitlines() if line.startswith("listeners")]
    ['listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:19092']
    """
    copies = min(3, len(nodes))
    values = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(f"{n.node_id}@{HOST}:{n.controller_port}" for n in nodes),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://{HOST}:{node.controller_port}",
        "log.dirs": str(node_directory(spec.directory, node) / "data"),
        "num.partitions": str(spec.partitions),
        "default.replication.factor": str(copies),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(max(1, copies - 1)),
        "min.insync.replicas": str(max(1, copies - 1)),
        # A development broker has one consumer at a time and need not wait for others to join.
        "group.initial.rebalance.delay.ms": "0",
        **spec.properties,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())
