"""Options that several commands share, and the store that they lead to."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.errors import InvalidMomentError
from penstock.report.moments import moment_s
from penstock.settings import load_settings

if TYPE_CHECKING:
    from penstock.store import SqliteStore

StorePath = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="File of the action log; default: the setting store.path."),
]
SettingsPath = Annotated[Path | None, typer.Option("--settings", metavar="FILE", help="TOML file with settings.")]


def open_store(store: Path | None, settings_file: Path | None) -> "SqliteStore":
    """Open the action log for reading: ``--store``, else environment variable, else settings file, else default."""
    from penstock.store import SqliteStore  # noqa: PLC0415 - help must not wait for a database module

    arguments = None if store is None else {"store.path": str(store)}
    settings = load_settings(settings_file, environment=os.environ, arguments=arguments)
    return SqliteStore(settings.store.path, read_only=True)


def parse_moment_s(text: str, *, now_s: float, option: str) -> float:
    """Seconds since the epoch of a moment as people write it (:func:`~penstock.report.moments.moment_s`).

    Examples
    --------
    >>> parse_moment_s("10 minutes", now_s=1000.0, option="--since")
    400.0
    """
    try:
        return moment_s(text, now_s=now_s)
    except InvalidMomentError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error
