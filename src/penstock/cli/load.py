"""``penstock load``: send records along a load profile, to Kafka or into files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.console import AsJson, print_json
from penstock.errors import BrokerError

if TYPE_CHECKING:
    from penstock.kafka.load import LoadTick
    from penstock.kafka.load_records import Content
    from penstock.kafka.load_sinks import FileTarget, KafkaTarget

_CONTENTS = ("clicks", "plain")
_ACKS = ("1", "all")


def command(
    profile: Annotated[str, typer.Option(help="Load profile: 'shape:key=value,...' or 'file:PATH'.")],
    topic: Annotated[str | None, typer.Option(help="Kafka topic to send to; made if it is not there.")] = None,
    files: Annotated[Path | None, typer.Option(metavar="DIR", help="Write JSON files into this directory.")] = None,
    content: Annotated[str, typer.Option(help="What the records hold: clicks or plain.")] = "clicks",
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Stop after so long; default: the profile.")] = None,
    keys: Annotated[int, typer.Option(min=1, help="Different keys of plain records.")] = 1000,
    zipf: Annotated[float, typer.Option(min=0, max=10, help="Skew of plain keys; 0 is uniform.")] = 0.0,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keys of plain records from a table key,count.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the records.")] = 1,
    processes: Annotated[int | None, typer.Option(min=1, max=64, help="Processes; as many as there are cores.")] = None,
    acks: Annotated[str, typer.Option(help="1: the leader has it; all: every copy has it, nothing doubled.")] = "1",
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of a topic that is made.")] = 4,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Kafka; default: the cluster of 'penstock kafka up'.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the true rate of every second goes.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send records along a load profile, each when it is due, whatever became of those before it.

    The rate and the lateness of every second go to standard error. The truth is a table second,rate, which is a load
    profile again ('file:PATH').

    For example:
      penstock load --topic clicks --profile constant:rate=5000,seconds=60
      penstock load --topic clicks --profile file:day.csv,time=0.01,height=2 --truth artifacts/truth.csv
      penstock load --files artifacts/in --content plain --zipf 1.1 --profile ramp:from=0,to=2000,seconds=30
    """
    from penstock.kafka.load import run_load  # noqa: PLC0415 - help must not wait for numpy
    from penstock.spark.trace import load_profile  # noqa: PLC0415 - as above

    if content not in _CONTENTS:
        raise typer.BadParameter(f"--content {content} is not one of {', '.join(_CONTENTS)}")
    if acks not in _ACKS:
        raise typer.BadParameter(f"--acks {acks} is not one of {', '.join(_ACKS)}")
    wanted = load_profile(profile)
    target = _target(topic, files, bootstrap, acks, partitions, quiet=as_json)
    place = truth or Path("artifacts") / time.strftime("load-%Y%m%d-%H%M%S.csv")
    tally, began_s = run_load(
        wanted,
        _content(content, keys=keys, zipf=zipf, key_file=key_file, seed=seed),
        target,
        processes=processes or os.cpu_count() or 1,
        seconds=seconds,
        watch=_show,
    )
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n".join(tally.truth_lines()) + "\n", encoding="utf-8")
    took_s = max(0.001, tally.last_sent_s - began_s)
    figures = {
        "began_s": began_s,
        "rows": tally.rows,
        "lost_rows": tally.lost,
        "seconds": round(took_s, 3),
        "rows_per_s": round(tally.rows / took_s, 1),
        "late_p50_ms": tally.late_ms(0.5),
        "late_p99_ms": tally.late_ms(0.99),
        "late_max_ms": tally.late_ms(1.0),
        "truth": str(place),
    }
    if as_json:
        print_json(figures)
    else:
        typer.echo(
            f"{tally.rows:,} records in {took_s:.1f} s; late by {tally.late_ms(0.5):g} ms (median), "
            f"{tally.late_ms(0.99):g} ms (99 %), {tally.late_ms(1.0):g} ms (most)\ntruth: {place}"
        )
    if tally.lost:
        raise BrokerError(f"{tally.lost:,} of {tally.rows:,} records were not delivered: is the broker still there?")


def _target(
    topic: str | None, files: Path | None, bootstrap: str | None, acks: str, partitions: int, *, quiet: bool
) -> KafkaTarget | FileTarget:
    from penstock.kafka.load_sinks import FileTarget, KafkaTarget  # noqa: PLC0415 - help must not wait for it

    if (topic is None) == (files is None):
        raise typer.BadParameter("say where the records go: either --topic NAME or --files DIR")
    if topic is None:
        return FileTarget(str(files))
    from penstock.kafka.broker import default_directory, require_cluster  # noqa: PLC0415 - as above
    from penstock.kafka.client import KafkaClient  # noqa: PLC0415 - as above

    address = bootstrap or require_cluster(default_directory()).bootstrap
    client = KafkaClient(address)
    if topic not in client.partitions():
        client.create_topic(topic, partitions)
        if not quiet:
            typer.echo(f"topic {topic!r} was not there: it is made, with {partitions} partitions", err=True)
    return KafkaTarget(address, topic, acks)


def _content(kind: str, *, keys: int, zipf: float, key_file: Path | None, seed: int) -> Content:
    from penstock.model.key_table import parse_key_table  # noqa: PLC0415 - help must not wait for numpy
    from penstock.model.rows import ClicksContent, PlainContent  # noqa: PLC0415 - as above
    from penstock.spark.trace import read_trace_text  # noqa: PLC0415 - as above

    if kind == "clicks":
        return ClicksContent(seed=seed)
    if key_file is not None:
        return parse_key_table(read_trace_text(str(key_file)), seed=seed)
    return PlainContent(seed=seed, keys=keys, zipf=zipf)


def _show(tick: LoadTick) -> None:
    typer.echo(
        f"{tick.elapsed_s:.0f} s: {tick.rows_per_s:,.0f} records/s, late by at most {tick.late_max_ms:,.0f} ms",
        err=True,
    )
