"""What is logged is shown by a terminal, and not obeyed."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

import pytest

from penstock.log_lines import log_plain_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

EVIL = "a\x1b[2J\x9b1m\u202eb\r\nc"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a handler of the application's own writes."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    yield text
    logging.getLogger().removeHandler(handler)


def refuse(row: str) -> None:
    """Fail as Spark does, with a row in its words."""
    raise ValueError(row)


@pytest.mark.parametrize("name", ["penstock", "penstock.kafka"])
def test_names_and_errors_in_a_line_are_shown(written: io.StringIO, name: str) -> None:
    """A name cannot begin a line of its own, and figures are written as they were meant to be."""
    log_plain_lines()
    log_plain_lines()
    logging.getLogger(name).warning("query %s has %.1f rows: %s", EVIL, 2.25, ValueError(EVIL))
    logging.getLogger(name).warning("query %(name)s", {"name": EVIL})
    shown = "a\\x1b[2J\\x9b1m\\u202eb  c"
    assert written.getvalue() == f"query {shown} has 2.2 rows: {shown}\nquery {shown}\n"


def test_the_trace_of_an_error_is_shown_line_by_line(written: io.StringIO) -> None:
    """Its lines stay lines; what the error says of a row is not obeyed."""
    log_plain_lines()
    try:
        refuse(EVIL)
    except ValueError:
        logging.getLogger("penstock").exception("query %s", "clicks")
    lines = written.getvalue().splitlines()
    assert lines[:2] == ["query clicks", "Traceback (most recent call last):"]
    assert "ValueError: a\\x1b[2J\\x9b1m\\u202eb" in lines[-2]
    assert [each for each in written.getvalue() if not each.isprintable() and each != "\n"] == []
