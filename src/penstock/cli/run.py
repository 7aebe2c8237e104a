"""``penstock run``: an application on Kafka or the embedded source, governed or plain."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.console import AsJson, print_json, print_table, short_number

if TYPE_CHECKING:
    from penstock.apps.catalog import App
    from penstock.apps.run import QueryFigures, RunTick
    from penstock.apps.streams import Stream
    from penstock.kafka.client import KafkaClient
    from penstock.model import Goal

_HEADS = {
    "query": "query",
    "batches": "batches",
    "read_rows": "rows read",
    "kept_fraction": "kept",
    "batch_p95_s": "batch p95, s",
    "latency_p50_s": "latency p50, s",
    "latency_p95_s": "latency p95, s",
    "lag_max_rows": "lag at most, rows",
    "lag_end_rows": "lag at the end, rows",
}


def command(
    name: Annotated[str, typer.Argument(metavar="APP", help="click-fraud, taxi-drives, knn, mentions or word-count.")],
    kafka: Annotated[
        bool, typer.Option("--kafka/--embedded", help="Read Kafka, or rows that this command makes itself.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Run without Penstock.")] = False,
    seconds: Annotated[float, typer.Option(min=5, max=86_400, help="How long to run.")] = 60.0,
    rows: Annotated[
        int | None, typer.Option(min=1, help="End early, as soon as each query has read so many rows.")
    ] = None,
    goal: Annotated[str | None, typer.Option(help="Latency goal; default: the application's own.")] = None,
    minimum_accuracy: Annotated[
        float | None, typer.Option(min=0, max=1, help="Smallest share to keep; default: the application's own.")
    ] = None,
    instances: Annotated[int | None, typer.Option(min=1, max=64, help="Instances of a partitioned query.")] = None,
    profile: Annotated[str | None, typer.Option(help="Load profile of embedded rows.")] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Topic instead of the application's own; as many times as it has topics.")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Kafka; default: the cluster of 'penstock kafka up'.")
    ] = None,
    checkpoints: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Checkpoints, to go on next time; default: new ones.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for log and store; a new one in artifacts/.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run an application for a while and say what its queries achieved.

    For example:
      penstock run click-fraud --kafka
      penstock run word-count --embedded --profile constant:rate=20000 --seconds 30
      penstock run knn --kafka --instances 2 --plain
    """
    from penstock.apps.catalog import app_named  # noqa: PLC0415 - imports Spark

    app = app_named(name)
    wanted = {"latency": goal, "minimum_accuracy": minimum_accuracy}
    chosen = app.goal.with_(**{key: value for key, value in wanted.items() if value is not None})
    client, streams = _from_kafka(app, profile, topic, bootstrap) if kafka else (None, _embedded(app, profile))
    place = out or Path("artifacts") / time.strftime(f"{name}-%Y%m%d-%H%M%S")
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-run-") as scratch:
        figures = _run(
            app, streams, client,
            plain=plain, goal=chosen, instances=instances or app.instances, seconds=seconds, rows=rows, place=place,
            checkpoints=checkpoints or Path(scratch), quiet=as_json,
        )  # fmt: skip
    if as_json:
        document = {"app": name, "is_governed": not plain, "goal_s": chosen.latency_s, "seconds": seconds}
        print_json({**document, "out": str(place), "rows": [row.to_dict() for row in figures]})
        return
    print_table(list(_HEADS.values()), [_texts(row) for row in figures])
    if not plain:
        typer.echo(f"\nwhy: penstock log --store {place / 'penstock.db'}")


def _run(
    app: App,
    streams: list[Stream],
    client: KafkaClient | None,
    *,
    plain: bool,
    goal: Goal,
    instances: int,
    seconds: float,
    rows: int | None,
    place: Path,
    checkpoints: Path,
    quiet: bool,
) -> list[QueryFigures]:
    from penstock.apps.run import run_app  # noqa: PLC0415 - imports Spark
    from penstock.apps.session import local_session  # noqa: PLC0415 - as above
    from penstock.kafka import jars  # noqa: PLC0415 - as above
    from penstock.settings import Settings  # noqa: PLC0415 - as above
    from penstock.spark.attach import attach  # noqa: PLC0415 - as above
    from penstock.spark.load import register  # noqa: PLC0415 - as above

    with local_session(f"penstock run {app.name}", log=place / "spark.log", jars=jars() if client else []) as spark:
        register(spark)
        settings = Settings().with_values({"store.path": str(place / "penstock.db")})
        pen = None if plain else attach(spark, settings=settings)
        try:
            return run_app(
                app, spark, _begun(streams), pen=pen, goal=goal, instances=instances, seconds=seconds,
                until_rows=rows, checkpoints=checkpoints, client=client,
                watch=lambda tick: None if quiet else _show(tick),
            )  # fmt: skip
        finally:
            if pen is not None:
                pen.detach()


def _embedded(app: App, profile: str | None) -> list[Stream]:
    from penstock.apps.streams import EmbeddedStream  # noqa: PLC0415 - imports Spark
    from penstock.spark.trace import load_profile  # noqa: PLC0415 - imports numpy

    wanted = load_profile(profile or f"constant:rate={app.rate_rows_per_s:g}")
    return [EmbeddedStream(wanted, 0.0, app.content, seed) for seed, _ in enumerate(app.topics, start=1)]


def _from_kafka(
    app: App, profile: str | None, topics: list[str] | None, bootstrap: str | None
) -> tuple[KafkaClient, list[Stream]]:
    from penstock.apps.streams import KafkaStream  # noqa: PLC0415 - imports Spark
    from penstock.kafka.broker import default_directory, require_cluster  # noqa: PLC0415 - only Kafka needs it
    from penstock.kafka.client import KafkaClient  # noqa: PLC0415 - as above

    if profile is not None:
        raise typer.BadParameter("--profile is for --embedded; 'penstock load' sends a load to Kafka")
    names = topics or list(app.topics)
    if len(names) != len(app.topics):
        raise typer.BadParameter(f"{app.name} reads {len(app.topics)} topics: give --topic as many times")
    client = KafkaClient(bootstrap or require_cluster(default_directory()).bootstrap)
    client.end_offsets(names)  # a topic that is not there is told now, not by a query that dies
    return client, [KafkaStream(client.bootstrap, name, app.content) for name in names]


def _begun(streams: list[Stream]) -> list[Stream]:
    """Let embedded rows begin to arrive now that Spark is up."""
    from dataclasses import replace  # noqa: PLC0415 - only here

    from penstock.apps.streams import EmbeddedStream  # noqa: PLC0415 - imports Spark

    now_s = time.time()
    return [replace(stream, epoch_s=now_s) if isinstance(stream, EmbeddedStream) else stream for stream in streams]


def _texts(figures: QueryFigures) -> list[str]:
    values = {**figures.to_dict(), "kept_fraction": f"{figures.kept_fraction:.1%}"}
    return [_text(values[key]) for key in _HEADS]


def _text(value: object) -> str:
    if value is None:
        return "-"
    return short_number(float(value)) if isinstance(value, int | float) else str(value)


def _show(tick: RunTick) -> None:
    states = [
        f"{name} {tick.rows[name]:,} rows" + ("" if (lag := tick.lag_rows[name]) is None else f", lag {lag:,}")
        for name in tick.rows
    ]
    typer.echo(f"{tick.elapsed_s:.0f} of {tick.seconds:.0f} s: {'; '.join(states)}", err=True)
