"""A declaration is read whole or refused with file, line and remedy; its changes are told apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.declaration import (
    _EXECUTORS_KEYS,
    _QUERY_KEYS,
    Declaration,
    DeclarationWatch,
    GoalChange,
    difference,
    needs_restart,
    read_declaration,
    unstarted,
)
from penstock.errors import InvalidDeclarationError, InvalidSettingError, PenstockError
from penstock.model.application import Application, ExecutorsDeclaration, QueryDeclaration
from penstock.model.executors import ExecutorBounds
from penstock.model.goal import Goal
from penstock.model.query import QueryName
from penstock.settings import load_settings

GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "declaration.md"
POLICIES = "proactive, reactive, hpa, keda, dstreams, ds2, flink, spark, static"
WHOLE = """\
# One application.
[queries.clicks]
latency = "5 seconds"
minimum_accuracy = 0.3
priority = 5
weight = 2.0
reads = ["topic:clicks"]
writes = ["topic:parsed"]

[queries.count]
reads = [
    "topic:parsed",
]

[executors]
minimum = 1
maximum = 8
first = 1
standby = 1
policy = "proactive"
budget_executor_hours_per_day = 96

[store]
path = "clicks.db"

[scaling]
every_s = 2
"""


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is named as a user would name it, from the folder that it is in."""
    monkeypatch.chdir(tmp_path)


def declared(text: str) -> Declaration:
    Path("penstock.toml").write_text(text, encoding="utf-8")
    return read_declaration("penstock.toml")


def refusal(text: str) -> str:
    with pytest.raises(InvalidDeclarationError) as caught:
        declared(text)
    return str(caught.value)


# -- what is read ------------------------------------------------------------------------------------------------------


def test_the_whole_file() -> None:
    """Every key reaches the application or the settings, and every query knows its line."""
    declaration = declared(WHOLE)
    goal = Goal(latency="5 seconds", minimum_accuracy=0.3, priority=5, weight=2.0)
    assert declaration.application == Application(
        {
            QueryName("clicks"): QueryDeclaration(goal, reads=("topic:clicks",), writes=("topic:parsed",)),
            QueryName("count"): QueryDeclaration(reads=("topic:parsed",)),
        },
        ExecutorsDeclaration(ExecutorBounds(1, 8, 1, 1), "proactive", 96.0),
    )
    assert declaration.settings == load_settings(arguments={"store.path": "clicks.db", "scaling.every_s": 2})
    assert declaration.path == Path("penstock.toml")
    assert declaration.place("queries", "count") == "penstock.toml, line 10"
    assert load_settings("penstock.toml") == declaration.settings


def test_the_file_of_the_guide() -> None:
    """The file that the guide shows is read as it stands, and has every key of queries and executors."""
    _, block, *_ = GUIDE.read_text(encoding="utf-8").split("```toml\n")
    text = block.split("```")[0]
    application = declared(text).application
    assert application.has_graph
    assert application.executors is not None
    for key in (*_QUERY_KEYS, *_EXECUTORS_KEYS):
        assert f"\n{key} = " in text
        assert f"\n| `{key}` |" in GUIDE.read_text(encoding="utf-8")


def test_settings_alone_declare_no_query() -> None:
    """A file may hold settings only: goals may come from the program."""
    declaration = declared('[store]\npath = "a.db"\n')
    assert declaration.application == Application()
    assert declaration.settings.store.path == "a.db"


def test_an_empty_executors_section_means_the_defaults() -> None:
    """Whoever writes the header alone wants executors to be looked after."""
    assert declared("[executors]\n").application.executors == ExecutorsDeclaration()


def test_two_writers_of_one_stream_are_a_union() -> None:
    """Two queries may write what one reads."""
    text = '[queries.a]\nwrites = ["t"]\n[queries.b]\nwrites = ["t"]\n[queries.c]\nreads = ["t"]\n'
    assert declared(text).application.producers(QueryName("c")) == ("a", "b")


