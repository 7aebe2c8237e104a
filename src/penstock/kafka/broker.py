"""Start and stop Kafka brokers for development and tests.

A cluster lives in a directory (:mod:`penstock.process.group`): data, configuration and log of each node.
"""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import BrokerError
from penstock.extras import require
from penstock.kafka.artifacts import BROKER, resolved
from penstock.kafka.broker_config import ClusterSpec, Node, node_directory, node_properties
from penstock.process.daemon import last_words, state_directory, write_private
from penstock.process.group import DaemonGroup
from penstock.process.java import required_java
from penstock.process.ports import free_port, is_free, listens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_READY_WITHIN_S = 60.0
_STOPPED_WITHIN_S = 20.0
_FORMATTED_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as its directory tells of it."""

    directory: Path
    cluster_id: str
    heap: str
    nodes: tuple[Node, ...]

    @property
    def bootstrap(self) -> str:
        """Addresses for clients."""
        return ",".join(node.address for node in self.nodes)

    @property
    def running(self) -> tuple[Node, ...]:
        """Nodes whose process is alive."""
        return tuple(node for node in self.nodes if _process(self.directory, node) is not None)

    def with_node(self, node: Node) -> Cluster:
        """The same cluster with one node replaced."""
        return replace(self, nodes=tuple(node if old.node_id == node.node_id else old for old in self.nodes))


def default_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where ``penstock kafka`` keeps its cluster: ``$XDG_STATE_HOME/penstock/kafka``, or below ``~/.local/state``."""
    return state_directory("kafka", environment)


def start_cluster(spec: ClusterSpec, *, timeout_s: float = _READY_WITHIN_S) -> Cluster:
    """Start a cluster and wait until it answers; one that runs already is left as it is.

    Should a node not come up, all that were started are stopped again.
    """
    known = read_cluster(spec.directory)
    if known is not None and len(known.nodes) != spec.brokers:
        raise BrokerError(
            f"{spec.directory} holds a cluster of {len(known.nodes)} brokers, not of {spec.brokers}: name another "
            "directory with --dir, or delete this one with 'penstock kafka down --delete'"
        )
    if known is not None and known.running:
        return _already_running(known, spec)
    require("kafka", "a broker that is awaited")  # before one is started
    cluster = _planned(spec, known)
    _write(cluster)
    try:
        for node in cluster.nodes:
            cluster = cluster.with_node(_start_node(cluster, node))
            _write(cluster)
        _await_answer(cluster, timeout_s)
    except BaseException:
        stop_cluster(spec.directory)
        raise
    return cluster


def stop_cluster(directory: Path, *, timeout_s: float = _STOPPED_WITHIN_S) -> tuple[Node, ...]:
    """Stop all nodes that run, in order if they obey in time; gives those that had to be killed."""
    cluster = read_cluster(directory)
    if cluster is None:
        return ()
    killed = _end(cluster, cluster.nodes, timeout_s)
    _write(replace(cluster, nodes=tuple(replace(node, pid=None, started_s=None) for node in cluster.nodes)))
    return killed


def delete_cluster(directory: Path) -> list[str]:
    """Delete what a cluster that is stopped has made; gives what else is in its directory, and stays."""
    if require_cluster(directory).running:
        raise BrokerError(f"the cluster in {directory} runs: stop it with 'penstock kafka down' first")
    return _group(directory).delete()


def stop_node(directory: Path, node_id: int, *, timeout_s: float = _STOPPED_WITHIN_S) -> Cluster:
    """Stop one node of a cluster; the others run on."""
    cluster = require_cluster(directory)
    node = _node(cluster, node_id)
    _end(cluster, (node,), timeout_s)
    cluster = cluster.with_node(replace(node, pid=None, started_s=None))
    _write(cluster)
    return cluster


def start_node(directory: Path, node_id: int, *, timeout_s: float = _READY_WITHIN_S) -> Cluster:
    """Start one node of a cluster again, with the data and configuration that it has."""
    cluster = require_cluster(directory)
    node = _node(cluster, node_id)
    if _process(directory, node) is None:
        cluster = cluster.with_node(_start_node(cluster, node))
        _write(cluster)
        _await_answer(cluster, timeout_s)
    return cluster


@contextmanager
def running_cluster(spec: ClusterSpec) -> Iterator[Cluster]:
    """A cluster that is stopped at the end, whatever happens."""
    cluster = start_cluster(spec)
    try:
        yield cluster
    finally:
        stop_cluster(spec.directory)


