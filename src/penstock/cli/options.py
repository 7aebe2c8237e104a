"""Options that several commands share, and the store that they lead to."""

import math
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.model.duration import parse_duration_s
from penstock.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.store import SqliteStore

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON object instead of text.")]
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
    """Seconds since the epoch of a moment as people write it.

    ``"10 minutes"`` is that long ago, ``"2026-01-05T10:00:00"`` is local time unless it has an offset, and a plain
    number is seconds since the epoch, as ``--json`` writes them.

    Examples
    --------
    >>> parse_moment_s("10 minutes", now_s=1000.0, option="--since")
    400.0
    >>> parse_moment_s("1970-01-01T00:01:00+00:00", now_s=1000.0, option="--since")
    60.0
    """
    readings: tuple[Callable[[str], float], ...] = (
        float,
        lambda written: datetime.fromisoformat(written).timestamp(),
        lambda written: now_s - parse_duration_s(written),
    )
    for reading in readings:
        with suppress(ValueError, OverflowError):
            moment_s = reading(text)
            if math.isfinite(moment_s):
                return moment_s
    allowed = "write a time such as '2026-01-05T10:00:00', or how long ago, such as '10 minutes'"
    raise typer.BadParameter(f"{text!r} is not a time: {allowed}", param_hint=f"'{option}'")
