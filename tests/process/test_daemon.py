"""Programs that are started, remembered and ended."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil

from patience import PATIENCE_S
from penstock.process.daemon import descendants, end_processes, find_process, start_daemon, write_state
from penstock.process.ports import free_port, is_free, listens

SLEEPER = "import time; print('awake', flush=True); time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('awake', flush=True); time.sleep(600)"


def await_word(log: Path) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while "awake" not in log.read_text():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_daemon_is_remembered_and_ended(tmp_path: Path) -> None:
    """In a session of its own, found by id and moment, and gone after it was asked to go."""
    log = tmp_path / "log"
    started = start_daemon([sys.executable, "-c", SLEEPER], log, environment=dict(os.environ))
    await_word(log)
    assert os.getsid(started.pid) != os.getsid(0)
    process = find_process(started.pid, started.started_s)
    assert process in descendants(psutil.Process())
    assert end_processes([process], PATIENCE_S) == []
    assert find_process(started.pid, started.started_s) is None


def test_one_that_does_not_obey_is_forced(tmp_path: Path) -> None:
    """And is told apart from those that obeyed."""
    log = tmp_path / "log"
    started = start_daemon([sys.executable, "-c", STUBBORN], log)
    await_word(log)
    process = find_process(started.pid, started.started_s)
    assert end_processes([process], 0.2) == [process]


def test_one_that_has_ended_is_not_waited_for_though_its_parent_does_not_look(tmp_path: Path) -> None:
    """A zombie of another process counts as ended: it would else be waited for to the end, and told as forced."""
    log = tmp_path / "log"
    careless = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); time.sleep(600)"
    parent = start_daemon([sys.executable, "-c", careless, SLEEPER], log)
    await_word(log)
    process = find_process(parent.pid, parent.started_s)
    assert end_processes(descendants(process), PATIENCE_S) == []
    end_processes([process], PATIENCE_S)


def test_a_port_is_free_until_somebody_listens() -> None:
    """Free, and nobody answers."""
    port = free_port()
    assert is_free(port)
    assert not listens(port)


def test_state_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Nothing but the file itself is left, in a directory that is made for it."""
    write_state(tmp_path / "new" / "state.json", {"a": 1})
    write_state(tmp_path / "new" / "state.json", {"a": 2})
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["state.json"]
    assert '"a": 2' in (tmp_path / "new" / "state.json").read_text()
