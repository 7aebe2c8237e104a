"""Processes of engines that the fleet starts itself: started, found again, ended, and killed for good.

A process that the fleet started is a session of its own: its JVM and its Python workers stay in that session whatever
becomes of it, and are found there when they have to go.

The directory of a fleet may be named by its user and lie where others may write. So what its files say is believed only
if this user alone may write them, and a process is taken for the fleet's only if it was started for that directory.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from penstock.engine.run import STATE_FILE, TOKEN_FILE
from penstock.errors import FleetError
from penstock.fleet.client import AgentClient
from penstock.http import token_at
from penstock.process.daemon import (
    UntrustedStateError,
    command_of,
    find_process,
    last_words_of,
    read_state,
    start_daemon,
    state_directory,
    write_state,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LOG = "engine.log"
_LOOK_EVERY_S = 0.1
_GONE_WITHIN_S = 15.0
_ENDS_WITHIN_S = 40.0
_MAIN = "import sys; from penstock.cli import main; sys.exit(main())"
_DIRECTORY_OPTION = "--dir"


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
    tree = believed_state(directory / STATE_FILE)
    if tree is None or tree.get("name") != name:
        return None
    try:
        found = EngineProcess(name, int(tree["pid"]), float(tree["started_s"]), tree.get("url"))
    except (KeyError, TypeError, ValueError):
        return None
    process = find_process(found.pid, found.started_s)
    return found if process is not None and _is_engine_of(process, directory) else None


def find_control(tree: Mapping[str, Any], directory: Path) -> Any:  # noqa: ANN401 - psutil has no types
    """The control process of a fleet by what it wrote; None once it is gone, and for one that is not this fleet's."""
    try:
        process = find_process(int(tree["pid"]), float(tree["started_s"]))
    except (KeyError, TypeError, ValueError):
        return None
    return process if process is not None and _is_control_of(process, directory) else None


def believed_state(path: Path) -> dict[str, Any] | None:
    """What a process of a fleet wrote about itself; None where it wrote nothing, or nothing that means something.

    Raises
    ------
    FleetError
        Where somebody else may have written it, or it is a link: to go on as if nothing ran might run queries twice.
    """
    try:
        return read_state(path)
    except UntrustedStateError as error:
        raise FleetError(f"{error}: delete it, or name another directory with --dir") from error
    except OSError as error:
        raise FleetError(
            f"{path} cannot be read ({error.strerror}): delete it, or name another directory with --dir"
        ) from error
    except ValueError:
        return None


def _is_engine_of(process: Any, directory: Path) -> bool:  # noqa: ANN401 - psutil has no types
    """Whether a process was started as an engine for this directory."""
    words = command_of(process)
    named = _named_directory(process, words)
    # Links below the fleet's own directory are not followed: they might lead to an engine of another fleet.
    return {"engine", "run"} <= set(words) and named is not None and _settled(named, 2) == _settled(directory, 2)


def _is_control_of(process: Any, directory: Path) -> bool:  # noqa: ANN401 - psutil has no types
    """Whether a process was started to control the fleet of this directory."""
    words = command_of(process)
    if not {"up", "--foreground"} <= set(words):
        return False
    named = _named_directory(process, words)
    if named is None:
        # Somebody started it by hand, for the directory that everybody takes.
        with suppress(psutil.Error):
            named = state_directory("fleet", process.environ())
    return named is not None and _settled(named, 0) == _settled(directory, 0)


def _named_directory(process: Any, words: Sequence[str]) -> Path | None:  # noqa: ANN401 - psutil has no types
    """The directory that a command line names; None where it names none."""
    named = None
    for place, word in enumerate(words):
        if word == _DIRECTORY_OPTION and place + 1 < len(words):
            named = words[place + 1]
        elif word.startswith(f"{_DIRECTORY_OPTION}="):
            named = word.partition("=")[2]
    if named is None or Path(named).is_absolute():
        return None if named is None else Path(named)
    with suppress(psutil.Error):
        return Path(process.cwd()) / named
    return None


def _settled(path: Path, below: int) -> Path:
    """A path without links, apart from its last so many names."""
    root, names = path, path.parts[len(path.parts) - below :]
    for _ in names:
        root = root.parent
    return root.resolve().joinpath(*names)


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
