"""``penstock goal``."""

from typing import Annotated

import typer

from penstock.cli.fleet_options import FleetDirectory, fleet_directory
from penstock.console import AsJson, print_json
from penstock.model.goal import MAX_PRIORITY, MIN_PRIORITY
from penstock.report.text import clean


def command(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Name of a query of the fleet.")],
    priority: Annotated[
        int | None, typer.Option(min=MIN_PRIORITY, max=MAX_PRIORITY, help="Low ones give way first.")
    ] = None,
    minimum_accuracy: Annotated[
        float | None, typer.Option(min=0, max=1, help="Smallest share of rows that must be kept.")
    ] = None,
    latency: Annotated[
        str | None, typer.Option(help="How old a row may be when its result is out: '5 seconds'.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who asks, for the log; default: the user.")] = None,
    directory: FleetDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Ask something else of a running query of a fleet; on record with who asked. What is left out stays.

    It holds until the fleet is started again: what is to last stands in the declaration.

    For example:
      penstock goal clicks --priority 9
      penstock goal clicks --minimum-accuracy 0.5 --latency '10 seconds' --by on-call
    """
    import getpass  # noqa: PLC0415 - help must not wait
    from urllib.parse import quote  # noqa: PLC0415 - as above

    from penstock.fleet.commands import ask_control  # noqa: PLC0415 - as above

    changes = {"priority": priority, "minimum_accuracy": minimum_accuracy, "latency": latency}
    given = {key: value for key, value in changes.items() if value is not None}
    if not given:
        raise typer.BadParameter("nothing to change: give --priority, --minimum-accuracy or --latency")
    body = {**given, "asked_by": by or getpass.getuser()}
    answer = ask_control(fleet_directory(directory), "PUT", f"/v1/queries/{quote(query, safe='')}/goal", body)
    if as_json:
        print_json(answer)
        return
    latency_s = answer["latency_s"]
    told = (
        f"{query}: priority {answer['priority']}, minimum accuracy {answer['minimum_accuracy']:g}, latency "
        f"{'no goal' if latency_s is None else f'{latency_s:g} s'}; asked by {answer['asked_by']}"
    )
    typer.echo(clean(told))
