"""Load profiles from files: the one place where a profile touches the disk."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import InvalidProfileError
from penstock.model.profile_text import parse_profile

if TYPE_CHECKING:
    from penstock.model.profile import LoadProfile


def load_profile(text: str) -> LoadProfile:
    """Read a profile from its text form, ``file:PATH`` included.

    Examples
    --------
    >>> load_profile("constant:rate=5000,seconds=2").total_rows
    10000
    >>> load_profile("file:missing.csv")
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidProfileError: load profile 'file:missing.csv': file 'missing.csv' cannot be read \
(No such file or directory)
    """
    return parse_profile(text, read_text=read_trace_text)


def read_trace_text(path: str) -> str:
    """Give the text of a trace file; one whose name ends in ``.gz`` is unpacked."""
    try:
        data = Path(path).read_bytes()
        if path.endswith(".gz"):
            data = gzip.decompress(data)
        return data.decode("utf-8")
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InvalidProfileError(f"file {path!r} is not a gzip file, though its name says so ({error})") from error
    except OSError as error:
        raise InvalidProfileError(f"file {path!r} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InvalidProfileError(f"file {path!r} is not text in UTF-8 ({error.reason})") from error
