"""The log as a view: filters, text, rows."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InvalidMomentError
from penstock.model import APPLICATION, Action, ActionKind, Mode, QueryName
from penstock.report import LogView
from penstock.report.moments import moment_s
from penstock.report.text import width_columns
from penstock.store import MemoryStore

BEGAN_S = 1_700_000_000.0
CLICKS = QueryName("clicks")


@pytest.fixture
def store() -> MemoryStore:
    """Four actions, a second apart."""
    filled = MemoryStore()
    history = [
        Action(ActionKind.GOVERN, CLICKS, "start", "latency goal 5 s"),
        Action(ActionKind.EXECUTORS, APPLICATION, "start", "as declared", value=2.0, unit="executors"),
        Action(ActionKind.READ_LIMIT, CLICKS, "batch 1", "x" * 500, target="source 0", value=9.0, unit="rows"),
        Action(ActionKind.HOLD, CLICKS, "batch 2", "fits"),
    ]
    for second, action in enumerate(history):
        filled.append(action, time_s=BEGAN_S + second, mode=Mode.ACT)
    return filled


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [1, 2, 3, 4]),
        ({"query": "clicks"}, [1, 3, 4]),
        ({"query": "(application)"}, [2]),
        ({"kinds": "hold"}, [4]),
        ({"kinds": ["hold", ActionKind.GOVERN]}, [1, 4]),
        ({"since": BEGAN_S + 2}, [3, 4]),
        ({"since": "8 seconds"}, [3, 4]),
        ({"until": str(BEGAN_S + 1)}, [1, 2]),
        ({"last": 1}, [4]),
        ({"last": 0}, [1, 2, 3, 4]),
    ],
)
def test_filters_are_those_of_the_command(store: MemoryStore, filters: dict[str, Any], expected: list[int]) -> None:
    """Each filter keeps what it says, oldest first, and the view says whether it left older ones out."""
    view = LogView.read(store, now_s=BEGAN_S + 10, **filters)

    assert [row["action_id"] for row in view.rows()] == [entry.action_id for entry in view] == expected
    assert len(view) == len(expected)
    assert view.older_exist == (filters.get("last") == 1)
    assert ("older ones exist" in str(view)) == view.older_exist


def test_what_is_no_filter_is_told(store: MemoryStore) -> None:
    """A wrong moment and a wrong kind are errors that name what would be right."""
    with pytest.raises(InvalidMomentError, match="'yesterday' is not a time: write a time such as"):
        LogView.read(store, since="yesterday")
    with pytest.raises(ValueError, match="'dance' is not a valid ActionKind"):
        LogView.read(store, kinds=["dance"])
    with pytest.raises(InvalidMomentError):
        moment_s("inf", now_s=0.0)


def test_text_is_a_table_of_whole_lines(store: MemoryStore) -> None:
    """A line an action; a long reason is cut, and the application has its name."""
    lines = repr(LogView.read(store)).splitlines()

    assert lines[0].split() == ["time", "query", "kind", "change", "cause", "reason"]
    assert len(lines) == 5
    assert "(application)" in lines[2]
    assert "source 0: 9 rows" in lines[3]
    assert lines[3].endswith("…")
    assert max(map(width_columns, lines)) == 160
    assert str(LogView.read(store, query="nobody")) == "no actions that match"


def test_notebooks_get_an_escaped_table(store: MemoryStore) -> None:
    """A reason is text, never markup."""
    store.append(Action(ActionKind.HOLD, CLICKS, "batch 3", "1 < 2\x1b"), time_s=BEGAN_S, mode=Mode.ACT)
    markup = LogView.read(store)._repr_html_()
    assert "1 &lt; 2\\x1b" in markup
    assert markup.count("<tr>") == 6
