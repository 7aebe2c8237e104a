"""The checks of the machine: each can fail, and says how to mend it."""

from __future__ import annotations

import json
import socket
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement

from penstock.cli import checks as checks_module
from penstock.cli.checks import (
    CheckResult,
    Surroundings,
    check_checkpoint_directory,
    check_directives,
    check_executor_python,
    check_host_name,
    check_java,
    check_loopback,
    check_memory,
    check_spark,
    checks,
    run_check,
)
from penstock.extras import SPARK_BELOW, SPARK_FROM

if TYPE_CHECKING:
    from collections.abc import Callable

PYTHON = {"PYSPARK_PYTHON": sys.executable}


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what this machine may lack by chance is replaced."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=2**34))
    monkeypatch.setattr(checks_module, "_MEMORY_LIMIT_FILE", Path("/nowhere"))


@pytest.mark.usefixtures("healthy")
def test_all_is_well(run: Callable[..., Any]) -> None:
    """Where nothing is missing the exit code is 0 and no remedy is given."""
    outcome = run("doctor", "--json")
    rows = json.loads(outcome.out)["rows"]
    assert [row["check"] for row in rows if not row["passed"]] == []
    assert outcome.code == 0
    assert len(rows) == len(checks)


@pytest.mark.usefixtures("healthy")
def test_failure_has_exit_code_and_remedy(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One failed check is enough for code 1; text and JSON both tell the remedy."""
    monkeypatch.setattr(checks_module, "checks", [lambda _: CheckResult("moon", "in the sky", "wait for the morning")])
    text, document = run("doctor"), run("doctor", "--json")
    assert (text.code, document.code) == (1, 1)
    assert "FAILED" in text.out
    assert "moon: wait for the morning" in text.out
    assert json.loads(document.out) == {
        "passed": False,
        "rows": [{"check": "moon", "passed": False, "found": "in the sky", "remedy": "wait for the morning"}],
    }


def fake_java(place: Path, answer: str) -> dict[str, str]:
    java = place / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(place)}


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "21" 2023-09-19', True),
        ('java version "1.8.0_392"', False),
        ('openjdk version "11.0.2"', False),
        ("no such thing", False),
    ],
)
def test_java(answer: str, passed: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a test's parameter
    """Java 17 or later passes, in either way of numbering; anything else names the package to install."""
    result = check_java(Surroundings(environment=fake_java(tmp_path, answer)))
    assert result.passed is passed
    assert passed or "openjdk-17-jre-headless" in result.remedy


def test_no_java(tmp_path: Path) -> None:
    """No Java on PATH, or a JAVA_HOME without one, is found out."""
    assert check_java(Surroundings(environment={"PATH": str(tmp_path)})).found == "no Java on PATH"
    assert str(tmp_path) in check_java(Surroundings(environment={"JAVA_HOME": str(tmp_path)})).found


@pytest.mark.parametrize(
    ("version", "passed"),
    [("4.2.0", True), ("4.2.7", True), ("4.1.9", False), ("4.3.0", False), ("4.3.0.dev1", False), (None, False)],
)
def test_spark(version: str | None, passed: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a test's parameter
    """A PySpark that Penstock was not tried on fails the check."""
    monkeypatch.setattr(checks_module, "spark_version", lambda: version)
    assert check_spark(Surroundings()).passed is passed


def test_spark_bounds_are_those_of_the_package() -> None:
    """The check accepts what pyproject.toml lets pip install, no more and no less."""
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [Requirement(line) for line in pyproject["project"]["dependencies"]]
    bounds = {str(part) for requirement in wanted if requirement.name == "pyspark" for part in requirement.specifier}
    assert bounds == {f">={SPARK_FROM[0]}.{SPARK_FROM[1]}", f"<{SPARK_BELOW[0]}.{SPARK_BELOW[1]}"}


def test_executor_python(tmp_path: Path) -> None:
    """Only an interpreter with this environment's packages passes; the remedy is a line to paste."""
    assert check_executor_python(Surroundings(environment=PYTHON)).passed
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho /somewhere/else\n")
    other.chmod(0o755)
    for environment in ({"PYSPARK_PYTHON": str(other)}, {"PATH": str(tmp_path)}, {"PATH": "/nowhere"}):
        result = check_executor_python(Surroundings(environment=environment))
        assert result.remedy == f"export PYSPARK_PYTHON={sys.executable}"


@pytest.mark.parametrize(
    ("free_bytes", "limit", "passed"),
    [(2**34, None, True), (2**29, None, False), (2**34, "536870912", False), (2**34, "max", True)],
)
def test_memory(
    free_bytes: int,
    limit: str | None,
    passed: bool,  # noqa: FBT001 - a test's parameter
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Free memory counts up to the container's limit."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=free_bytes))
    file = tmp_path / "memory.max"
    if limit is not None:
        file.write_text(f"{limit}\n")
    monkeypatch.setattr(checks_module, "_MEMORY_LIMIT_FILE", file)
    assert check_memory(Surroundings()).passed is passed


def test_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that forbids to bind a port fails the check instead of breaking it."""
    assert check_loopback(Surroundings()).passed

    def forbid(*_: object, **__: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(socket, "create_server", forbid)
    assert "not here" in check_loopback(Surroundings()).found


def test_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that cannot resolve its own name is told the variable that helps, and passes once it is set."""

    def unknown(_: str) -> str:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert check_host_name(Surroundings(environment={})).remedy == "export SPARK_LOCAL_IP=127.0.0.1"
    assert check_host_name(Surroundings(environment={"SPARK_LOCAL_IP": "127.0.0.1"})).passed


def test_checkpoint_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory must exist, take a file and have room; nothing is left behind in it."""
    assert check_checkpoint_directory(Surroundings(checkpoint_directory=tmp_path)).passed
    assert list(tmp_path.iterdir()) == []
    missing = check_checkpoint_directory(Surroundings(checkpoint_directory=tmp_path / "none"))
    assert "--checkpoint" in missing.remedy
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    assert not check_checkpoint_directory(Surroundings(checkpoint_directory=tmp_path)).passed


def test_check_that_breaks_does_not_hide_the_others() -> None:
    """A check that raises is one failed row with its name and its error."""

    def check_the_moon(_: Surroundings) -> CheckResult:
        raise RuntimeError("cloudy")

    result = run_check(check_the_moon, Surroundings())
    assert (result.name, result.passed) == ("the moon", False)
    assert "RuntimeError: cloudy" in result.found


def test_a_missing_member_names_the_ability_and_the_remedy() -> None:
    """A Spark without a member that Penstock acts through fails the check, with what is off and what to install."""
    result = checks_module.members_result({"read limits of running queries": "Spark 9.9.9 has no uniqueSources"})
    assert not result.passed
    assert "read limits of running queries: off" in result.found
    assert "pyspark>=4.2,<4.3" in result.remedy
    assert checks_module.members_result({}).passed


def test_directives_say_which_way_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver can be asked it is; where not, the property channel is named, with what to allow."""
    well = check_directives(Surroundings())
    assert well.passed
    assert well.found.startswith("asks the driver: 127.0.0.1:")
    monkeypatch.setattr("penstock.spark.directives.ask", lambda *_: None)
    silent = check_directives(Surroundings())
    assert "property channel" in silent.found
    assert "a batch late" in silent.remedy

    def refuse(*_: object) -> None:
        raise OSError("not permitted")

    monkeypatch.setattr("penstock.spark.directives._Listener", refuse)
    refused = check_directives(Surroundings())
    assert refused.found == "property channel: no port to listen on (not permitted)"
