"""An engine as a user describes it, and where it is to run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.cluster.standalone_config import memory_mb
from penstock.errors import ClusterError
from penstock.model.executors import ExecutorBounds

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One Spark application that grows and shrinks.

    Parameters
    ----------
    name
        Name of the application.
    bounds
        First size, minimum, maximum and standby, in executors.
    cores, memory
        Size of each executor; its heap is ``memory``.
    memory_overhead
        Memory of each executor beside its heap, for Python workers above all; Spark's default where it is not given.
    driver_memory
        Heap of the driver.
    release_within_s
        How long an executor that is released may take to finish its tasks and pass its blocks on.
    python
        Interpreter on the executors; that of the driver where it is not given.
    jars
        Jars that the driver and the executors need, such as those of :func:`penstock.kafka.jars`.
    settings
        Any further settings of Spark. Those that the engine's size is made of are refused.
    """

    name: str
    bounds: ExecutorBounds = field(default_factory=ExecutorBounds)
    cores: int = 1
    memory: str = "1g"
    memory_overhead: str | None = None
    driver_memory: str = "1g"
    release_within_s: float = 600.0
    python: str | None = None
    jars: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ClusterError("an engine needs a name")
        if self.cores < 1:
            raise ClusterError(f"engine {self.name}: {self.cores} cores for each executor; at least 1")
        memory_mb(self.memory, f"engine {self.name}: memory")
        memory_mb(self.driver_memory, f"engine {self.name}: driver_memory")
        if self.memory_overhead is not None:
            memory_mb(self.memory_overhead, f"engine {self.name}: memory_overhead")
        if not self.release_within_s >= 1:
            raise ClusterError(f"engine {self.name}: release_within_s {self.release_within_s:g}; at least 1 s")

    @property
    def memory_mb(self) -> int:
        """Heap of an executor in megabytes."""
        return memory_mb(self.memory, "memory")


@dataclass(frozen=True, slots=True)
class Standalone:
    """A Standalone cluster.

    Parameters
    ----------
    master_url
        Its master, ``spark://HOST:PORT``.
    ui_url
        The master's page: with it, what the cluster can give is known beforehand.
    conf
        Directory of Spark's settings (``SPARK_CONF_DIR``), for a cluster that lets in only those who know its secret.
    """

    master_url: str
    ui_url: str | None = None
    conf: str | None = None

    def __post_init__(self) -> None:
        if not self.master_url.startswith("spark://"):
            raise ClusterError(f"{self.master_url!r} is not a Standalone master: write spark://HOST:PORT")


@dataclass(frozen=True, slots=True)
class Yarn:
    """A YARN queue; Spark finds the cluster through ``HADOOP_CONF_DIR``."""

    queue: str = "default"
    deploy_mode: str = "client"

    def __post_init__(self) -> None:
        _check_deploy_mode(self.deploy_mode)


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """A namespace of Kubernetes and the image that driver and executors run."""

    api_server: str
    image: str
    namespace: str = "default"
    service_account: str | None = None
    deploy_mode: str = "client"

    def __post_init__(self) -> None:
        if not self.api_server.startswith(("https://", "http://")):
            raise ClusterError(f"{self.api_server!r} is not an API server: write https://HOST:PORT")
        if not self.image.strip():
            raise ClusterError("an engine on Kubernetes needs an image with Spark, Python and Penstock in it")
        _check_deploy_mode(self.deploy_mode)


Place = Standalone | Yarn | Kubernetes


def _check_deploy_mode(mode: str) -> None:
    if mode not in ("client", "cluster"):
        raise ClusterError(f"deploy mode {mode!r}: client or cluster")