def test_variables_and_arguments_win_over_the_file() -> None:
    """The order is the same as for settings without a declaration; their mistakes are not the file's."""
    declared(WHOLE)
    environment = {"PENSTOCK_STORE_PATH": "variable.db", "PENSTOCK_SCALING_EVERY_S": "3"}
    declaration = read_declaration("penstock.toml", environment=environment, arguments={"store.path": "argument.db"})
    assert (declaration.settings.store.path, declaration.settings.scaling.every_s) == ("argument.db", 3.0)
    with pytest.raises(InvalidSettingError, match=r"'store\.pat'"):
        read_declaration("penstock.toml", arguments={"store.pat": "x"})


def test_a_file_of_another_system() -> None:
    """A mark at the beginning and line ends of two characters are no mistake, and lines are counted right."""
    Path("penstock.toml").write_bytes(b'\xef\xbb\xbf[queries.a]\r\nlatency = "5 s"\r\n\r\n[queries.b]\r\n')
    declaration = read_declaration("penstock.toml")
    assert declaration.place("queries", "b") == "penstock.toml, line 4"


# -- mistakes ----------------------------------------------------------------------------------------------------------

MISTAKES = {
    "unknown section": (
        '[queryes.clicks]\nlatency = "5 s"\n',
        "line 1: there is no section [queryes]: did you mean 'queries'?",
    ),
    "unknown section, nothing close": (
        "[executors]\n[zzz]\n",
        (
            "line 2: there is no section [zzz]: known: queries, executors, engines, applications, admission, shedding, "
            "store, observe, scaling, directives, repay, graph, fleet, agents, "
            "dashboard, sizing"
        ),
    ),
    "key outside a section": (
        'latency = "5 s"\n',
        "line 1: 'latency' stands outside any section: write it below one such as [queries.NAME]",
    ),
    "unknown key of a query": (
        '[queries.clicks]\n\nlatancy = "5 s"\n',
        "line 3: query 'clicks' has no key 'latancy': did you mean 'latency'?",
    ),
    "unknown key of executors": (
        "[executors]\nmaximun = 5\n",
        "line 2: section [executors] has no key 'maximun': did you mean 'maximum'?",
    ),
    "unknown key of a settings section": (
        '[store]\npat = "a.db"\n',
        "line 2: section [store] has no key 'pat': did you mean 'path'?",
    ),
    "latency of a wrong type": (
        "[queries.clicks]\nlatency = [5]\n",
        "line 2: latency of query 'clicks' is a list: write a duration such as '5 seconds'",
    ),
    "priority of a wrong type": (
        '[queries.clicks]\npriority = "high"\n',
        "line 2: priority of query 'clicks' is 'high', a text: write a whole number from 1 to 100",
    ),
    "accuracy of a wrong type": (
        "[queries.clicks]\nminimum_accuracy = true\n",
        "line 2: minimum_accuracy of query 'clicks' is true: write a number from 0 to 1",
    ),
    "weight of a wrong type": (
        "[queries.clicks]\nweight = 2026-01-05\n",
        "line 2: weight of query 'clicks' is 2026-01-05, a date or time: write a number above zero",
    ),
    "setting of a wrong type": (
        '[admission]\ngrowth_factor = "4"\n',
        "line 2: admission.growth_factor is '4', a text: write a number from 1.1 to 100 ratio",
    ),
    "text setting of a wrong type": (
        "[store]\npath = 5\n",
        "line 2: store.path is 5, a whole number: write a text that is not empty",
    ),
    "setting out of range": (
        "[admission]\ngrowth_factor = 0.5\n",
        "line 2: admission.growth_factor = 0.5 is not allowed: write a number from 1.1 to 100 ratio",
    ),
    "section that is no table": (
        "store = 5\n",
        "line 1: 'store' is 5, a whole number: write [store], its keys below",
    ),
    "accuracy out of range": (
        "[queries.clicks]\nlatency = 5\nminimum_accuracy = 1.5\n",
        "line 3: minimum accuracy 1.5 must be between 0 and 1: change minimum_accuracy of query 'clicks'",
    ),
    "priority out of range": (
        "[queries.clicks]\npriority = 0\n",
        "line 2: priority 0 must be a whole number from 1 to 100: change priority of query 'clicks'",
    ),
    "weight out of range": (
        "[queries.clicks]\nweight = 0\n",
        "line 2: weight 0.0 must be a number above zero: change weight of query 'clicks'",
    ),
    "weight beyond all floats": (
        f"[queries.clicks]\nweight = 1{'0' * 400}\n",
        "line 2: weight inf must be a number above zero: change weight of query 'clicks'",
    ),
    "latency that is no duration": (
        '[queries.clicks]\nlatency = "soon"\n',
        "line 2: latency goal 'soon' is not a duration: write a number and a unit, such as '5 seconds'",
    ),
    "latency below zero": (
        '[queries.clicks]\nlatency = "-3 seconds"\n',
        "line 2: latency goal '-3 seconds' must be above zero, such as '5 seconds': change latency of query 'clicks'",
    ),
    "minimum above maximum": (
        "[executors]\nminimum = 8\nmaximum = 2\n",
        "line 2: minimum 8 is above maximum 2: lower minimum or raise maximum",
    ),
    "minimum above the default maximum": (
        "[executors]\nminimum = 8\n",
        "line 2: minimum 8 is above maximum 4, the default: lower minimum or raise maximum",
    ),
    "minimum of none": (
        "[executors]\nminimum = 0\n",
        "line 2: minimum of [executors] is 0: write a whole number from 1 up",
    ),
    "half an executor": (
        "[executors]\nmaximum = 2.5\n",
        "line 2: maximum of [executors] is 2.5, a number: write a whole number from 1 up",
    ),
    "first beyond the bounds": (
        "[executors]\nmaximum = 3\nfirst = 5\n",
        "line 3: first 5 is not from minimum 1 to maximum 3: write a number between the two",
    ),
    "standby of all": (
        "[executors]\nmaximum = 2\nstandby = 2\n",
        "line 3: standby 2 is not below maximum 2, which counts those on standby too: lower standby or raise maximum",
    ),
    "unknown policy": (
        '[executors]\npolicy = "magic"\n',
        f"line 2: policy is 'magic', a text: write one of {POLICIES}",
    ),
    "mistyped policy": (
        '[executors]\npolicy = "pro-active"\n',
        f"line 2: policy is 'pro-active', a text: did you mean 'proactive'? or write one of {POLICIES}",
    ),
    "policy of a wrong type": (
        "[executors]\npolicy = 1\n",
        f"line 2: policy is 1, a whole number: write one of {POLICIES}",
    ),
    "budget below the minimum": (
        "[executors]\nminimum = 2\nbudget_executor_hours_per_day = 47.5\n",
        (
            "line 3: budget_executor_hours_per_day 47.5 is less than the minimum of 2 takes in a day: write 48 or "
            "more, or lower minimum"
        ),
    ),
    "budget of a wrong type": (
        '[executors]\nbudget_executor_hours_per_day = "none"\n',
        "line 2: budget_executor_hours_per_day is 'none', a text: write a number from 24 up",
    ),
    "budget without end": (
        "[executors]\nbudget_executor_hours_per_day = inf\n",
        "line 2: budget_executor_hours_per_day is inf: write a number from 24 up, or leave it out",
    ),
    "cycle": (
        (
            '[queries.in]\nwrites = ["a"]\n[queries.there]\nreads = ["a", "c"]\nwrites = ["b"]\n'
            '[queries.back]\nreads = ["b"]\nwrites = ["c"]\n'
        ),
        (
            "line 3: query 'there' reads what comes from itself: there -> back -> there: take a stream out of the "
            "reads or writes of one of them"
        ),
    ),
    "reads what it writes": (
        '[queries.echo]\nreads = ["topic:a"]\nwrites = ["topic:a"]\n',
        "line 3: query 'echo' reads and writes 'topic:a': let it write to another stream",
    ),
    "the same query twice": (
        '[queries.x]\nlatency = "5 s"\n\n[queries."x"]\nlatency = "9 s"\n',
        "line 4: [queries.x] is declared twice: keep one of the two",
    ),
    "the same query twice, dotted": (
        '[queries.x]\nlatency = "5 s"\n[queries]\nx.weight = 2.0\n',
        "line 4: [queries.x] is declared twice: keep one of the two",
    ),
    "the same key twice": (
        "[queries.x]\nlatency = 5\nlatency = 9\n",
        "line 3: the name has a value already: keep one of the two",
    ),
    "the same key twice, at the end": (
        "[queries.x]\nlatency = 5\nlatency = 9",
        "line 3: the name has a value already: keep one of the two",
    ),
    "no TOML": (
        "[queries.x]\nlatency = 5 seconds\n",
        (
            "line 2: not valid TOML (Expected newline or end of document after a statement): write KEY = VALUE with "
            "texts in quotes, and sections as [NAME]"
        ),
    ),
    "reads that is no list": (
        '[queries.x]\nreads = "topic:a"\n',
        "line 2: reads of query 'x' is 'topic:a', a text: write a list of texts, such as reads = [\"topic:clicks\"]",
    ),
    "writes that holds a number": (
        '[queries.x]\nwrites = [\n  "topic:a",\n  5,\n]\n',
        (
            "line 2: writes of query 'x' holds 5, a whole number: write a list of texts, such as writes = "
            '["topic:clicks"]'
        ),
    ),
    "a stream without a name": (
        '[queries.x]\nreads = [" "]\n',
        "line 2: reads of query 'x' holds an empty name: name the stream, such as \"topic:clicks\"",
    ),
    "a query without a name": (
        '[queries.""]\nlatency = 5\n',
        "line 1: a query has an empty name: write [queries.NAME] with the name that queryName gives it",
    ),
    "a query that is no table": (
        "[queries]\nclicks = 5\n",
        "line 2: query 'clicks' is 5, a whole number: write [queries.clicks], its keys below",
    ),
    "a goal of no query": (
        '[queries]\nlatency = "5 s"\n',
        "line 2: 'latency' belongs to no query: write it below [queries.NAME]",
    ),
    "queries as a list": (
        "[[queries]]\nlatency = 5\n",
        "line 1: 'queries' is a list: write [queries.NAME] for each query",
    ),
    "empty": (
        "",
        'line 1: nothing is declared: write a section for each query: [queries.NAME] with latency = "5 seconds" below',
    ),
    "comments and headers alone": (
        "# later\n[queries]\n[store]\n",
        'line 1: nothing is declared: write a section for each query: [queries.NAME] with latency = "5 seconds" below',
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    """A mistake is refused with exactly this text: file, line, what is wrong, what to write."""
    text, message = MISTAKES[mistake]
    assert refusal(text) == f"penstock.toml, {message}"


LINES = {
    "quoted names": ('[queries."my clicks"]\nweight = 1\n"priority" = 0\n', 3),
    "dotted keys": ("queries.clicks.weight = 1.0\nqueries.clicks.priority = 0\n", 2),
    "dotted, spaced and quoted": ("[queries]\na . 'b c'.x = 1\n", 2),
    "an inline table": ("[queries]\na = { weight = 1.0 }\nb = { weight = 1.0, priority = 0 }\n", 3),
    "after comments": ("# priority = 0\n[queries.a]  # priority = 0\n# [queries.b]\npriority = 0\n", 4),
    "after a list of lines": ('[queries.a]\nreads = [ # ]\n  "]",\n  "#",\n]\npriority = 0\n', 6),
    "after a text of lines": ('[queries.a]\nlatency = """\\\n   5 s"""\npriority = 0\n', 4),
    "after a literal text of lines": ("[queries.a]\nreads = ['''\npriority = 1\n''''']\npriority = 0\n", 5),
    "the same key in another table": ("[queries.a]\npriority = 1\n[queries.b]\npriority = 0\n", 4),
}


@pytest.mark.parametrize("form", LINES)
def test_lines(form: str) -> None:
    """The line is the one of the key at fault, in whatever form of TOML it is written."""
    text, line = LINES[form]
    assert refusal(text).startswith(f"penstock.toml, line {line}: ")


def test_a_key_that_is_not_written_has_the_line_of_its_table() -> None:
    """A default that does not fit is told where the section begins."""
    assert refusal("\n[executors]\nmaximum = 0\n").startswith("penstock.toml, line 3: maximum")
    declaration = declared(WHOLE)
    assert declaration.place("queries", "count", "weight") == "penstock.toml, line 10"


def test_an_error_has_its_parts() -> None:
    """A program may take the error apart, and catch it as any other of Penstock or as a ValueError."""
    with pytest.raises(InvalidDeclarationError) as caught:
        declared("[executors]\nminimum = 8\nmaximum = 2\n")
    error = caught.value
    assert isinstance(error, PenstockError)
    assert isinstance(error, ValueError)
    assert (error.path, error.line) == ("penstock.toml", 2)
    assert (error.problem, error.remedy) == ("minimum 8 is above maximum 2", "lower minimum or raise maximum")


def test_files_that_cannot_be_read() -> None:
    """A file that is not there, is a folder, or is not text is named, with what to do."""
    with pytest.raises(InvalidDeclarationError) as caught:
        read_declaration("missing.toml")
    remedy = "write it, with a section such as [queries.clicks], or give the right path"
    assert str(caught.value) == f"missing.toml: there is no such file: {remedy}"
    with pytest.raises(InvalidDeclarationError) as caught:
        read_declaration(".")
    assert str(caught.value) == ".: cannot be read (Is a directory): give the path of a TOML file that may be read"
    Path("latin.toml").write_bytes(b"[queries.a]\n# \xe9t\xe9\n")
    with pytest.raises(InvalidDeclarationError) as caught:
        read_declaration("latin.toml")
    assert str(caught.value) == "latin.toml, line 2: byte 0xe9 is not UTF-8: save the file as UTF-8"


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "1" * 5000])
def test_what_overwhelms_the_parser_is_refused(text: str) -> None:
    """Lists without end and numbers of thousands of digits are errors of the file, not a crash."""
    assert refusal(text).startswith("penstock.toml: ")


