"""What holds for every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

import penstock.cli
from patience import PATIENCE_S
from penstock.cli import main
from penstock.cli.reference import reference_page
from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
GROUP: Any = typer.main.get_command(penstock.cli.app)
COMMANDS: list[str] = sorted(GROUP.commands)
MEMBERS = [
    (group, name, command)
    for group in COMMANDS
    for name, command in sorted(getattr(GROUP.commands[group], "commands", {}).items())
]
SCRIPT = Path(sys.executable).with_name("penstock")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str, run: Callable[..., Any]) -> None:
    """Every command's help says what it is for and shows how to call it, and every option is explained."""
    outcome = run(command, "--help")
    assert outcome.code == 0
    assert "For example:" in outcome.out
    assert f"penstock {command}" in outcome.out.partition("For example:")[2]
    assert all(parameter.help for parameter in GROUP.commands[command].params)


@pytest.mark.parametrize(("group", "name", "command"), MEMBERS)
def test_help_of_a_groups_command_teaches(group: str, name: str, command: Any, run: Callable[..., Any]) -> None:
    """So does that of every command of a group, each example on a line of its own."""
    outcome = run(group, name, "--help")
    assert outcome.code == 0
    examples = [line.strip() for line in outcome.out.partition("For example:")[2].splitlines()]
    assert any(line.startswith(f"penstock {group} {name}") for line in examples)
    assert all(parameter.help for parameter in command.params)


def test_no_words_give_the_help(run: Callable[..., Any]) -> None:
    """A bare call lists the commands and is no error."""
    outcome = run()
    assert outcome.code == 0
    assert all(f"  {command} " in outcome.out for command in COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        ["version"],
        ["doctor"],
        ["settings"],
        ["log", "--store", "{store}"],
        ["log", "--store", "{store}", "--last", "1"],
        ["log", "--store", "{store}", "--query", "nobody"],
        ["log", "--store", "{store}", "--last", "0"],
        ["log", "--store", "{store}", "--last", "0", "--query", "nobody"],
        ["status", "--store", "{store}"],
        ["explain", "clicks", "--store", "{store}"],
        ["explain", "views", "--store", "{store}"],
    ],
)
def test_json_is_one_object(words: list[str], run: Callable[..., Any], store_path: Path) -> None:
    """``--json`` writes one JSON object to standard output and nothing anywhere else."""
    outcome = run(*(word.format(store=store_path) for word in words), "--json")
    assert isinstance(json.loads(outcome.out), dict)
    assert outcome.err == ""


