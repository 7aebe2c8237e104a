"""A program that makes a mistake with Penstock ends with one line that says what is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

CONNECT = """
import penstock
class RemoteSession: version = "4.2.0"
penstock.attach(RemoteSession())
"""


def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("from penstock import Goal; Goal(latency='-3 seconds')", "-3 seconds"),
        ("from penstock import Goal; Goal(minimum_accuracy=1.5)", "1.5"),
        ("from penstock.settings import Settings; Settings().with_values({'admission.growth': 2})", "admission.growth"),
        (CONNECT, "RemoteSession is not a classic Spark session"),
    ],
)
def test_a_mistake_ends_the_program_with_one_line(program: str, named: str) -> None:
    """No list of calls, the thing named, and an exit code that is not zero."""
    ended = run(program)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert named in line


def test_the_calls_are_shown_on_request_and_for_all_other_errors() -> None:
    """Python's development mode shows where it happened; an error that is not Penstock's is never shortened."""
    assert "Traceback" in run("from penstock import Goal; Goal(minimum_accuracy=1.5)", "-X", "dev").stderr
    assert "Traceback" in run("import penstock; raise ValueError('mine')").stderr
