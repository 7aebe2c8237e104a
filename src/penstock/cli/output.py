"""How commands write: one JSON object, or tables and sentences for people."""

from __future__ import annotations

import json
import math
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# In a pipe every row of a table stays on one line, however long, so that grep and less see whole rows.
_PIPE_WIDTH_COLUMNS = 10_000
# From here on decimals say nothing to a person.
_NO_DECIMALS_FROM = 100


def print_json(document: Mapping[str, object]) -> None:
    """Write one JSON object over several lines."""
    typer.echo(json.dumps(_plain(document), indent=2, allow_nan=False))


def print_json_line(document: Mapping[str, object]) -> None:
    """Write one JSON object on one line, at once: a reader that follows must not wait for a full buffer."""
    typer.echo(json.dumps(_plain(document), allow_nan=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table; texts are shown as they are, without markup."""
    # Commands that answer in JSON need no rich, and start faster without it.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.table import Table  # noqa: PLC0415 - see above

    table = Table(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else _PIPE_WIDTH_COLUMNS
    Console(markup=False, highlight=False, emoji=False, width=width).print(table)


def local_time(time_s: float) -> str:
    """Seconds since the epoch as local ISO time with its offset, whole seconds."""
    return datetime.fromtimestamp(time_s).astimezone().isoformat(timespec="seconds")


def short_number(value: float) -> str:
    """Give a number as short as a person needs it.

    Examples
    --------
    >>> [short_number(value) for value in (2500.0, 12345.678, 2.468, 0.000123, 0.0)]
    ['2,500', '12,346', '2.47', '0.000123', '0']
    """
    if abs(value) >= _NO_DECIMALS_FROM or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _plain(value: object) -> object:
    """Replace what JSON has no word for: NaN and infinity become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
