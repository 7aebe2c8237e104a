"""``penstock version``."""

import platform

import typer

from penstock import __version__
from penstock.cli.machine import java_version
from penstock.console import AsJson, print_json
from penstock.extras import spark_version


def command(*, as_json: AsJson = False) -> None:
    """Show the versions of Penstock and of what it stands on, as a bug report needs them.

    For example:
      penstock version
      penstock version --json
    """
    versions = {
        "penstock": __version__,
        "spark": spark_version(),
        "python": platform.python_version(),
        "java": java_version(),
    }
    if as_json:
        print_json(versions)
        return
    for name, number in versions.items():
        typer.echo(f"{name:<10}{number or 'not found'}")
