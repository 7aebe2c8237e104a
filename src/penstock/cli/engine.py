"""``penstock engine``: one engine, a long-lived process that takes in queries."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from penstock.report.text import clean

app = typer.Typer(help="Run an engine: a long-lived process that takes in queries.", rich_markup_mode=None)


@app.callback()
def engine() -> None:
    """Run an engine: a long-lived process with its own Spark application that takes in queries.

    'penstock up' starts engines by itself; this is for those on other machines.

    For example:
      penstock engine run fleet.toml left --dir /var/lib/penstock/left
    """


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The declaration of the fleet.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which of its engines to run.")],
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Directory of the engine: token, store, state. Default: its own."),
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds that queries run on without being asked for; 0 is for ever. Default: 0 where 'penstock up' "
            "starts the engine and can kill it, else agents.lease_s.",
        ),
    ] = None,
) -> None:
    """Run one engine of a declaration until it is told to end, and serve its agent.

    The agent takes nothing without the token in DIR/token. Modules of applications come from the paths that the
    declaration names, and from nowhere else.

    For example:
      penstock engine run fleet.toml left
      penstock engine run fleet.toml right --dir /var/lib/penstock/right --lease 20
    """
    import os  # noqa: PLC0415 - help must not wait

    from penstock.engine.run import run_engine  # noqa: PLC0415 - imports Spark
    from penstock.errors import FleetError  # noqa: PLC0415 - as above
    from penstock.fleet_declaration import read_fleet  # noqa: PLC0415 - as above
    from penstock.process.daemon import state_directory  # noqa: PLC0415 - as above
    from penstock.settings import suggestion  # noqa: PLC0415 - as above

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    fleet = read_fleet(file, environment=os.environ)
    declared = fleet.engines.get(name)
    if declared is None:
        raise FleetError(f"{file} declares no engine {name!r}: {suggestion(name, list(fleet.engines))}")
    own_lease_s = 0.0 if declared.is_ours else fleet.settings.agents.lease_s
    place = directory or state_directory("engines") / name
    run_engine(
        declared, fleet.settings, place, lease_s=own_lease_s if lease is None else lease,
        say=lambda text: typer.echo(clean(text), err=True),
    )  # fmt: skip
