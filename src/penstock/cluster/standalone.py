"""Start and stop a Spark Standalone cluster for development and tests, from the classes of the installed PySpark.

A cluster lives in a directory (:mod:`penstock.process.group`): log of the master, log and scratch space of each worker,
and ``conf`` with Spark's settings. Executors are children of the workers; stopping a worker waits for them too.

Whoever may connect to a master may have it run a program, so nobody may who does not know the secret of the cluster. It
stands in ``conf/spark-defaults.conf``, which its user alone can read; ``SPARK_CONF_DIR`` leads a driver to it, and no
command line shows it.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cluster.engine_spec import Standalone
from penstock.cluster.standalone_config import (
    MASTER_CLASS,
    WORKER_CLASS,
    Daemon,
    StandaloneSpec,
    daemon_properties,
    driver_properties,
    master_arguments,
    worker_arguments,
)
from penstock.errors import ClusterError
from penstock.process.daemon import state_directory, write_private
from penstock.process.group import DaemonGroup
from penstock.process.java import required_java, spark_jars
from penstock.process.ports import HOST, free_port
from penstock.spark.standalone_master import ask_master

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_READY_WITHIN_S = 90.0
_STOPPED_WITHIN_S = 20.0
_SECRET_BYTES = 32
_CONF = "conf"
# What belongs to the driver that started the cluster and would confuse executors that inherit it.
_NOT_INHERITED = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_CONF_DIR")


@dataclass(frozen=True, slots=True)
class StandaloneCluster:
    """A cluster as its directory tells of it."""

    spec: StandaloneSpec
    port: int
    ui_port: int
    daemons: tuple[Daemon, ...]

    @property
    def master_url(self) -> str:
        """What ``spark.master`` is set to."""
        return f"spark://{HOST}:{self.port}"

    @property
    def ui_url(self) -> str:
        """Where the master's page is, and its answer as JSON below it."""
        return f"http://{HOST}:{self.ui_port}"

    @property
    def place(self) -> Standalone:
        """The cluster as an engine is told of it."""
        return Standalone(self.master_url, self.ui_url, str(self.spec.directory.absolute() / _CONF))

    @property
    def running(self) -> tuple[Daemon, ...]:
        """Daemons whose process is alive."""
        return tuple(daemon for daemon in self.daemons if _process(self.spec.directory, daemon) is not None)

    @property
    def is_complete(self) -> bool:
        """Whether all that belongs to the cluster runs."""
        return len(self.running) == len(self.daemons)

    def with_daemon(self, daemon: Daemon) -> StandaloneCluster:
        """The same cluster with one daemon replaced, or one more."""
        others = [known for known in self.daemons if known.number != daemon.number]
        return replace(self, daemons=tuple(sorted([*others, daemon], key=lambda known: known.number)))


