"""Programs that go on running after the command that started them.

A process is known by its id *and* the moment it began, so that another process which got the same id later is never
taken for it, and never ended in its place.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PRIVATE = 0o600
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_SAME_PROCESS_WITHIN_S = 2.0
_LAST_LINES = 5
_LOOK_EVERY_S = 0.05


class UntrustedStateError(Exception):
    """A file of state that somebody else may have written."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not a file that this user alone may write, and is not believed")


@dataclass(frozen=True, slots=True)
class Started:
    """What is remembered of a process."""

    pid: int
    started_s: float


def start_daemon(command: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None) -> Started:
    """Start a program in a session of its own; what it writes is added to a file."""
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, _PRIVATE), "ab") as output:
        # In a session of its own: Control-C at the terminal must not stop what was asked to be left running.
        process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env=None if environment is None else dict(environment),
        )  # fmt: skip
    return Started(process.pid, psutil.Process(process.pid).create_time())


def find_process(pid: int | None, started_s: float | None) -> Any:  # noqa: ANN401 - psutil has no types
    """The process that was remembered; None once it is gone, whoever may have its id now."""
    if pid is None or started_s is None:
        return None
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        same = abs(process.create_time() - started_s) < _SAME_PROCESS_WITHIN_S
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def end_processes(processes: Sequence[Any], timeout_s: float) -> list[Any]:
    """End processes in order if they obey in time, else by force; gives those that had to be forced."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    alive = _still_running(processes, timeout_s)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _still_running(alive, timeout_s)
    return alive


def _still_running(processes: Sequence[Any], timeout_s: float) -> list[Any]:
    """Those that run on after a while; one that has ended but is not yet looked after by its parent does not."""
    deadline_s = time.monotonic() + timeout_s
    while alive := [process for process in processes if _runs(process)]:
        if time.monotonic() > deadline_s:
            return alive
        time.sleep(_LOOK_EVERY_S)
    # Collects the exit codes of children of this very process, so that they do not stay as zombies.
    psutil.wait_procs(processes, timeout=0)
    return []


def _runs(process: Any) -> bool:  # noqa: ANN401 - psutil has no types
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    return False


def descendants(process: Any) -> list[Any]:  # noqa: ANN401 - psutil has no types
    """Everything that a process started and that still runs, and what those started."""
    with suppress(psutil.NoSuchProcess):
        return list(process.children(recursive=True))
    return []


def state_directory(name: str, environment: Mapping[str, str] | None = None) -> Path:
    """Where the state of something that goes on running is kept.

    Examples
    --------
    >>> state_directory("kafka", {"XDG_STATE_HOME": "/var/state"}).as_posix()
    '/var/state/penstock/kafka'
    """
    surroundings = os.environ if environment is None else environment
    return Path(surroundings.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "penstock" / name


def write_state(path: Path, tree: Mapping[str, object]) -> None:
    """Replace a file of state as a whole: whoever reads meanwhile sees the old one or the new one."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    write_private(path, json.dumps(tree, indent=2) + "\n")


def read_state(path: Path) -> dict[str, Any] | None:
    """What :func:`write_state` wrote; None where there is nothing.

    Raises
    ------
    UntrustedStateError
        Where the file is another user's, or others may write it.
    OSError
        Where it cannot be read, or is a link: whoever may plant a link chooses what is read.
    ValueError
        Where it holds no object.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, encoding="utf-8") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
            raise UntrustedStateError(path)
        tree = json.load(file)
    if not isinstance(tree, dict):
        raise ValueError("it holds no object")  # noqa: TRY004 - as for all that is no state
    return tree


def write_private(path: Path, text: str) -> None:
    """Put a file that this user alone may read in the place of whatever is there, a link included."""
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def command_of(process: Any) -> list[str]:  # noqa: ANN401 - psutil has no types
    """What a process was started with; nothing of one that is gone or another user's."""
    with suppress(psutil.Error):
        return [str(word) for word in process.cmdline()]
    return []


def last_words(text: str) -> str:
    r"""The last telling lines of a log, as one line.

    Examples
    --------
    >>> last_words("INFO up\nERROR no room\n    at x.Y.z(Y.java:1)\n")
    'INFO up | ERROR no room'
    """
    lines = [line.strip() for line in text.splitlines()]
    telling = [line for line in lines if line and not line.startswith("at ")]
    return " | ".join(telling[-_LAST_LINES:]) or "without a word"


def last_words_of(log: Path) -> str:
    """As :func:`last_words`, with the place of the log."""
    return f"{last_words(log.read_text(encoding='utf-8', errors='replace'))}; its log is {log}"
