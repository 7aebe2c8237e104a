"""``penstock status``."""

from pathlib import Path

import typer

from penstock.cli.fleet_options import FleetDirectory, fleet_directory
from penstock.cli.options import SettingsPath, StorePath, open_store
from penstock.console import AsJson, print_json


def command(
    *,
    as_json: AsJson = False,
    store: StorePath = None,
    settings: SettingsPath = None,
    directory: FleetDirectory = None,
) -> None:
    """Show how every query is doing: its state, latency and goal, what it keeps, its backlog, its limit.

    Of a fleet that is up ('penstock up') it shows the engines, and where every query runs, unless a store is named.

    For example:
      penstock status
      penstock status --json --store /var/lib/penstock/actions.db
    """
    if store is None and settings is None and _show_fleet(fleet_directory(directory), directory is not None, as_json):
        return
    from penstock.report import application_status  # noqa: PLC0415 - help must not wait for it

    with open_store(store, settings) as opened:
        status = application_status(opened)
    if as_json:
        print_json(status.to_dict())
    else:
        typer.echo(str(status))


def _show_fleet(place: Path, is_named: bool, as_json: bool) -> bool:  # noqa: FBT001 - the command's own flags
    """Show the fleet of a directory; says whether there is one. Where it was named, there must be."""
    if not is_named and not (place / "control.json").exists():
        return False
    from penstock.fleet.commands import control_process, fleet_status_of  # noqa: PLC0415 - help must not wait for it

    if not is_named and control_process(place) is None:
        return False
    status = fleet_status_of(place)
    if as_json:
        print_json(status.to_dict())
    else:
        typer.echo(str(status))
    return True