def default_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where ``penstock cluster`` keeps its cluster: ``$XDG_STATE_HOME/penstock/spark``, or below ``~/.local/state``."""
    return state_directory("spark", environment)


def start_cluster(spec: StandaloneSpec, *, timeout_s: float = _READY_WITHIN_S) -> StandaloneCluster:
    """Start a cluster and wait until all workers are registered; one that runs already is left as it is.

    Should a daemon not come up, all that were started are stopped again.
    """
    known = read_cluster(spec.directory)
    if known is not None and known.running:
        return _already_running(known, spec, timeout_s)
    cluster = StandaloneCluster(spec, free_port(), free_port(), tuple(Daemon(n) for n in range(spec.workers + 1)))
    _write(cluster)
    try:
        _configure(cluster)
        for daemon in cluster.daemons:
            cluster = cluster.with_daemon(_start(cluster, daemon))
            _write(cluster)
            if daemon.number == 0:
                _await_workers(cluster, 0, timeout_s)
        _await_workers(cluster, spec.workers, timeout_s)
    except BaseException:
        stop_cluster(spec.directory)
        raise
    return cluster


def stop_cluster(directory: Path, *, timeout_s: float = _STOPPED_WITHIN_S) -> tuple[Daemon, ...]:
    """Stop workers, executors and master, in order if they obey in time; gives daemons that had to be killed."""
    cluster = read_cluster(directory)
    if cluster is None:
        return ()
    # Workers first: executors end with them, and a master that goes first leaves them looking for another.
    forced = _end(cluster, cluster.daemons[1:], timeout_s) + _end(cluster, cluster.daemons[:1], timeout_s)
    _write(replace(cluster, daemons=tuple(Daemon(daemon.number) for daemon in cluster.daemons)))
    return forced


def delete_cluster(directory: Path) -> list[str]:
    """Delete what a cluster that is stopped has made; gives what else is in its directory, and stays."""
    if require_cluster(directory).running:
        raise ClusterError(f"the cluster in {directory} runs: stop it with 'penstock cluster down' first")
    return _group(directory).delete()


def start_worker(directory: Path, number: int | None = None, *, timeout_s: float = _READY_WITHIN_S) -> Daemon:
    """Start a worker that is down, or one more; gives it once it is registered."""
    cluster = require_cluster(directory)
    free = next(n for n in range(1, len(cluster.daemons) + 1) if n not in {d.number for d in cluster.running})
    daemon = next((d for d in cluster.daemons if d.number == (number or free)), Daemon(number or free))
    if _process(directory, daemon) is None:
        daemon = _start(cluster, daemon)
        cluster = cluster.with_daemon(daemon)
        _write(cluster)
        _await_workers(cluster, len([d for d in cluster.running if d.number]), timeout_s)
    return daemon


def stop_worker(directory: Path, number: int, *, timeout_s: float = _STOPPED_WITHIN_S) -> None:
    """Stop one worker with its executors; the others run on."""
    cluster = require_cluster(directory)
    chosen = [daemon for daemon in cluster.daemons if daemon.number == number and number > 0]
    if not chosen:
        raise ClusterError(f"the cluster in {directory} has no worker {number}, only 1 to {len(cluster.daemons) - 1}")
    _end(cluster, tuple(chosen), timeout_s)
    _write(cluster.with_daemon(Daemon(number)))


@contextmanager
def running_cluster(spec: StandaloneSpec, *, timeout_s: float = _READY_WITHIN_S) -> Iterator[StandaloneCluster]:
    """A cluster that is stopped at the end, whatever happens."""
    cluster = start_cluster(spec, timeout_s=timeout_s)
    try:
        yield cluster
    finally:
        stop_cluster(spec.directory)


def read_cluster(directory: Path) -> StandaloneCluster | None:
    """What a directory knows of its cluster; None where there is none."""
    group = _group(directory)
    tree = group.read()
    if tree is None:
        return None
    try:
        spec = StandaloneSpec(directory, **tree["spec"])
        return StandaloneCluster(spec, tree["port"], tree["ui_port"], tuple(Daemon(**d) for d in tree["daemons"]))
    except (KeyError, TypeError) as error:
        raise group.unreadable(error) from error


def require_cluster(directory: Path) -> StandaloneCluster:
    """As :func:`read_cluster`, but none is an error."""
    cluster = read_cluster(directory)
    if cluster is None:
        raise _group(directory).missing()
    return cluster


def _already_running(cluster: StandaloneCluster, spec: StandaloneSpec, timeout_s: float) -> StandaloneCluster:
    if cluster.spec != spec:
        was = cluster.spec
        raise ClusterError(
            f"the cluster in {spec.directory} runs already, with {was.workers} workers of {was.cores} cores and "
            f"{was.memory}: stop it with 'penstock cluster down' first, or name another directory with --dir"
        )
    if cluster.daemons[0] not in cluster.running:
        raise ClusterError(f"the master in {spec.directory} is gone: stop the rest with 'penstock cluster down' first")
    for daemon in cluster.daemons[1:]:
        if _process(spec.directory, daemon) is None:
            start_worker(spec.directory, daemon.number, timeout_s=timeout_s)
    return require_cluster(spec.directory)


def _configure(cluster: StandaloneCluster) -> None:
    """Write what daemons and drivers read, with a new secret: whoever knew an old one is not let in."""
    conf = _group(cluster.spec.directory).make(_CONF)
    secret = secrets.token_hex(_SECRET_BYTES)
    write_private(conf / "daemon.conf", daemon_properties(secret))
    write_private(conf / "spark-defaults.conf", driver_properties(secret))


def _start(cluster: StandaloneCluster, daemon: Daemon) -> Daemon:
    directory = cluster.spec.directory.absolute()
    jars = spark_jars()
    java = [required_java(), f"-Xmx{cluster.spec.heap}", "-Djava.awt.headless=true", "-cp", f"{jars}/*"]
    settings = ["--properties-file", str(directory / _CONF / "daemon.conf")]
    if daemon.number == 0:
        main = [MASTER_CLASS, *settings, *master_arguments(cluster.port, cluster.ui_port)]
    else:
        spec = replace(cluster.spec, directory=directory)
        main = [WORKER_CLASS, *settings, *worker_arguments(spec, daemon.number, cluster.master_url)]
    started = _group(directory).start(daemon.directory, [*java, *main], environment=_environment(jars))
    return replace(daemon, pid=started.pid, started_s=started.started_s)


def _environment(jars: Path) -> dict[str, str]:
    """What the daemons, and through them the executors, find around them."""
    import penstock  # noqa: PLC0415 - asks where this very package lies

    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    # Executors run in directories of their own, where a relative path means nothing.
    paths = [Path(penstock.__file__).parents[1], *map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(":")))]
    return {
        **inherited,
        "SPARK_HOME": str(jars.parent),
        # Spark's shell scripts set this; without it a worker looks for a source tree and starts no executor.
        "SPARK_SCALA_VERSION": next(jars.glob("spark-core_*.jar")).name.removeprefix("spark-core_").split("-")[0],
        "SPARK_LOCAL_IP": HOST,
        "PYTHONPATH": ":".join(dict.fromkeys(str(path.absolute()) for path in paths)),
    }


def _await_workers(cluster: StandaloneCluster, workers: int, timeout_s: float) -> None:
    def are_there() -> bool:
        answer = ask_master(cluster.ui_url)
        return answer is not None and sum(worker.is_alive for worker in answer.workers) >= workers

    daemons = [(daemon.directory, daemon.pid, daemon.started_s) for daemon in cluster.daemons]
    _group(cluster.spec.directory).wait(daemons, are_there, timeout_s, f"has no {workers} workers")


def _end(cluster: StandaloneCluster, daemons: tuple[Daemon, ...], timeout_s: float) -> tuple[Daemon, ...]:
    directory = cluster.spec.directory
    running = [(daemon, process) for daemon in daemons if (process := _process(directory, daemon)) is not None]
    forced = _group(directory).end([process for _, process in running], timeout_s)
    return tuple(daemon for daemon, process in running if process in forced)


def _process(directory: Path, daemon: Daemon) -> Any:  # noqa: ANN401 - psutil has no types
    return _group(directory).process(daemon.pid, daemon.started_s)


def _group(directory: Path) -> DaemonGroup:
    return DaemonGroup(directory, ClusterError, "penstock cluster")


def _write(cluster: StandaloneCluster) -> None:
    spec = {key: value for key, value in asdict(cluster.spec).items() if key != "directory"}
    daemons = [asdict(daemon) for daemon in cluster.daemons]
    tree = {"spec": spec, "port": cluster.port, "ui_port": cluster.ui_port, "daemons": daemons}
    _group(cluster.spec.directory).write(tree)
