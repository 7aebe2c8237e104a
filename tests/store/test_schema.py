"""Rows that were changed behind Penstock's back are told by their id."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.errors import StoreError
from penstock.model import Action, ActionKind, Metric, Mode, QueryName, SeriesPoint
from penstock.store import SqliteStore, open_reader
from penstock.store.schema import ActionRow, PointRow, point_from_row

if TYPE_CHECKING:
    from pathlib import Path

CLICKS = QueryName("clicks")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with three actions and a point, closed."""
    file = tmp_path / "penstock.db"
    with SqliteStore(file) as store:
        for step in range(3):
            store.append(Action(ActionKind.HOLD, CLICKS, f"batch {step}", "fits"), time_s=float(step), mode=Mode.ACT)
        store.append_points([SeriesPoint(1.0, CLICKS, Metric.LAG_ROWS, 1.0)])
    return file


def _change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("kind = 'dance'", "'dance' is not a valid ActionKind"),
        ("mode = 'dream'", "'dream' is not a valid Mode"),
        ("expected = '{'", "Expecting property name"),
        ("expected = '[1]'", "has no attribute 'items'"),
        ("expected = '{\"rows\": null}'", "NoneType"),
        ("details = '{'", "Expecting property name"),
        ("details = '[1]'", "has no attribute 'items'"),
        ("value = 'many'", "must be real number"),
        ("value = 9e999", "finite numbers only"),
        ("time_s = 'noon'", "could not convert string to float"),
    ],
)
def test_an_action_that_cannot_be_understood_names_its_row(path: Path, change: str, told: str) -> None:
    """The error says which row and what about it; the rows around it can still be read."""
    _change(path, f"UPDATE actions SET {change} WHERE action_id = 2")  # noqa: S608 - the test's own text

    with open_reader(path) as store:
        with pytest.raises(StoreError, match="action 2 in the log cannot be understood") as caught:
            store.actions()
        assert told in str(caught.value)
        assert [record.action_id for record in store.actions(after_id=2)] == [3]


def test_a_point_that_cannot_be_understood_names_its_row(path: Path) -> None:
    """A value that is no number is an error, not a string in a series."""
    _change(path, "UPDATE series SET value = 'many' WHERE point_id = 1")

    with open_reader(path) as store, pytest.raises(StoreError, match="observation 1 in the store"):
        store.points(CLICKS, Metric.LAG_ROWS)


def test_a_metric_of_another_version_names_its_row() -> None:
    """A metric that this version does not know is told by row id and name."""
    with pytest.raises(StoreError, match=r"observation 7 .*'joy' is not a valid Metric"):
        point_from_row(7, PointRow(1.0, "clicks", "joy", 1.0, None, ""))


@pytest.mark.parametrize(
    ("table", "row", "key"), [("actions", ActionRow, "action_id"), ("series", PointRow, "point_id")]
)
def test_the_typed_rows_are_the_columns_of_the_file(path: Path, table: str, row: type[ActionRow], key: str) -> None:
    """The stored shape in Python and the tables in the file name the same fields."""
    with closing(sqlite3.connect(path)) as connection:
        columns = {column[1] for column in connection.execute(f"PRAGMA table_info({table})")}

    assert columns == {key, *row._fields}
