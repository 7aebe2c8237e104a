"""How reports write names, numbers, times and tables. Every text that was recorded goes through :func:`clean`."""

from __future__ import annotations

import html
import unicodedata
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.model import APPLICATION, QueryName

if TYPE_CHECKING:
    from collections.abc import Sequence

APPLICATION_NAME = "(application)"
"""How records of the whole application are shown, and asked for."""

# From here on decimals say nothing to a person.
_NO_DECIMALS_FROM = 100
_COMPACT_FROM = 10_000
_DAY_S = 86_400.0
_GAP = "  "


def clean(text: str) -> str:
    r"""Replace what a terminal would obey instead of showing it: escape sequences, control and direction characters.

    Examples
    --------
    >>> clean("clicks\x1b[2J\u202e"), clean("in\ntwo lines")
    ('clicks\\x1b[2J\\u202e', 'in two lines')
    """
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\n\r\t" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode()


def shown_name(query: str) -> str:
    """The name of a query, safe to show; records of no query are the application's.

    Examples
    --------
    >>> shown_name("clicks"), shown_name("")
    ('clicks', '(application)')
    """
    return APPLICATION_NAME if query == APPLICATION else clean(query)


def asked_name(text: str) -> QueryName:
    """The query that a person asks for: the opposite of :func:`shown_name`."""
    return APPLICATION if text == APPLICATION_NAME else QueryName(text)


def local_time(time_s: float) -> str:
    """Seconds since the epoch as local ISO time with its offset, whole seconds."""
    return datetime.fromtimestamp(time_s).astimezone().isoformat(timespec="seconds")


def clock_time(time_s: float, *, now_s: float) -> str:
    """The local time of day of a moment within a day of now, else with its date."""
    moment = datetime.fromtimestamp(time_s).astimezone()
    return moment.strftime("%H:%M:%S" if abs(now_s - time_s) < _DAY_S else "%Y-%m-%d %H:%M:%S")


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


def compact_number(value: float) -> str:
    """Give a number of at most six characters or so.

    Examples
    --------
    >>> [compact_number(value) for value in (9999.0, 12345.678, 2_500_000.0, 999_950_000.0, 7.25, 2e40)]
    ['9,999', '12.3k', '2.5M', '1G', '7.25', '2e+40']
    """
    if abs(value) < _COMPACT_FROM:
        return short_number(value)
    for scale, unit in ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")):
        if abs(value) < 999.5 * scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.1g}"


def percent(ratio: float) -> str:
    """Give a ratio in percent.

    Examples
    --------
    >>> percent(0.0625), percent(1.0)
    ('6.25 %', '100 %')
    """
    return f"{100 * ratio:.3g} %"


def width_columns(text: str) -> int:
    """Columns of a terminal that a text takes: Chinese characters take two, accents none."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def cut(text: str, columns: int) -> str:
    """A text that takes no more columns than that.

    Examples
    --------
    >>> cut("clicks", 6), cut("clicks", 5)
    ('clicks', 'clic…')
    """
    if width_columns(text) <= columns:
        return text
    while text and width_columns(text) > columns - 1:
        text = text[:-1]
    return f"{text}…"


def text_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int, shrink: int, shrink_to: int = 12
) -> str:
    """An aligned table of at most so many columns; the cell number ``shrink`` of each row gives way first.

    Texts are shown without what a terminal would obey.

    Examples
    --------
    >>> print(text_table(["query", "state"], [["clicks", "fine"], ["a-long-name", "shedding"]], columns=20, shrink=0))
    query        state
    clicks       fine
    a-long-name  sheddi…
    """
    lines = [[clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(width_columns(line[place]) for line in lines) for place in range(len(head))]
    spare = columns - sum(widths) - len(_GAP) * (len(head) - 1)
    if spare < 0:
        widths[shrink] = max(widths[shrink] + spare, min(shrink_to, widths[shrink]))
    written = []
    for line in lines:
        cells = [cut(cell, width) for cell, width in zip(line, widths, strict=True)]
        padded = [cell + " " * (width - width_columns(cell)) for cell, width in zip(cells, widths, strict=True)]
        written.append(cut(_GAP.join(padded).rstrip(), columns))
    return "\n".join(written)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> str:
    """The same as a simple table of a notebook; all texts are escaped."""
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{title}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
