"""What is written as a declaration is what is read, whatever the names, the values and the form of TOML."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.declaration import read_declaration
from penstock.model.application import Application, ExecutorsDeclaration, QueryDeclaration
from penstock.model.executors import ExecutorBounds
from penstock.model.goal import Goal
from penstock.model.query import QueryName
from penstock.model.scaling import ONLINE_POLICIES

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
LATENCIES = st.none() | st.floats(0.001, 1e6) | st.integers(1, 10**6) | st.sampled_from(["5 seconds", "500 ms", "2 h"])
FORMS = ("table", "dotted", "inline")

goals = st.builds(
    Goal,
    latency=LATENCIES,
    minimum_accuracy=st.floats(0, 1),
    priority=st.integers(1, 100),
    weight=st.floats(1e-6, 1e6),
)


@st.composite
def executors(draw: st.DrawFn) -> ExecutorsDeclaration:
    low = draw(st.integers(1, 50))
    high = draw(st.integers(low, 100))
    first = draw(st.none() | st.integers(low, high))
    bounds = ExecutorBounds(low, high, first, draw(st.integers(0, high - 1)))
    budget = draw(st.none() | st.floats(24 * low, 1e6))
    return ExecutorsDeclaration(bounds, draw(st.sampled_from(ONLINE_POLICIES)), budget)


@st.composite
def applications(draw: st.DrawFn) -> Application:
    """Queries in a row; each reads streams up to its own number and writes later ones, so that none leads back."""
    names = draw(st.lists(NAMES, max_size=5, unique=True))
    streams = draw(st.lists(NAMES, min_size=len(names) + 1, max_size=len(names) + 1, unique=True))
    queries = {}
    for index, name in enumerate(names):
        reads = draw(st.lists(st.sampled_from(streams[: index + 1]), unique=True))
        writes = draw(st.lists(st.sampled_from(streams[index + 1 :]), unique=True))
        queries[QueryName(name)] = QueryDeclaration(draw(goals), tuple(reads), tuple(writes))
    return Application(queries, draw(st.none() | executors()))


def quoted(text: str) -> str:
    """A text of TOML, with everything escaped that has to be."""
    plain = [c if c >= " " and c not in '"\\\x7f' else f"\\u{ord(c):04x}" for c in text]
    return f'"{"".join(plain)}"'


def written(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        return f"[{', '.join(quoted(each) for each in value)}]"
    return repr(value)


def toml(application: Application, forms: dict[str, str]) -> str:
    """The application in TOML, each query in its form; dotted and inline ones stand before the first header."""
    before, after = [], []
    for name, query in application.queries.items():
        goal = query.goal
        values = {
            "latency": goal.latency, "minimum_accuracy": goal.minimum_accuracy, "priority": goal.priority,
            "weight": goal.weight, "reads": query.reads, "writes": query.writes,
        }  # fmt: skip
        pairs = [f"{key} = {written(value)}" for key, value in values.items() if value is not None]
        if forms[name] == "table":
            after += [f"[queries.{quoted(name)}]  # {len(pairs)} keys", *pairs, ""]
        elif forms[name] == "dotted":
            before += [f"queries.{quoted(name)}.{pair}" for pair in pairs]
        else:
            before.append(f"queries.{quoted(name)} = {{ {', '.join(pairs)} }}")
    if application.executors is not None:
        bounds = application.executors.bounds
        limits = {
            "minimum": bounds.min_executors, "maximum": bounds.max_executors, "first": bounds.first_executors,
            "standby": bounds.standby, "policy": application.executors.policy,
            "budget_executor_hours_per_day": application.executors.budget_executor_hours_per_day,
        }  # fmt: skip
        after += ["[executors]", *(f"{key} = {written(value)}" for key, value in limits.items() if value is not None)]
    return "\n".join([*before, *after, "[store]", 'path = "a.db"', ""])


@settings(deadline=None)
@given(applications(), st.data())
def test_what_is_written_is_read(application: Application, data: st.DataObject) -> None:
    """Any application that can be made is read back equal, and every query is found on its line."""
    one_form = data.draw(st.sampled_from([*FORMS, "mixed"]))
    # TOML lets nobody open a table by header below one that dotted keys made, so mixed is dotted and inline.
    choice = st.sampled_from(FORMS[1:]) if one_form == "mixed" else st.just(one_form)
    forms = {str(name): data.draw(choice) for name in application.queries}
    text = toml(application, forms)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "penstock.toml"
        path.write_bytes(text.encode())
        declaration = read_declaration(path)
    assert declaration.application == application
    assert list(declaration.application.queries) == list(application.queries)
    lines = text.split("\n")
    for name in application.queries:
        for key in ((), ("priority",), ("writes",)):
            line = int(declaration.place("queries", name, *key).rpartition(" ")[2])
            start = quoted(name) if forms[name] != "table" or not key else key[0]
            assert start in lines[line - 1]
