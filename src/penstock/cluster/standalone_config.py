"""What a Spark Standalone cluster for development is made of: a master and workers on loopback."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ClusterError
from penstock.process.ports import HOST

if TYPE_CHECKING:
    from pathlib import Path

MAX_WORKERS = 32
MAX_CORES = 1024
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"


def memory_mb(text: str, what: str) -> int:
    """Megabytes of a memory size as Spark and Java write it.

    Examples
    --------
    >>> memory_mb("4g", "--memory"), memory_mb("512m", "--memory")
    (4096, 512)
    """
    if not re.fullmatch(r"[1-9]\d*[mMgG]", text):
        raise ClusterError(f"{what} {text!r}: write a number and a unit, such as 512m or 4g")
    return int(text[:-1]) * (1024 if text[-1] in "gG" else 1)


@dataclass(frozen=True, slots=True)
class StandaloneSpec:
    """A cluster on loopback in a directory of its own.

    Parameters
    ----------
    directory
        Holds logs, the workers' scratch space and the state of the cluster.
    workers
        Worker daemons.
    cores, memory
        What each worker has to give to executors. Nobody checks that the machine has as much.
    heap
        Largest heap of the master and of each worker daemon; executors are processes of their own beside them.
    """

    directory: Path
    workers: int = 2
    cores: int = 4
    memory: str = "4g"
    heap: str = "256m"

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MAX_WORKERS:
            raise ClusterError(f"--workers {self.workers}: from 1 to {MAX_WORKERS} on one machine")
        if not 1 <= self.cores <= MAX_CORES:
            raise ClusterError(f"--cores {self.cores}: from 1 to {MAX_CORES} for each worker")
        memory_mb(self.memory, "--memory")
        memory_mb(self.heap, "--heap")


@dataclass(frozen=True, slots=True)
class Daemon:
    """The master or one worker, and its process while it runs; the master is number 0."""

    number: int
    pid: int | None = None
    started_s: float | None = None

    @property
    def name(self) -> str:
        """How people call it."""
        return "master" if self.number == 0 else f"worker {self.number}"

    @property
    def directory(self) -> str:
        """Its directory inside that of the cluster."""
        return self.name.replace(" ", "-")


def driver_properties(secret: str) -> str:
    """What a driver must know to be let in, as a file of Spark's settings.

    Examples
    --------
    >>> driver_properties("s3").splitlines()
    ['spark.authenticate true', 'spark.authenticate.secret s3', 'spark.network.crypto.enabled true']
    """
    values = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        # Without it the secret itself would be safe, but what follows its proof could be another's.
        "spark.network.crypto.enabled": "true",
    }
    return "".join(f"{key} {value}\n" for key, value in values.items())


def daemon_properties(secret: str) -> str:
    """What the master and the workers run under.

    Examples
    --------
    >>> "spark.master.rest.enabled false" in daemon_properties("s3").splitlines()
    True
    """
    values = {
        # A port of its own on which whoever reaches it may hand in programs, with no proof of who that is.
        "spark.master.rest.enabled": "false",
        # Pages that anybody on the machine may open show; they end nothing.
        "spark.ui.killEnabled": "false",
        # A machine that slept must not find its workers struck off; a worker that dies is noticed by its connection.
        "spark.worker.timeout": "3600",
    }
    return driver_properties(secret) + "".join(f"{key} {value}\n" for key, value in values.items())


def master_arguments(port: int, ui_port: int) -> list[str]:
    """What the master's main class is told."""
    return ["--host", HOST, "--port", str(port), "--webui-port", str(ui_port)]


def worker_arguments(spec: StandaloneSpec, number: int, master_url: str) -> list[str]:
    """What a worker's main class is told; it chooses its own ports.

    Examples
    --------
    >>> from pathlib import Path
    >>> worker_arguments(StandaloneSpec(Path("/data/spark"), cores=2, memory="1g"), 1, "spark://127.0.0.1:7077")[-3:]
    ['--work-dir', '/data/spark/worker-1/work', 'spark://127.0.0.1:7077']
    """
    work = spec.directory / f"worker-{number}" / "work"
    size = ["--cores", str(spec.cores), "--memory", spec.memory]
    return ["--host", HOST, "--webui-port", "0", *size, "--work-dir", str(work), master_url]
