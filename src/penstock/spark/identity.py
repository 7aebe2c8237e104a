"""What tells a row from all others, also when it is read again.

A column that merely is called ``offset`` is not it: a user's own, with 24 values, would keep or drop a 24th of all rows
at once. Identity is what the source itself numbers its rows by, found by looking at the plan, or what the user names.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql import types as T  # noqa: N812 - as everybody calls it

from penstock.errors import InvalidGuardError
from penstock.spark import internals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

logger = logging.getLogger("penstock")

UNHASHABLE = (T.MapType, T.VariantType)
NO_IDENTITY = (
    "rows have no identity, so they are drawn by chance and a batch that runs again keeps other rows: name the columns "
    "that tell each row from all others (identity=), or a key"
)
_OF_SOURCE = {"kafka": ("topic", "partition", "offset"), "penstock.load": ("offset",)}


def row_identity(rows: DataFrame, named: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """Columns that tell each row from all others: those that are named, else the source's own; none where unknown.

    Raises
    ------
    InvalidGuardError
        A named column that is not there, or cannot be hashed.
    """
    if named is not None:
        return _checked(rows, (named,) if isinstance(named, str) else tuple(named))
    if not rows.isStreaming:
        return ()
    try:
        source = internals.source_rows(rows)
    except Exception:
        logger.exception("the plan cannot be read, so rows are taken to have no identity")
        return ()
    own = () if source is None else _OF_SOURCE.get(source.format_name.lower(), ())
    if source is None or not own or any(name not in source.columns for name in own):
        return ()
    return tuple(source.columns[name] for name in own)


def _checked(rows: DataFrame, named: tuple[str, ...]) -> tuple[str, ...]:
    columns = ", ".join(rows.columns)
    if not named:
        raise InvalidGuardError(f"identity=() names no column: leave it out, or name some of: {columns}")
    for name in named:
        if name not in rows.columns:
            raise InvalidGuardError(f"identity column {name!r} is not there; name some of: {columns}")
        kind = rows.schema[name].dataType
        if isinstance(kind, UNHASHABLE):
            raise InvalidGuardError(
                f"identity column {name!r} is of type {kind.simpleString()}, which cannot be hashed: use simple columns"
            )
    return named