# -- queries that nobody starts ----------------------------------------------------------------------------------------


def test_unstarted_queries_are_told_after_a_while() -> None:
    """Within the patience nothing is said; then each query that is missing, with its line."""
    declaration = declared(WHOLE)
    assert unstarted(declaration, [], declared_s=100.0, now_s=159.0, patience_s=60.0) == []
    assert unstarted(declaration, ["clicks", "count"], declared_s=100.0, now_s=160.0, patience_s=60.0) == []
    assert unstarted(declaration, ["count"], declared_s=100.0, now_s=160.0, patience_s=60.0) == [
        (
            "penstock.toml, line 2: query 'clicks' is declared but no query of that name has started within 60 s: "
            'start it with queryName("clicks"), or remove it from the file'
        )
    ]


def test_a_query_of_a_similar_name_is_pointed_out() -> None:
    """A query that has started under nearly that name, and is not declared itself, may be the one."""
    declaration = declared(WHOLE)
    (sentence,) = unstarted(declaration, {"count", "clickz"}, declared_s=0.0, now_s=60.5, patience_s=60.5)
    assert sentence == (
        "penstock.toml, line 2: query 'clicks' is declared but no query of that name has started within 60.5 s: "
        "start it with queryName(\"clicks\"), or remove it from the file; query 'clickz' has started and is not "
        "declared: did you mean that one?"
    )


