"""What all commands share: the option for JSON, and how they write: one JSON object, or tables for people."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.report.text import clean, local_time, short_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON object instead of text.")]
__all__ = [
    "AsJson",
    "cell",
    "local_time",
    "print_json",
    "print_json_line",
    "print_json_rows",
    "print_table",
    "short_number",
]

# In a pipe every row of a table stays on one line, however long, so that grep and less see whole rows.
_PIPE_WIDTH_COLUMNS = 10_000


def print_json(document: Mapping[str, object]) -> None:
    """Write one JSON object over several lines."""
    typer.echo(json.dumps(_plain(document), indent=2, allow_nan=False))


def print_json_line(document: Mapping[str, object]) -> None:
    """Write one JSON object on one line, at once: a reader that follows must not wait for a full buffer."""
    typer.echo(json.dumps(_plain(document), allow_nan=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table; texts are shown without markup, and without what a terminal would obey."""
    # Commands that answer in JSON need no rich, and start faster without it.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.table import Table  # noqa: PLC0415 - see above

    table = Table(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*(clean(cell) for cell in row))
    width = None if sys.stdout.isatty() else _PIPE_WIDTH_COLUMNS
    Console(markup=False, highlight=False, emoji=False, width=width).print(table)


def cell(value: object) -> str:
    """A figure of a benchmark as a table shows it.

    Examples
    --------
    >>> cell(0.12345), cell([1, 2]), cell(None), cell(7)
    ('0.123', '1, 2', '-', '7')
    """
    if isinstance(value, float):
        return f"{value:.3g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)


def print_json_rows(head: Mapping[str, object], rows: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object whose ``rows`` come one by one: however many there are, one is in memory at a time."""
    write = sys.stdout.write
    write("{")
    for name, value in head.items():
        write(f"\n  {json.dumps(name)}: {json.dumps(_plain(value), allow_nan=False)},")
    write('\n  "rows": [')
    separator = "\n    "
    for row in rows:
        write(separator + json.dumps(_plain(row), allow_nan=False))
        separator = ",\n    "
    write("\n  ]\n}\n")


def _plain(value: object) -> object:
    """Replace what JSON has no word for: NaN and infinity become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
