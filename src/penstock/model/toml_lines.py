"""Lines of tables and keys in TOML text, which the parser of the standard library does not tell."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KeyPath = tuple[str, ...]

_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_KEY_PART = re.compile(r"""[ \t]*("(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'  # the closing quotes may follow up to two that belong to the text
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE = re.compile(r"[^,\]}#\n]*")


def toml_lines(text: str) -> Mapping[KeyPath, int]:
    """The line on which every table and key first stands, by its path; the text must be valid TOML.

    Examples
    --------
    >>> text = '''
    ... [queries.clicks]  # fast
    ... latency = "5 seconds"
    ... reads = [
    ...     "topic:clicks",
    ... ]
    ... executors = { maximum = 8 }
    ... '''
    >>> for path, line in toml_lines(text).items():
    ...     print(line, ".".join(path))
    2 queries
    2 queries.clicks
    3 queries.clicks.latency
    4 queries.clicks.reads
    7 queries.clicks.executors
    7 queries.clicks.executors.maximum
    """
    scan = _Scan(text)
    scan.document()
    return scan.lines


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Line of a key, or of the table around it where the key is not written.

    Examples
    --------
    >>> line_of({("executors",): 7}, ("executors", "maximum")), line_of({}, ("executors",))
    (7, 1)
    """
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


class _Scan:
    """One pass over the text; every method takes what begins at the present position."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._position = 0
        self._line = 1
        self._counted = 0

    def document(self) -> None:
        table: KeyPath = ()
        self._take(_BLANK)
        while self._position < len(self._text):
            if self._text[self._position] == "[":
                brackets = 2 if self._text.startswith("[[", self._position) else 1
                self._position += brackets
                table = self._key(())
                self._position += brackets
            else:
                self._pair(table)
            self._take(_BLANK)

    def _pair(self, table: KeyPath) -> None:
        path = self._key(table)
        self._position += 1  # the sign between key and value
        self._take(_BLANK)
        self._value(path)

    def _key(self, table: KeyPath) -> KeyPath:
        path, line = table, self._current_line()
        while True:
            part = self._take(_KEY_PART).strip()
            quoted = part[:1] in {'"', "'"}
            path = (*path, tomllib.loads(f"key = {part}")["key"] if quoted else part)
            self.lines.setdefault(path, line)
            if self._text[self._position : self._position + 1] != ".":
                return path
            self._position += 1

    def _value(self, path: KeyPath) -> None:
        first = self._text[self._position : self._position + 1]
        if first in {"[", "{"}:
            self._position += 1
            self._take(_BLANK)
            while self._position < len(self._text) and self._text[self._position] not in "]}":
                if first == "{":
                    self._pair(path)
                else:
                    self._value(path)
                self._take(_BLANK)
                if self._text[self._position : self._position + 1] == ",":
                    self._position += 1
                    self._take(_BLANK)
            self._position += 1
        elif first in {'"', "'"}:
            self._take(_TEXT)
        else:
            self._take(_BARE)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        if match is None:
            self._position += 1  # not in valid TOML; a scan that stood still would never end
            return ""
        self._position = match.end()
        return match.group()

    def _current_line(self) -> int:
        self._line += self._text.count("\n", self._counted, self._position)
        self._counted = self._position
        return self._line
