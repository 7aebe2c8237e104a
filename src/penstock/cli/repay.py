"""``penstock repay``."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import SettingsPath, StorePath, open_store
from penstock.console import AsJson, local_time, print_json, print_table
from penstock.errors import RepayError

if TYPE_CHECKING:
    from penstock.spark.repay import Repay

_MOMENT_HELP = "a local time, how long ago such as '10 minutes', or seconds since the epoch."


def command(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Name of the query, as in 'penstock status'.")],
    *,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Batches from then on: {_MOMENT_HELP}")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Batches before; written as for --since.")] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write the dropped rows there as Parquet, a folder for each batch."),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="Call this function with the rows of each batch and its number."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Checkpoint of the query; default: as the store knows it.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the source that is not on record, such as a password."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Repay what is there even where the source has lost rows.")
    ] = False,
    as_json: AsJson = False,
    store: StorePath = None,
    settings: SettingsPath = None,
) -> None:
    """Show what a query dropped while it shed and what its source still has of that; with --to or --run, repay it.

    Batches that are repaid are not repaid again. One that was begun and not ended is repaid under the same number.

    For example:
      penstock repay clicks --since '2 hours'
      penstock repay clicks --to /data/clicks-dropped
      penstock repay clicks --run my_job:add_batch --checkpoint /data/checkpoints/clicks
    """
    if to is not None and run is not None:
        raise typer.BadParameter("--to and --run are two ways to repay: choose one")
    options = dict(_pair(text) for text in option or ())
    function = None if run is None else _function(run)
    location = checkpoint or _checkpoint(query, store, settings)
    from penstock.apps.session import local_session  # noqa: PLC0415 - help must not wait for Spark

    with local_session(f"penstock repay {query}", jars=_jars(location)) as spark:
        from penstock.spark.repay import Repay  # noqa: PLC0415 - imports Spark, which reads its variables then

        repay = Repay(spark, location, since=since, until=until, options=options, partial=partial)
        done = 0
        if to is not None:
            done = repay.run(lambda frame, batch_id: frame.write.mode("overwrite").parquet(f"{to}/batch={batch_id}"))
        elif function is not None:
            done = repay.run(function)
        _show(query, repay, done, as_json=as_json)


def _show(query: str, repay: "Repay", done: int, *, as_json: bool) -> None:
    batches = repay.batches()
    if as_json:
        print_json({"query": query, "repaid_now": done, "rows": [each.to_dict() for each in batches]})
        return
    rows = []
    for each in batches:
        remains = each.remains
        there, gone = ("-", "-") if remains is None else (f"{remains.there:,} {remains.unit}", f"{remains.gone:,}")
        rows.append(
            [f"{each.batch_id}", local_time(each.planned_s), str(each.state), f"{each.keep_ratio:.3g}", there, gone]
        )
    print_table(["batch", "planned", "state", "told to keep", "still there", "gone"], rows)
    counted = {state: sum(each.state == state for each in batches) for state in {each.state for each in batches}}
    typer.echo("\n" + (", ".join(f"{count} {state}" for state, count in sorted(counted.items())) or "nothing was shed"))


def _checkpoint(query: str, store: Path | None, settings: Path | None) -> str:
    from penstock.spark.repay import checkpoint_of  # noqa: PLC0415 - imports Spark

    with open_store(store, settings) as opened:
        return checkpoint_of(opened, query)


def _jars(location: str) -> list[str]:
    """Jars of the Kafka connector, unless it is known that the source is another."""
    from penstock.kafka import jars  # noqa: PLC0415 - few need it
    from penstock.spark.folders import local_path, open_folder  # noqa: PLC0415 - imports Spark
    from penstock.spark.record import FOLDER, CheckpointRecord  # noqa: PLC0415 - as above

    if local_path(location) is not None:
        record = CheckpointRecord(open_folder(f"{location.rstrip('/')}/{FOLDER}"))
        guards = [record.guard(name) for name in {each.guard for each in record.batches()}]
        if not any(
            guard is not None and guard.source is not None and guard.source.format == "kafka" for guard in guards
        ):
            return []
    return list(jars())


def _function(text: str) -> Callable[[Any, int], Any]:
    module, _, name = text.partition(":")
    # A job's own modules are usually where it is started.
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Callable[[Any, int], Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise RepayError(f"--run {text!r} names no function ({error}): write it as module:function") from error
    return found


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="'--option'")
    return name, value
