"""``penstock serve`` as a shell runs it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from patience import PATIENCE_S

COMMAND = [sys.executable, "-c", "import sys; from penstock.cli import main; sys.exit(main())", "serve"]


def test_a_finished_run_is_served_until_a_polite_kill(history: Path, tmp_path: Path) -> None:
    """The link that is printed has the token behind its '#'; the end is orderly, and the store is as it was."""
    before = history.read_bytes()
    words = ["--store", str(history), "--port", "0", "--token-file", str(tmp_path / "token")]
    started = subprocess.Popen(
        [*COMMAND, *words, "--state", str(tmp_path / "state")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    found = re.fullmatch(r"dashboard: (http://127\.0\.0\.1:\d+)/#token=([\w-]+)\n", started.stdout.readline())
    assert found is not None
    url, token = found.groups()
    assert (tmp_path / "token").read_text(encoding="ascii").strip() == token
    fleet = httpx.get(f"{url}/api/fleet", timeout=PATIENCE_S).json()
    assert [engine["engine"] for engine in fleet["engines"]] == ["clickstream"]
    assert len(fleet["queries"]) == 12
    started.send_signal(signal.SIGTERM)
    assert started.wait(timeout=120) == 0
    assert history.read_bytes() == before


def test_what_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    """A store that is not there and a directory without one end with exit code 2."""
    for words, said in (
        (["--store", str(tmp_path / "absent.db")], "there is no store at"),
        (["--store", str(tmp_path)], "there is no store in the directory"),
    ):
        ended = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)
        assert ended.returncode == 2
        (line,) = ended.stderr.splitlines()
        assert said in line
