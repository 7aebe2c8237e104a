"""Daemons that belong together: started, remembered, ended and cleared away as one.

A group lives in a directory of its own: ``cluster.json`` with what is remembered, and a directory for each daemon with
its log. All of it is its user's alone. The directory may be named by its user and lie where others may write, so
nothing in it is believed that somebody else may have put there: a file of another user is refused, a process is ended
only if it was started for this very directory, and no more is deleted than was made.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.process.daemon import (
    UntrustedStateError,
    command_of,
    descendants,
    end_processes,
    find_process,
    last_words_of,
    read_state,
    start_daemon,
    write_private,
    write_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from penstock.errors import PenstockError
    from penstock.process.daemon import Started

STATE_FILE = "cluster.json"
_MADE_BY = ".penstock"
_LOG = "daemon.log"
_LOOK_EVERY_S = 0.1
_DIRECTORY_MARK = "-Dpenstock.directory="


class DaemonGroup:
    """The daemons of one directory.

    Parameters
    ----------
    directory
        Where they live.
    error
        What is raised where something cannot be.
    command
        How people start and stop such a group, for messages: ``"penstock kafka"``.
    """

    def __init__(self, directory: Path, error: type[PenstockError], command: str) -> None:
        self.directory = directory.absolute()
        self._error, self._command = error, command

    # What is remembered

    def read(self) -> dict[str, Any] | None:
        """What was remembered; None where nothing was. What somebody else may have written is refused."""
        try:
            return read_state(self.directory / STATE_FILE)
        except UntrustedStateError as error:
            raise self._error(f"{error}: name another directory with --dir") from error
        except (OSError, ValueError) as error:
            raise self.unreadable(error) from error

    def unreadable(self, why: object) -> PenstockError:
        """The error for a state that means nothing."""
        return self._error(f"{self.directory / STATE_FILE} cannot be read ({why}): delete it to begin anew")

    def missing(self) -> PenstockError:
        """The error for a directory without a group."""
        return self._error(f"there is no cluster in {self.directory}: start one with '{self._command} up'")

    def write(self, tree: Mapping[str, object]) -> None:
        """Remember something in place of what was remembered."""
        write_state(self.directory / STATE_FILE, tree)

    # Directories

    def make(self, name: str) -> Path:
        """A directory of the group's own; one that is there already and was not made by it is refused."""
        place = self.directory / name
        self.directory.mkdir(0o700, parents=True, exist_ok=True)
        try:
            place.mkdir(0o700)
        except FileExistsError:
            if not self._is_own(place):
                raise self._error(
                    f"{place} is there already and was not made by '{self._command} up': name another directory with "
                    "--dir"
                ) from None
        else:
            write_private(place / _MADE_BY, "made by Penstock, and deleted by it\n")
        return place

    def delete(self) -> list[str]:
        """Delete what the group has made, and nothing else; gives the names of what is left in its directory."""
        for place in list(self.directory.iterdir()):
            if self._is_own(place):
                shutil.rmtree(place)
        (self.directory / STATE_FILE).unlink(missing_ok=True)
        with suppress(OSError):
            self.directory.rmdir()
            return []
        return sorted(entry.name for entry in self.directory.iterdir())

    def _is_own(self, place: Path) -> bool:
        if place.is_symlink() or not place.is_dir() or place.stat().st_uid != os.geteuid():
            return False
        mark = place / _MADE_BY
        return mark.is_file() and not mark.is_symlink()

    # Processes

    def start(self, name: str, java: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Started:
        """Start a program of Java under a name of the group; what it writes is in its log."""
        place = self.make(name)
        # By this an end of the group tells its own processes from all others, whatever its state says.
        command = [java[0], self._mark, *java[1:]]
        return start_daemon(command, place / _LOG, environment=environment)

    def log(self, name: str) -> Path:
        """Where a daemon writes."""
        return self.directory / name / _LOG

    def process(self, pid: int | None, started_s: float | None) -> Any:  # noqa: ANN401 - psutil has no types
        """The process that was remembered, if it is one of this group; None once it is gone, whoever has its id now."""
        process = find_process(pid, started_s)
        if process is None:
            return None
        return process if self._mark in command_of(process) else None

    def end(self, processes: Sequence[Any], timeout_s: float) -> list[Any]:
        """End processes of the group and all that they started; gives those that had to be forced."""
        children = [child for process in processes for child in descendants(process)]
        forced = end_processes(processes, timeout_s)
        # Those of one that obeys have ended with it; those of one that was killed notice, but nobody waits for that.
        end_processes([child for child in children if child.is_running()], timeout_s)
        return forced

    def wait(
        self,
        daemons: Iterable[tuple[str, int | None, float | None]],
        is_ready: Callable[[], bool],
        timeout_s: float,
        otherwise: str,
    ) -> None:
        """Wait until a group is ready; one whose daemon (name, pid, start) ends meanwhile is an error in its words."""
        known = [(name, pid, started_s) for name, pid, started_s in daemons if pid is not None]
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            for name, pid, started_s in known:
                if find_process(pid, started_s) is None:
                    words = last_words_of(self.log(name))
                    raise self._error(f"{name.replace('-', ' ')} ended while it started: {words}")
            if is_ready():
                return
            time.sleep(_LOOK_EVERY_S)
        first = self.log(known[0][0]) if known else self.directory
        raise self._error(f"the cluster in {self.directory} {otherwise} after {timeout_s:g} s; its log is {first}")

    @property
    def _mark(self) -> str:
        return f"{_DIRECTORY_MARK}{self.directory}"
