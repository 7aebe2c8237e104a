"""What ``penstock cluster`` and ``penstock kafka`` share: their directory, and the words at their end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.console import print_json

Directory = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Directory of the cluster; default: its own in the state home."),
]
Delete = Annotated[
    bool, typer.Option("--delete", help="Delete what the cluster has made as well: data, logs, settings.")
]


def show_end(
    what: str, place: Path, stopped: Sequence[tuple[str | int, bool]], left: list[str] | None, *, as_json: bool
) -> None:
    """Say what was stopped, each with whether it took force, and what is left in the directory; None: all of it."""
    if as_json:
        rows = [{what: name, "is_killed": is_killed} for name, is_killed in stopped]
        print_json({"directory": str(place), "is_deleted": left is not None, "left": left or [], "rows": rows})
        return
    forced = sum(is_killed for _, is_killed in stopped)
    text = f"{len(stopped)} {what}{'s' if len(stopped) != 1 else ''} stopped"
    text += f", {forced} of them only by force" if forced else ""
    if left is not None:
        text += f", what it made is deleted; {place} holds other files and stays" if left else ", everything deleted"
    typer.echo(text)