# -- changes -----------------------------------------------------------------------------------------------------------


def rewrite(text: str, path: Path = Path("penstock.toml")) -> None:
    """Write a file so that its time differs, however coarse the clock of the file system is."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_change_is_seen_once() -> None:
    """New content is given at the next look; the same content, however often it is written, is no change."""
    first = declared(WHOLE)
    watch = DeclarationWatch("penstock.toml")
    assert watch.declaration == first
    assert watch.changes() is None
    rewrite(WHOLE)
    assert watch.changes() is None
    rewrite(WHOLE.replace("5 seconds", "2 seconds"))
    second = watch.changes()
    assert second is not None
    assert second is watch.declaration
    assert second.application.queries[QueryName("clicks")].goal.latency_s == 2.0
    assert watch.changes() is None


def test_a_mistake_is_told_once_and_changes_nothing() -> None:
    """Bad content is raised at the look that finds it; the old declaration stays until the file is mended."""
    first = declared(WHOLE)
    watch = DeclarationWatch("penstock.toml")
    rewrite(WHOLE.replace("0.3", "3"))
    with pytest.raises(InvalidDeclarationError, match=r"penstock\.toml, line 4: minimum accuracy 3"):
        watch.changes()
    assert watch.changes() is None
    rewrite(WHOLE.replace("0.3", "3"))
    assert watch.changes() is None
    assert watch.declaration == first
    rewrite(WHOLE)
    assert watch.changes() == first


def test_a_file_that_goes_away_is_told_once() -> None:
    """A file that is deleted keeps its last declaration in force; when it is back it is read."""
    first = declared(WHOLE)
    watch = DeclarationWatch("penstock.toml")
    Path("penstock.toml").unlink()
    with pytest.raises(InvalidDeclarationError, match="there is no such file"):
        watch.changes()
    assert watch.changes() is None
    assert watch.declaration == first
    rewrite(WHOLE)
    assert watch.changes() == first


def test_a_watch_begins_with_a_file_without_mistakes() -> None:
    """There is nothing to hold on to where the first content is bad."""
    with pytest.raises(InvalidDeclarationError, match="no such file"):
        DeclarationWatch("missing.toml")


def test_goals_that_change() -> None:
    """Goals that differ, queries that are new, and queries that are gone; nothing else."""
    five, two = Goal(latency="5 s"), Goal(latency="2 s")
    old = Application.of_goals({"same": five, "other": five, "gone": five})
    new = Application.of_goals({"new": two, "other": two, "same": five})
    assert difference(old, new) == [
        GoalChange(QueryName("new"), None, two),
        GoalChange(QueryName("other"), five, two),
        GoalChange(QueryName("gone"), five, None),
    ]
    assert difference(old, old) == []


def test_what_must_wait_for_the_next_start() -> None:
    """Streams, executors and settings are told with their lines; goals are not."""
    old = declared(WHOLE)
    assert needs_restart(old, declared(WHOLE.replace("5 seconds", "2 seconds"))) == []
    changed = WHOLE.replace('"topic:clicks"', '"topic:views"').replace('"proactive"', '"ds2"').replace("= 96", "= 24")
    later = "takes hold when the application starts again"
    streams = 'changed from ["topic:clicks"] to ["topic:views"]'
    assert needs_restart(old, declared(changed.replace("every_s = 2", "every_s = 3"))) == [
        f"penstock.toml, line 7: reads of query 'clicks' {streams}; it {later}",
        f"penstock.toml, line 20: policy of [executors] changed from proactive to ds2; it {later}",
        f"penstock.toml, line 21: budget_executor_hours_per_day of [executors] changed from 96 to 24; it {later}",
        f"penstock.toml, line 27: scaling.every_s changed from 2.0 to 3.0; it {later}",
    ]


def test_sections_and_queries_that_come_and_go() -> None:
    """A query that is gone keeps its place in the graph, and executors are nobody's or somebody's for good."""
    later = "takes hold when the application starts again"
    small = '[queries.count]\nreads = ["topic:parsed"]\n[store]\npath = "clicks.db"\n[scaling]\nevery_s = 2\n'
    whole, less = declared(WHOLE), declared(small)
    assert needs_restart(whole, less) == [
        f"penstock.toml: query 'clicks' is gone, but keeps its place in the graph; that {later}",
        f"penstock.toml: section [executors] is gone; it {later}",
    ]
    assert needs_restart(less, whole) == [
        f"penstock.toml, line 7: reads of query 'clicks' changed from [] to [\"topic:clicks\"]; it {later}",
        f"penstock.toml, line 8: writes of query 'clicks' changed from [] to [\"topic:parsed\"]; it {later}",
        f"penstock.toml, line 15: section [executors] is new; it {later}",
    ]


def test_repay_is_when_idle_or_never(tmp_path: Path) -> None:
    """The key is read, and anything else is refused with its line."""
    path = tmp_path / "penstock.toml"
    path.write_text('[queries.clicks]\nrepay = "when idle"\n[queries.views]\n', encoding="utf-8")
    queries = read_declaration(path).application.queries
    assert {name: query.repay for name, query in queries.items()} == {"clicks": "when idle", "views": "never"}
    path.write_text('[queries.clicks]\nrepay = "always"\n', encoding="utf-8")
    with pytest.raises(InvalidDeclarationError, match=r'line 2: .* write one of "never", "when idle"'):
        read_declaration(path)
