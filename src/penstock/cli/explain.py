"""``penstock explain``."""

from typing import Annotated

import typer

from penstock.cli.options import SettingsPath, StorePath, open_store
from penstock.console import AsJson, print_json
from penstock.model import QueryName


def command(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Name of the query, as in 'penstock status'.")],
    *,
    as_json: AsJson = False,
    store: StorePath = None,
    settings: SettingsPath = None,
) -> None:
    """Say why a query is where it is now: its state, its goal, what is in force and why, what came of it.

    With --json the newest values of every metric too.

    For example:
      penstock explain clicks
      penstock explain clicks --json --store /var/lib/penstock/actions.db
    """
    from penstock.report import explain  # noqa: PLC0415 - help must not wait for it

    with open_store(store, settings) as opened:
        explanation = explain(opened, QueryName(query))
    if as_json:
        print_json(explanation.to_dict())
    else:
        typer.echo(str(explanation))