ERRORS = {
    "missing store": (["log", "--store", "{place}/none.db"], "none.db"),
    "missing store of status": (["status", "--store", "{place}/none.db"], "none.db"),
    "missing store of explain": (["explain", "clicks", "--store", "{place}/none.db"], "none.db"),
    "store that is none": (["log", "--store", "{place}/bad.toml"], "bad.toml"),
    "unknown query": (["explain", "clocks", "--store", "{store}"], "known queries: clicks, views"),
    "missing settings file": (["settings", "--file", "{place}/none.toml"], "cannot be read"),
    "settings file that is no TOML": (["settings", "--file", "{place}/bad.toml"], "not valid TOML"),
    "unknown setting": (["settings", "--file", "{place}/unknown.toml"], "did you mean 'store.path'"),
    "value out of bounds": (["log", "--settings", "{place}/bounds.toml"], "from 1.1 to 100"),
    "moment that is none": (["log", "--store", "{store}", "--since", "yesterday"], "'10 minutes'"),
    "moment without end": (["log", "--store", "{store}", "--until", "inf"], "'inf' is not a time"),
    "unknown kind": (["log", "--kind", "nothing"], "read_limit"),
    "unknown option": (["log", "--nothing"], "see 'penstock log --help'"),
    "unknown command": (["nothing"], "see 'penstock --help'"),
    "missing argument": (["explain"], "QUERY"),
    "both formats": (["settings", "--json", "--markdown"], "--markdown"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_line(case: str, run: Callable[..., Any], store_path: Path) -> None:
    """Whatever the user can mend ends with code 2 and one line that helps, without a traceback or output."""
    place = store_path.parent
    (place / "bad.toml").write_text("[store\npath = ")
    (place / "unknown.toml").write_text('[store]\npat = "x.db"\n')
    (place / "bounds.toml").write_text("[admission]\ngrowth_factor = 0.5\n")
    words, helpful = ERRORS[case]
    outcome = run(*(word.format(store=store_path, place=place) for word in words))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert helpful in outcome.err


def test_bad_environment_is_one_line(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad value of a variable is named, with what is allowed, even where a command needs the store alone."""
    monkeypatch.setenv("PENSTOCK_GRAPH_BATCH_S", "x")
    outcome = run("log")
    assert outcome.code == 2
    assert outcome.err == ("error: setting 'graph.batch_s' = 'x' is not allowed: a number from 0.01 to 600 s\n")


def test_unknown_variable_stops_no_command(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistyped variable is named, with the right one, and the command does its work."""
    monkeypatch.setenv("PENSTOCK_STORE_PAHT", "x.db")
    assert run("settings").code == 0
    assert caplog.messages == [
        "environment variable 'PENSTOCK_STORE_PAHT' is no setting and is ignored; did you mean 'PENSTOCK_STORE_PATH'?"
    ]


def raise_in_log(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("penstock.cli.log.open_store", fail)


def test_error_with_line_breaks_stays_one_line(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Line breaks inside a message do not make it several lines."""
    raise_in_log(monkeypatch, StoreError("broken\nin two"))
    assert run("log").err == "error: broken in two\n"


def test_interruption_is_quiet(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C ends with code 130 and without a word."""
    raise_in_log(monkeypatch, KeyboardInterrupt())
    assert run("log") == (130, "", "")


def test_a_command_that_is_told_to_end_tidies_up(tmp_path: Path) -> None:
    """What a command has started ends with it, also when it is told to by 'timeout' or a supervisor."""
    program = f"""
import contextlib, pathlib, sys, time
import penstock.cli.version
@contextlib.contextmanager
def server():
    try:
        yield
    finally:
        pathlib.Path({str(tmp_path / "tidy")!r}).touch()
def wait(*_):
    with server():
        print("ready", flush=True)
        time.sleep(600)
penstock.cli.version.spark_version = wait
sys.argv = ["penstock", "version"]
import penstock.cli
sys.exit(penstock.cli.main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"ready\n"
        command.terminate()
        assert command.wait(timeout=120) == 143
    assert (tmp_path / "tidy").exists()


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is not the user's keeps its traceback."""
    raise_in_log(monkeypatch, ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        main(["log"])


@pytest.mark.parametrize("words", [["log", "--last", "0"], ["log", "--last", "0", "--follow", "--json"]])
def test_broken_pipe_is_quiet(words: list[str], store_path: Path) -> None:
    """A reader that goes away early, such as head, ends the command without a traceback."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [SCRIPT, *words, "--store", store_path],
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def test_installed_script_reports_errors(tmp_path: Path) -> None:
    """The installed entry point passes the exit code on."""
    done = subprocess.run(
        [SCRIPT, "log"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no store at")
    assert done.stderr.count("\n") == 1


def test_help_imports_nothing_slow() -> None:
    """Help imports neither Spark nor numpy nor what draws: it must answer at once."""
    code = (
        "import sys; from penstock.cli import main; main(['version', '--help']); "
        "print(*({'pyspark', 'numpy', 'matplotlib', 'sqlite3', 'psutil'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stderr.strip() == ""


def test_reference_page_is_current() -> None:
    """docs/reference/cli.md is what the commands say; 'make docs' writes it anew."""
    assert (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8") == reference_page()


def test_reference_page_names_every_option() -> None:
    """No option is missing from the page."""
    page = reference_page()
    commands = [*GROUP.commands.values(), *(command for _, _, command in MEMBERS)]
    options = [name for command in commands for parameter in command.params for name in parameter.opts]
    assert [name for name in options if name.startswith("--") and name not in page] == []


def test_bench_sketch_tells_every_rate(run: Callable[..., Any]) -> None:
    """One row for each thing that is measured, none of them without a rate."""
    outcome = run("bench", "sketch", "--repeats", "1", "--json")
    rows = json.loads(outcome.out)["rows"]
    wanted = ["update", "estimate", "decide_full_knowledge", "decide_las", "decide_economic"]
    assert [row["what"] for row in rows] == wanted
    assert all(row["million_rows_per_s"] > 0 for row in rows)
