"""``penstock status``."""

import typer

from penstock.cli.options import SettingsPath, StorePath, open_store
from penstock.console import AsJson, print_json


def command(*, as_json: AsJson = False, store: StorePath = None, settings: SettingsPath = None) -> None:
    """Show how every query is doing: its state, latency and goal, what it keeps, its backlog, its limit.

    For example:
      penstock status
      penstock status --json --store /var/lib/penstock/actions.db
    """
    from penstock.report import application_status  # noqa: PLC0415 - help must not wait for it

    with open_store(store, settings) as opened:
        status = application_status(opened)
    if as_json:
        print_json(status.to_dict())
    else:
        typer.echo(str(status))
