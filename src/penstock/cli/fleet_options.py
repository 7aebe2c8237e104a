"""What the commands of a fleet share: its directory."""

from pathlib import Path
from typing import Annotated

import typer

FleetDirectory = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Directory of the fleet; default: 'fleet' in the state home."),
]


def fleet_directory(given: Path | None) -> Path:
    """The directory that was named, or the one that everybody takes."""
    from penstock.process.daemon import state_directory  # noqa: PLC0415 - help must not wait

    return (given or state_directory("fleet")).absolute()
