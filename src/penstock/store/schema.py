"""The stored shape of an action and of an observation, and the way there and back.

Every store keeps these rows and nothing else, so that all of them refuse the same things and give back the same things.
Enum values are stored as text, ``expected`` and ``details`` as JSON, so that a person can read the file with any SQLite
tool.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import StoreError, UnstorableError
from penstock.model import Action, ActionKind, Metric, Mode, QueryName, RecordedAction, SeriesPoint

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE_TARGET = "source "
"""How the target of an action on one source begins."""

_LARGEST_WHOLE_NUMBER = 2**63 - 1


class ActionRow(NamedTuple):
    """One row of the table ``actions`` without its id; the field names are the column names."""

    time_s: float
    mode: str
    kind: str
    query: str
    cause: str
    reason: str
    target: str
    value: float | None
    previous: float | None
    unit: str
    expected: str
    details: str


class PointRow(NamedTuple):
    """One row of the table ``series`` without its id; the field names are the column names."""

    time_s: float
    query: str
    metric: str
    value: float
    batch_id: int | None
    subject: str


def action_to_row(action: Action, *, time_s: float, mode: Mode) -> ActionRow:
    """Give an action the shape in which it is stored.

    Examples
    --------
    >>> action = Action(ActionKind.HOLD, QueryName("clicks"), "batch 12", "within goal", expected={"duration_s": 2.5})
    >>> action_to_row(action, time_s=60.0, mode=Mode.ACT)[:4]
    (60.0, 'act', 'hold', 'clicks')
    >>> action_to_row(action, time_s=60.0, mode=Mode.ACT).expected
    '{"duration_s": 2.5}'
    """
    what = f"{action.kind} of {action.query!r}"
    expected = {_text(name, what): float(number) for name, number in action.expected.items()}
    return ActionRow(
        time_s=_finite(time_s, f"the time of {what}"),
        mode=Mode(mode).value,
        kind=ActionKind(action.kind).value,
        query=_text(action.query, what),
        cause=_text(action.cause, what),
        reason=_text(action.reason, what),
        target=_text(action.target, what),
        value=None if action.value is None else float(action.value),
        previous=None if action.previous is None else float(action.previous),
        unit=_text(action.unit, what),
        expected=json.dumps(expected, ensure_ascii=False, allow_nan=False),
        details=json.dumps(_plain(action.details, what), ensure_ascii=False, allow_nan=False),
    )


def action_from_row(action_id: int, columns: Sequence[Any]) -> RecordedAction:
    """Read a stored action; a row that cannot be understood is an error that names its id."""
    try:
        row = ActionRow(*columns)
        action = Action(
            kind=ActionKind(row.kind),
            query=QueryName(row.query),
            cause=row.cause,
            reason=row.reason,
            target=row.target,
            value=row.value,
            previous=row.previous,
            unit=row.unit,
            expected={name: float(number) for name, number in json.loads(row.expected).items()},
            details=dict(json.loads(row.details).items()),
        )
        return RecordedAction(action_id=action_id, time_s=float(row.time_s), mode=Mode(row.mode), action=action)
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(
            f"action {action_id} in the log cannot be understood ({error}): it was written by another version of "
            "Penstock or changed by hand; read the log with the version that wrote it"
        ) from error


def point_to_row(point: SeriesPoint) -> PointRow:
    """Give an observation the shape in which it is stored.

    Examples
    --------
    >>> point_to_row(SeriesPoint(60.0, QueryName("clicks"), Metric.LAG_ROWS, 1500, batch_id=12))
    PointRow(time_s=60.0, query='clicks', metric='lag_rows', value=1500.0, batch_id=12, subject='')
    """
    what = f"{point.metric} of {point.query!r}"
    return PointRow(
        time_s=_finite(point.time_s, f"the time of {what}"),
        query=_text(point.query, what),
        metric=Metric(point.metric).value,
        value=_finite(point.value, what),
        batch_id=None if point.batch_id is None else _whole(point.batch_id, f"the batch id of {what}"),
        subject=_text(point.subject, what),
    )


def point_from_row(point_id: int, columns: Sequence[Any]) -> SeriesPoint:
    """Read a stored observation; a row that cannot be understood is an error that names its id."""
    try:
        row = PointRow(*columns)
        return SeriesPoint(
            time_s=float(row.time_s),
            query=QueryName(row.query),
            metric=Metric(row.metric),
            value=float(row.value),
            batch_id=row.batch_id,
            subject=row.subject,
        )
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"observation {point_id} in the store cannot be understood ({error}): it was written by another version "
            "of Penstock or changed by hand; read the store with the version that wrote it"
        ) from error


def checked_last(last: int | None) -> int | None:
    """Give ``last`` back, or refuse it: SQLite takes a limit below zero for no limit, a list takes it for "all but"."""
    if last is not None and last < 0:
        raise StoreError(f"last = {last} is not a number of rows: use 0 or more, or None for all")
    return last


def lasting_part(target: str) -> str:
    """The part of a query that an action on that target holds for until the next one: a source, else the whole query.

    Examples
    --------
    >>> lasting_part("source 1"), lasting_part("batch 12")
    ('source 1', '')
    """
    return target if target.startswith(SOURCE_TARGET) else ""


def _finite(number: float, what: str) -> float:
    # SQLite stores a NaN as NULL, and it would come back as "no value".
    if not math.isfinite(number):
        raise UnstorableError(f"{what} is {number!r}: only finite numbers are stored; leave out what is unknown")
    return float(number)


def _plain(value: object, what: str) -> object:
    """Refuse what JSON would not give back as it was: other types, other keys than text, NaN."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, what)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(value, f"a detail of {what}")
    if isinstance(value, list | tuple):
        return [_plain(item, what) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {_text(key, what): _plain(item, what) for key, item in value.items()}
    raise UnstorableError(
        f"a detail of {what} is {value!r}: only numbers, texts, lists and mappings of them are stored"
    )


def _whole(number: int, what: str) -> int:
    if not -_LARGEST_WHOLE_NUMBER <= number <= _LARGEST_WHOLE_NUMBER:
        raise UnstorableError(f"{what} is {number!r}: a stored whole number has at most 63 bits")
    return int(number)


def _text(text: str, what: str) -> str:
    # File names that are not UTF-8 reach Python as lone surrogates; SQLite's text is UTF-8 and cannot hold them.
    try:
        str(text).encode()
    except UnicodeEncodeError as error:
        raise UnstorableError(
            f"{what} contains {text!r}, which is not valid Unicode: replace the bad characters"
        ) from error
    return str(text)
