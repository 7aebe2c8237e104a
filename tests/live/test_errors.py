"""What a person sees who made a mistake: one line that names it and the remedy, and an exit code that is not 0."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import Goal
from penstock.cli import main
from penstock.errors import (
    AlreadyAttachedError,
    InvalidGoalError,
    InvalidSettingError,
    StoreError,
    UnknownQueryError,
    UnsupportedSessionError,
)
from penstock.model import Action, ActionKind, Mode, QueryName
from penstock.spark import internals
from penstock.spark.internals import Ability, Member
from penstock.store import MemoryStore, SqliteStore

DRIVER = Path(__file__).parent / "driver_mistaken.py"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(variable)


def run_driver(mistake: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DRIVER), mistake],
        capture_output=True, text=True, timeout=250, check=False, env={**os.environ, **environment},
    )  # fmt: skip


# -- without a session -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"latency": "-3 seconds"}, "'-3 seconds'"),
        ({"latency": "soon"}, "'soon'"),
        ({"latency": 0}, "0"),
        ({"minimum_accuracy": 1.5}, "minimum accuracy 1.5 must be between 0 and 1"),
        ({"priority": 0}, "priority 0 must be a whole number from 1 to 100"),
        ({"weight": -1}, "weight -1 must be a number above zero"),
    ],
)
def test_goals_that_mean_nothing_are_refused(goal: dict[str, object], message: str) -> None:
    """In one line, with the value as it was given."""
    with pytest.raises(InvalidGoalError) as refusal:
        Goal(**goal)  # type: ignore[arg-type]
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


class ConnectSession:
    """A session as Spark Connect has it: no JVM of its own."""

    version = "4.2.0"


def test_a_connect_session_is_refused() -> None:
    """It is told at attach time, with the class of the session and what to do instead."""
    with pytest.raises(UnsupportedSessionError) as refusal:
        penstock.attach(ConnectSession(), store=MemoryStore())  # type: ignore[arg-type]
    assert "ConnectSession is not a classic Spark session" in str(refusal.value)
    assert "attach in the application that hosts the queries" in str(refusal.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "nobody"], "no streaming query named 'nobody'; known queries: clicks"),
        (["log", "--last", "no"], "Invalid value for '--last'"),
        (["settings", "--settings", "missing.toml"], "setting 'file' = 'missing.toml'"),
    ],
)
def test_the_command_line_complains_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """Exit code 2, one line on the error stream, nothing that looks like a trace of Python."""
    with SqliteStore(tmp_path / "actions.db") as store:
        hold = Action(ActionKind.HOLD, QueryName("clicks"), "batch 1", "fits")
        store.append(hold, time_s=1.0, mode=Mode.ACT)
    where = ["--store", str(tmp_path / "actions.db")] if words[0] != "settings" else []
    assert main([*words, *where]) == 2
    written = capsys.readouterr()
    assert message in written.err
    assert written.err.count("\n") == 1
    assert "Traceback" not in written.err + written.out


def test_a_setting_from_the_environment_is_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad value is refused by its key and its bounds, before anything starts."""
    monkeypatch.setenv("PENSTOCK_ADMISSION_GROWTH_FACTOR", "0.5")
    assert main(["explain", "clicks"]) == 2
    assert "'admission.growth_factor' = 0.5 is not allowed: a number from 1.1 to 100" in capsys.readouterr().err


# -- in a driver, as a user sees it ------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("setting", "setting 'admission.growth_factor' = 0.5 is not allowed: a number from 1.1"),
        ("adopt", "no streaming query named 'nobody'; known queries: none; start one with"),
    ],
)
def test_a_mistaken_driver_ends_with_the_reason(mistake: str, message: str) -> None:
    """The script dies with exit code 1, and the last line of its output is the whole reason."""
    done = run_driver(mistake)
    assert done.returncode == 1
    kind, _, reason = done.stderr.rstrip().splitlines()[-1].partition(": ")
    assert kind.startswith("penstock.errors.")
    assert reason.startswith(message)


# -- on a session ------------------------------------------------------------------------------------------------------


@pytest.mark.live
def test_bad_settings_leave_nothing_behind(spark: object, tmp_path: Path) -> None:
    """A refused attach has added no listener and opened no store."""
    listeners = spark._jsparkSession.streams().listListeners  # type: ignore[attr-defined]
    before = len(listeners())
    path = tmp_path / "actions.db"
    with pytest.raises(InvalidSettingError, match=r"no such setting; did you mean 'admission\.growth_factor'"):
        penstock.attach(spark, settings={"admission.growth": 2, "store.path": str(path)})  # type: ignore[arg-type]
    assert len(listeners()) == before
    assert not path.exists()


@pytest.mark.live
def test_a_second_writer_of_the_same_store_is_refused(spark: object, tmp_path: Path) -> None:
    """Two holds on one session or on one file are refused: the second is told so, and the first goes on."""
    settings = {"store.path": str(tmp_path / "actions.db")}
    with penstock.attach(spark, settings=settings) as pen:  # type: ignore[arg-type]
        with pytest.raises(AlreadyAttachedError, match="detach"):
            penstock.attach(spark, settings=settings)  # type: ignore[arg-type]
        with pytest.raises(StoreError) as refusal:
            penstock.attach(spark.newSession(), settings=settings)  # type: ignore[attr-defined]
        assert "actions.db" in str(refusal.value)
        with pytest.raises(UnknownQueryError):
            pen.release("nobody")


@pytest.mark.live
def test_every_member_is_there_and_a_missing_one_is_named(spark: object) -> None:
    """The installed Spark has all members; a member or class that it has not is named with the version."""
    assert internals.probe(spark) == {}  # type: ignore[arg-type]
    absent = (
        Member(Ability.EXECUTORS, ("org.apache.spark.SparkContext",), "noSuchMethod"),
        Member(Ability.READ_LIMIT, ("org.apache.spark.NoSuchClass",), "anything"),
        Member(Ability.PYTHON_LIMIT, ("org.apache.spark.NoSuchClass", "org.apache.spark.SparkContext")),
    )
    version = spark.version  # type: ignore[attr-defined]
    assert internals.probe(spark, absent) == {  # type: ignore[arg-type]
        Ability.EXECUTORS: f"Spark {version} has no org.apache.spark.SparkContext.noSuchMethod",
        Ability.READ_LIMIT: f"Spark {version} has no org.apache.spark.NoSuchClass.anything",
    }
