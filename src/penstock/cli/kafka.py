"""``penstock kafka``: a Kafka cluster for development and tests, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.daemons import Delete, Directory, show_end
from penstock.console import AsJson, print_json, print_table

if TYPE_CHECKING:
    from penstock.kafka.broker import Cluster

app = typer.Typer(help="Run a Kafka cluster for development on this machine.", rich_markup_mode=None)

Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", metavar="HOST:PORT", help="Address of some other cluster."),
]


@app.callback()
def kafka() -> None:
    """Run a Kafka cluster for development on this machine; Java is all that is needed.

    For example:
      penstock kafka up
      penstock kafka topic clicks --partitions 4
      penstock kafka status --json
      penstock kafka down
    """


@app.command()
def up(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="Brokers in the cluster.")] = 1,
    port: Annotated[int, typer.Option(help="Port of the first broker on loopback; the others follow.")] = 9092,
    heap: Annotated[str, typer.Option(help="Largest heap of each broker.")] = "512m",
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Start the cluster and wait until it answers; data of the last time is still there.

    The first start resolves the broker's jars into the cache; later ones need no network.

    For example:
      penstock kafka up
      penstock kafka up --brokers 3 --port 19092 --dir /tmp/three
    """
    from penstock.kafka.broker import default_directory, start_cluster  # noqa: PLC0415 - help must not wait for it
    from penstock.kafka.broker_config import ClusterSpec  # noqa: PLC0415 - as above

    spec = ClusterSpec(directory or default_directory(), brokers=brokers, port=port, heap=heap)
    _show(start_cluster(spec), as_json=as_json)


@app.command()
def down(
    delete: Delete = False,
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Stop the cluster; its data stays unless it is to be deleted.

    For example:
      penstock kafka down
      penstock kafka down --delete
    """
    from penstock.kafka import broker  # noqa: PLC0415 - as above

    place = directory or broker.default_directory()
    running = broker.require_cluster(place).running
    killed = broker.stop_cluster(place)
    left = broker.delete_cluster(place) if delete else None
    show_end("broker", place, [(node.node_id, node in killed) for node in running], left, as_json=as_json)


@app.command()
def status(directory: Directory = None, as_json: AsJson = False) -> None:
    """Say which brokers run and where clients find them; exit code 1 when one does not.

    For example:
      penstock kafka status
    """
    from penstock.kafka.broker import default_directory, require_cluster  # noqa: PLC0415 - as above

    cluster = require_cluster(directory or default_directory())
    _show(cluster, as_json=as_json)
    if len(cluster.running) < len(cluster.nodes):
        raise typer.Exit(1)


@app.command()
def topic(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Topic; without one, all are listed.")] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Create the topic with so many partitions, or grow it."),
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, max=9, help="Copies of a new topic's partitions.")] = 1,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the topic with everything in it.")] = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """List topics with their offsets, or create, grow or delete one.

    For example:
      penstock kafka topic
      penstock kafka topic clicks --partitions 4
      penstock kafka topic clicks --delete
    """
    from penstock.kafka.broker import default_directory, require_cluster  # noqa: PLC0415 - as above
    from penstock.kafka.client import KafkaClient  # noqa: PLC0415 - as above
    from penstock.kafka.topics import change_topic, list_partitions  # noqa: PLC0415 - as above

    if name is None and (partitions is not None or delete):
        raise typer.BadParameter("a topic's name is missing: it is created, grown or deleted by its name")
    if delete and partitions is not None:
        raise typer.BadParameter("--delete and --partitions exclude one another")
    client = KafkaClient(bootstrap or require_cluster(directory or default_directory()).bootstrap)
    done = "" if name is None else change_topic(client, name, partitions=partitions, replicas=replicas, delete=delete)
    rows = [] if delete else list_partitions(client, name)
    if as_json:
        print_json({"bootstrap": client.bootstrap, "done": done, "rows": [row.to_dict() for row in rows]})
        return
    if done:
        typer.echo(done)
    if rows:
        table = [[row.topic, str(row.partition), f"{row.begin:,}", f"{row.end:,}", f"{row.records:,}"] for row in rows]
        print_table(["topic", "partition", "begin", "end", "records"], table)


@app.command()
def lag(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Checkpoint directory of a query.")],
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Commit the query's offsets to this consumer group as well.")
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Say how many records wait for a query in every partition, from its checkpoint and the broker's offsets.

    Nothing is consumed and the query need not run.

    For example:
      penstock kafka lag /data/checkpoints/clicks
      penstock kafka lag /data/checkpoints/clicks --group spark-clicks --json
    """
    from penstock.kafka.broker import default_directory, require_cluster  # noqa: PLC0415 - as above
    from penstock.kafka.client import KafkaClient  # noqa: PLC0415 - as above
    from penstock.kafka.lag import offsets_of_checkpoint, query_lag  # noqa: PLC0415 - as above

    read = offsets_of_checkpoint(checkpoint)
    client = KafkaClient(bootstrap or require_cluster(directory or default_directory()).bootstrap)
    lags = query_lag(client, read)
    if group is not None:
        client.commit(group, read)
    rows = [
        {"topic": name, "partition": place, "read": read.get(name, {}).get(place, 0), "lag_rows": waiting}
        for (name, place), waiting in sorted(lags.items())
    ]
    if as_json:
        print_json({"bootstrap": client.bootstrap, "lag_rows": sum(lags.values()), "group": group, "rows": rows})
        return
    print_table(list(rows[0]) if rows else ["topic"], [[str(value) for value in row.values()] for row in rows])
    typer.echo(f"\n{sum(lags.values()):,} records wait" + (f"; committed to group {group!r}" if group else ""))


def _show(cluster: Cluster, *, as_json: bool) -> None:
    running = cluster.running
    if as_json:
        rows = [
            {"broker": node.node_id, "address": node.address, "pid": node.pid, "is_running": node in running}
            for node in cluster.nodes
        ]
        print_json(
            {
                "bootstrap": cluster.bootstrap,
                "directory": str(cluster.directory),
                "heap": cluster.heap,
                "is_running": len(running) == len(cluster.nodes),
                "rows": rows,
            }
        )
        return
    table = [
        [str(node.node_id), node.address, str(node.pid or "-"), "running" if node in running else "stopped"]
        for node in cluster.nodes
    ]
    print_table(["broker", "address", "pid", "state"], table)
    typer.echo(f"\nbootstrap servers: {cluster.bootstrap}\ndirectory: {cluster.directory}")
