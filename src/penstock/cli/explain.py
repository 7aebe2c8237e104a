"""``penstock explain``."""

from typing import Annotated

import typer

from penstock.cli.options import AsJson, SettingsPath, StorePath, open_store
from penstock.cli.output import local_time, print_json, print_table, short_number
from penstock.model import QueryName


def command(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Name of the query, as in 'penstock log'.")],
    *,
    as_json: AsJson = False,
    store: StorePath = None,
    settings: SettingsPath = None,
) -> None:
    """Say why a query is where it is now: its goal, its limits, what was decided last, what came of it.

    For example:
      penstock explain clicks
      penstock explain clicks --json --store /var/lib/penstock/actions.db
    """
    from penstock.cli.explanation import explain_query  # noqa: PLC0415 - help must not wait for it

    with open_store(store, settings) as opened:
        explanation = explain_query(opened, QueryName(query))
    if as_json:
        print_json(explanation.to_dict())
        return
    for sentence in explanation.sentences:
        typer.echo(sentence)
    typer.echo()
    print_table(
        ("metric", "part", "latest", "low", "mean", "high", "of", "at"),
        [
            (
                summary.metric.value, summary.subject,
                *(short_number(value) for value in (summary.latest, summary.low, summary.mean, summary.high)),
                str(summary.count), local_time(summary.time_s),
            )
            for summary in explanation.series
        ],
    )  # fmt: skip
