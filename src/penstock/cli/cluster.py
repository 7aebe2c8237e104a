"""``penstock cluster``: a Spark Standalone cluster for development and tests, on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.daemons import Delete, Directory, show_end
from penstock.console import AsJson, print_json, print_table

if TYPE_CHECKING:
    from penstock.cluster.standalone import StandaloneCluster

app = typer.Typer(help="Run a Spark Standalone cluster for development on this machine.", rich_markup_mode=None)


@app.callback()
def cluster() -> None:
    """Run a Spark Standalone cluster for development on this machine, from the Spark inside PySpark.

    For example:
      penstock cluster up --workers 2 --cores 4 --memory 4g
      penstock cluster status --json
      penstock cluster down
    """


@app.command()
def up(
    workers: Annotated[int, typer.Option(min=1, max=32, help="Worker daemons.")] = 2,
    cores: Annotated[
        int, typer.Option(min=1, help="Cores that each worker gives; more than there are, if you like.")
    ] = 4,
    memory: Annotated[str, typer.Option(help="Memory that each worker gives to executors.")] = "4g",
    heap: Annotated[str, typer.Option(help="Largest heap of the master and of each worker daemon.")] = "256m",
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Start the cluster on free ports of loopback and wait until all workers are registered.

    For example:
      penstock cluster up --workers 2 --cores 4 --memory 4g
    """
    from penstock.cluster.standalone import default_directory, start_cluster  # noqa: PLC0415 - help must not wait
    from penstock.cluster.standalone_config import StandaloneSpec  # noqa: PLC0415 - as above

    spec = StandaloneSpec(directory or default_directory(), workers=workers, cores=cores, memory=memory, heap=heap)
    _show(start_cluster(spec), as_json=as_json)


@app.command()
def down(
    delete: Delete = False,
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Stop executors, workers and master; nothing of them runs on.

    For example:
      penstock cluster down
      penstock cluster down --delete
    """
    from penstock.cluster import standalone  # noqa: PLC0415 - as above

    place = directory or standalone.default_directory()
    running = standalone.require_cluster(place).running
    killed = {daemon.number for daemon in standalone.stop_cluster(place)}
    left = standalone.delete_cluster(place) if delete else None
    show_end("daemon", place, [(each.name, each.number in killed) for each in running], left, as_json=as_json)


@app.command()
def status(directory: Directory = None, as_json: AsJson = False) -> None:
    """Say which daemons run, where applications find the master, and what is free; exit code 1 when one is down.

    For example:
      penstock cluster status
    """
    from penstock.cluster.standalone import default_directory, require_cluster  # noqa: PLC0415 - as above

    found = require_cluster(directory or default_directory())
    _show(found, as_json=as_json)
    if not found.is_complete:
        raise typer.Exit(1)


def _show(found: StandaloneCluster, *, as_json: bool) -> None:
    from penstock.spark.standalone_master import ask_master  # noqa: PLC0415 - as above

    running = found.running
    answer = ask_master(found.ui_url) if running else None
    alive = [worker for worker in answer.workers if worker.is_alive] if answer else []
    cores_free = sum(worker.cores_free for worker in alive)
    memory_free_mb = sum(worker.memory_free_mb for worker in alive)
    if as_json:
        rows = [{"daemon": d.name, "pid": d.pid, "is_running": d in running} for d in found.daemons]
        print_json(
            {
                "master_url": found.master_url,
                "ui_url": found.ui_url,
                "conf": found.place.conf,
                "directory": str(found.spec.directory),
                "is_running": found.is_complete,
                "cores_free": cores_free,
                "memory_free_mb": memory_free_mb,
                "rows": rows,
            }
        )
        return
    table = [[d.name, str(d.pid or "-"), "running" if d in running else "stopped"] for d in found.daemons]
    print_table(["daemon", "pid", "state"], table)
    typer.echo(f"\nmaster: {found.master_url}\npage: {found.ui_url}\ndirectory: {found.spec.directory}")
    typer.echo(f"free: {cores_free} cores, {memory_free_mb} MB")
    typer.echo(f"drivers are let in with: export SPARK_CONF_DIR={found.place.conf}")
