"""Processes of engines that the fleet starts itself: started, found again, ended, and killed for good.

A process that the fleet started is a session of its own: its JVM and its Python workers stay in that session whatever
becomes of it, and are found there when they have to go.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from penstock.engine.run import STATE_FILE, TOKEN_FILE
from penstock.errors import FleetError
from penstock.fleet.client import AgentClient
from penstock.http import token_at
from penstock.process.daemon import find_process, last_words_of, start_daemon, write_state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LOG = "engine.log"
_LOOK_EVERY_S = 0.1
_GONE_WITHIN_S = 15.0
_ENDS_WITHIN_S = 40.0
_MAIN = "import sys; from penstock.cli import main; sys.exit(main())"


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """An engine that runs on this machine."""

    name: str
    pid: int
    started_s: float
    url: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process is there, stopped by a signal or not."""
        return find_process(self.pid, self.started_s) is not None


def penstock_command(*words: str) -> list[str]:
    """How this very installation is started again."""
    return [sys.executable, "-c", _MAIN, *words]


def start_engine(name: str, file: Path, directory: Path) -> EngineProcess:
    """Start the process of an engine; it answers a while later."""
    directory.mkdir(0o700, parents=True, exist_ok=True)
    command = penstock_command("engine", "run", str(file), name, "--dir", str(directory))
    started = start_daemon(command, directory / _LOG)
    # Whoever starts the fleet again finds it, also where this process is gone before it answers.
    write_state(directory / STATE_FILE, {"name": name, "url": None, "pid": started.pid, "started_s": started.started_s})
    return EngineProcess(name, started.pid, started.started_s)


def find_engine(name: str, directory: Path) -> EngineProcess | None:
    """The engine that was started in a directory and still runs; None where there is none."""
    tree = read_state(directory)
    if tree is None or tree.get("name") != name:
        return None
    found = EngineProcess(name, int(tree["pid"]), float(tree["started_s"]), tree.get("url"))
    return found if found.is_running else None


def read_state(directory: Path) -> dict[str, Any] | None:
    """What is written about an engine: its process, and where it answers once it does."""
    try:
        tree = json.loads((directory / STATE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return tree if isinstance(tree, dict) else None


def await_engine(process: EngineProcess, directory: Path, timeout_s: float) -> tuple[EngineProcess, AgentClient]:
    """Wait until an engine answers; one that ends meanwhile is an error in its words."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        found = find_engine(process.name, directory)
        if found is not None and found.pid == process.pid and found.url is not None:
            return found, AgentClient(process.name, found.url, token_at(directory / TOKEN_FILE))
        if not process.is_running:
            raise FleetError(f"engine {process.name!r} ended while it started: {last_words_of(directory / _LOG)}")
        time.sleep(_LOOK_EVERY_S)
    kill_engine(process)
    raise FleetError(
        f"engine {process.name!r} did not answer within {timeout_s:g} s and was ended; its log is {directory / _LOG}, "
        "and agents.start_s gives it longer"
    )


def kill_engine(process: EngineProcess) -> None:
    """Kill an engine with everything that it started, and see it go: nothing of it writes to a checkpoint afterwards.

    Raises
    ------
    FleetError
        Where something of it does not go, so that nobody starts its queries elsewhere.
    """
    deadline_s = time.monotonic() + _GONE_WITHIN_S
    while members := session_members(process):
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.send_signal(signal.SIGKILL)
        if time.monotonic() > deadline_s:
            pids = ", ".join(str(member.pid) for member in members)
            raise FleetError(f"engine {process.name!r} cannot be killed: process {pids} stays; end it by hand")
        _collect(process.pid)
        time.sleep(_LOOK_EVERY_S)
    _collect(process.pid)


def end_engine(process: EngineProcess) -> bool:
    """End an engine in order, and by force what is left after a while; says whether force was needed."""
    leader = find_process(process.pid, process.started_s)
    if leader is not None:
        with suppress(psutil.NoSuchProcess):
            leader.terminate()
    deadline_s = time.monotonic() + _ENDS_WITHIN_S
    while time.monotonic() < deadline_s and session_members(process):
        _collect(process.pid)
        time.sleep(_LOOK_EVERY_S)
    was_forced = bool(session_members(process))
    kill_engine(process)
    return was_forced


def session_members(process: EngineProcess) -> Sequence[Any]:
    """All processes of an engine that still run, zombies apart.

    The system gives nobody else the number of a session that has members. If the number is another process's by now,
    nothing of the engine is left.
    """
    with suppress(psutil.NoSuchProcess):
        if psutil.Process(process.pid).create_time() > process.started_s + 1.0:
            return []
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if os.getsid(candidate.pid) == process.pid and candidate.status() != psutil.STATUS_ZOMBIE:
                found.append(candidate)
    return found


def _collect(pid: int) -> None:
    """Take the exit code of a child of this very process, so that it does not stay as a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
