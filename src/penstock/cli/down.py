"""``penstock down``."""

import typer

from penstock.cli.fleet_options import FleetDirectory, fleet_directory
from penstock.console import AsJson, print_json


def command(directory: FleetDirectory = None, as_json: AsJson = False) -> None:
    """Stop all queries of a fleet, end its engines and its control process; checkpoints stay.

    For example:
      penstock down
    """
    from penstock.fleet.commands import stop_fleet  # noqa: PLC0415 - help must not wait

    place = fleet_directory(directory)
    ended = stop_fleet(place)
    if as_json:
        rows = [{"engine": name, "is_killed": was_forced} for name, was_forced in ended]
        print_json({"directory": str(place), "rows": rows})
        return
    forced = sum(was_forced for _, was_forced in ended)
    typer.echo(f"{len(ended)} engines ended" + (f", {forced} of them only by force" if forced else ""))