def read_cluster(directory: Path) -> Cluster | None:
    """What a directory knows of its cluster; None where there is none."""
    group = _group(directory)
    tree = group.read()
    if tree is None:
        return None
    try:
        nodes = tuple(Node(**node) for node in tree["nodes"])
        return Cluster(directory, tree["cluster_id"], tree["heap"], nodes)
    except (KeyError, TypeError) as error:
        raise group.unreadable(error) from error


def require_cluster(directory: Path) -> Cluster:
    """As :func:`read_cluster`, but none is an error."""
    cluster = read_cluster(directory)
    if cluster is None:
        raise _group(directory).missing()
    return cluster


def _already_running(cluster: Cluster, spec: ClusterSpec) -> Cluster:
    if cluster.nodes[0].port != spec.port:
        raise BrokerError(
            f"the cluster in {spec.directory} runs already, on port {cluster.nodes[0].port}: stop it with "
            "'penstock kafka down' first, or name another directory with --dir"
        )
    for node in cluster.nodes:
        if _process(spec.directory, node) is None:
            cluster = start_node(spec.directory, node.node_id)
    return cluster


def _planned(spec: ClusterSpec, known: Cluster | None) -> Cluster:
    """Choose ports, write every node's configuration and format what has no data yet."""
    for number in range(spec.brokers):
        _require_free(spec.port + number)
    nodes = tuple(Node(number + 1, spec.port + number, free_port()) for number in range(spec.brokers))
    cluster_id = known.cluster_id if known else _new_cluster_id()
    for node in nodes:
        place = _group(spec.directory).make(node_directory(spec.directory, node).name)
        # Properties may hold passwords of listeners.
        write_private(place / "server.properties", node_properties(spec, nodes, node))
        if not (place / "data" / "meta.properties").exists():
            _format(place, cluster_id)
    return Cluster(spec.directory, cluster_id, spec.heap, nodes)


def _new_cluster_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Kafka's tool would take an id that begins so for an option; one in 64 does.
        if not text.startswith("-"):
            return text


def _format(place: Path, cluster_id: str) -> None:
    properties = str(place / "server.properties")
    command = [*_java("128m"), "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", properties]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMATTED_WITHIN_S, check=False)
    if done.returncode != 0:
        raise BrokerError(f"{place} could not be prepared for Kafka: {last_words(done.stdout + done.stderr)}")


def _start_node(cluster: Cluster, node: Node) -> Node:
    place = node_directory(cluster.directory, node)
    command = [*_java(cluster.heap), "kafka.Kafka", str(place / "server.properties")]
    started = _group(cluster.directory).start(place.name, command)
    return replace(node, pid=started.pid, started_s=started.started_s)


def _java(heap: str) -> list[str]:
    jars = os.pathsep.join(map(str, resolved(BROKER)))
    return [required_java(), f"-Xmx{heap}", "-Djava.awt.headless=true", "-cp", jars]


def _await_answer(cluster: Cluster, timeout_s: float) -> None:
    from penstock.kafka.client import KafkaClient  # noqa: PLC0415 - only whoever starts a broker needs the library

    started = [node for node in cluster.nodes if node.pid is not None]

    def answers() -> bool:
        if all(listens(node.port) for node in started):
            with suppress(BrokerError):
                known = set(KafkaClient(cluster.bootstrap, timeout_s=2.0).brokers())
                return known >= {node.node_id for node in started}
        return False

    daemons = [(node_directory(cluster.directory, node).name, node.pid, node.started_s) for node in started]
    _group(cluster.directory).wait(daemons, answers, timeout_s, "does not answer")


def _node(cluster: Cluster, node_id: int) -> Node:
    for node in cluster.nodes:
        if node.node_id == node_id:
            return node
    raise BrokerError(f"the cluster in {cluster.directory} has no broker {node_id}, only 1 to {len(cluster.nodes)}")


def _require_free(port: int) -> None:
    if not is_free(port):
        raise BrokerError(f"port {port} is taken by another program: choose one with --port")


def _end(cluster: Cluster, nodes: tuple[Node, ...], timeout_s: float) -> tuple[Node, ...]:
    running = [(node, process) for node in nodes if (process := _process(cluster.directory, node)) is not None]
    forced = _group(cluster.directory).end([process for _, process in running], timeout_s)
    return tuple(node for node, process in running if process in forced)


def _process(directory: Path, node: Node) -> Any:  # noqa: ANN401 - psutil has no types
    return _group(directory).process(node.pid, node.started_s)


def _group(directory: Path) -> DaemonGroup:
    return DaemonGroup(directory, BrokerError, "penstock kafka")


def _write(cluster: Cluster) -> None:
    nodes = [asdict(node) for node in cluster.nodes]
    tree = {"cluster_id": cluster.cluster_id, "heap": cluster.heap, "nodes": nodes}
    _group(cluster.directory).write(tree)
