"""``penstock version``."""

import platform
from importlib import metadata

import typer

from penstock import __version__
from penstock.cli.machine import java_version
from penstock.console import AsJson, print_json


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


def spark_version() -> str | None:
    """Version of the installed PySpark, without importing it, which takes a second."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return None
