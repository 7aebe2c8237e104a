"""``penstock up``."""

import logging
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.fleet_options import FleetDirectory, fleet_directory
from penstock.console import AsJson, print_json
from penstock.report.text import clean


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The declaration: engines and applications.")],
    directory: FleetDirectory = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay, and end the fleet with Control-C or SIGTERM.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the engines of a declaration, place its queries on them, and keep them there by their goals.

    Returns when all engines answer; the control process runs on. Engines that run already are taken over as they are.

    For example:
      penstock up fleet.toml
      penstock up fleet.toml --dir /var/lib/penstock/fleet --foreground
    """
    from penstock.fleet.commands import start_control  # noqa: PLC0415 - help must not wait
    from penstock.fleet_declaration import read_fleet  # noqa: PLC0415 - as above

    place = fleet_directory(directory)
    declaration = read_fleet(file, environment=os.environ)
    if foreground:
        from penstock.fleet.control import run_fleet  # noqa: PLC0415 - as above

        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        run_fleet(declaration, place, say=lambda text: typer.echo(clean(text), err=True))
        return
    began_s = time.monotonic()
    status = start_control(declaration, place)
    if as_json:
        print_json({"directory": str(place), "took_s": round(time.monotonic() - began_s, 1), **status.to_dict()})
    else:
        typer.echo(f"{status}\n\ndirectory: {place}")
