"""Lines of the log hold names of queries and words of errors: none of it is obeyed by the terminal that shows them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.report.text import clean

_LOGGERS = ("penstock", "penstock.kafka")
_traces = logging.Formatter()


class PlainLines(logging.Filter):
    r"""Cleans texts and errors that a line is made of, and the trace below it; figures stay what they are.

    Examples
    --------
    >>> record = logging.LogRecord("penstock", logging.WARNING, "", 0, "%s: %d rows", ("clicks\x1b[2J", 3), None)
    >>> PlainLines().filter(record), record.getMessage()
    (True, 'clicks\\x1b[2J: 3 rows')
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean a line; none is held back."""
        if isinstance(record.args, Mapping):
            record.args = {name: _plain(value) for name, value in record.args.items()}
        elif record.args:
            record.args = tuple(_plain(value) for value in record.args)
        if record.exc_info and record.exc_text is None:
            trace = _traces.formatException(record.exc_info)
            plain = "\n".join(clean(line) for line in trace.split("\n"))
            # Formatters take a text that is there for their own.
            record.exc_text = None if plain == trace else plain
        return True


_plain_lines = PlainLines()


def log_plain_lines() -> None:
    """Clean what Penstock logs from now on; to ask for it twice changes nothing."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_plain_lines)


def _plain(value: object) -> object:
    return clean(str(value)) if isinstance(value, str | BaseException) else value
