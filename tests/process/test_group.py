"""A group of daemons believes nothing in its directory that others may have put there, and deletes what it made."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import psutil
import pytest

from penstock.errors import ClusterError
from penstock.process import group as module
from penstock.process.daemon import Started, write_private
from penstock.process.group import STATE_FILE, DaemonGroup

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534


@pytest.fixture
def group(tmp_path: Path) -> DaemonGroup:
    """A group in a directory that is not there yet."""
    return DaemonGroup(tmp_path / "cluster", ClusterError, "penstock cluster")


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_is_its_users_own(group: DaemonGroup) -> None:
    """Directories, state and settings can be read by nobody else."""
    group.write({"port": 1})
    place = group.make("master")
    write_private(place / "secret", "s3")
    assert rights(group.directory) == rights(place) == 0o700
    assert rights(group.directory / STATE_FILE) == rights(place / "secret") == 0o600
    assert group.read() == {"port": 1}


def test_no_more_is_deleted_than_was_made(group: DaemonGroup) -> None:
    """Files of the user's in the same directory stay, and so does the directory while they are in it."""
    group.write({})
    (group.make("worker-1") / "log").write_text("words", encoding="utf-8")
    letter, album = group.directory / "letter", group.directory / "album"
    letter.write_text("dear", encoding="utf-8")
    album.mkdir()
    (group.directory / "worker-2").symlink_to(album)
    assert group.delete() == ["album", "letter", "worker-2"]
    assert letter.read_text(encoding="utf-8") == "dear"
    assert album.is_dir()
    for entry in (letter, group.directory / "worker-2"):
        entry.unlink()
    album.rmdir()
    assert group.delete() == []
    assert not group.directory.exists()


def test_a_directory_of_the_users_is_not_taken_for_a_daemons(group: DaemonGroup) -> None:
    """One of the same name that was there before is refused, and not written into."""
    (group.directory / "master").mkdir(parents=True)
    with pytest.raises(ClusterError, match="was not made by 'penstock cluster up'"):
        group.make("master")
    assert list((group.directory / "master").iterdir()) == []


def test_a_state_that_others_may_have_written_is_not_believed(group: DaemonGroup, tmp_path: Path) -> None:
    """Neither a link, nor a file that others may write, nor another user's file."""
    group.write({"port": 1})
    path = group.directory / STATE_FILE
    path.chmod(0o666)
    with pytest.raises(ClusterError, match="not believed"):
        group.read()
    path.rename(tmp_path / "planted.json")
    path.symlink_to(tmp_path / "planted.json")
    with pytest.raises(ClusterError, match="cannot be read"):
        group.read()
    if os.geteuid() == 0:
        path.unlink()
        group.write({"port": 1})
        os.chown(path, NOBODY, NOBODY)
        with pytest.raises(ClusterError, match="not believed"):
            group.read()


@pytest.mark.parametrize("text", ["{", "[]", "7"])
def test_a_state_that_means_nothing_is_told(group: DaemonGroup, text: str) -> None:
    """With the file, and what to do."""
    group.write({})
    (group.directory / STATE_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(ClusterError, match=r"cluster.json cannot be read .*delete it to begin anew"):
        group.read()


def test_a_process_counts_only_if_it_was_started_for_this_directory(
    group: DaemonGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test's own process is on record with its id and its moment, as a planted state would have it."""
    own = psutil.Process()
    assert group.process(own.pid, own.create_time()) is None
    monkeypatch.setattr(module, "command_of", lambda _: ["java", f"-Dpenstock.directory={group.directory}x"])
    assert group.process(own.pid, own.create_time()) is None
    monkeypatch.setattr(module, "command_of", lambda _: ["java", f"-Dpenstock.directory={group.directory}"])
    assert group.process(own.pid, own.create_time()) == own


def test_a_daemon_is_started_with_the_mark_of_its_directory(
    group: DaemonGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is how its end is told from that of others; its log lies in its own directory."""
    seen: list[object] = []

    def start(command: list[str], log: Path, *, environment: object) -> Started:
        seen.extend([command, log, environment])
        return Started(1, 2.0)

    monkeypatch.setattr(module, "start_daemon", start)
    assert group.start("master", ["java", "-Xmx1g", "Main"]) == Started(1, 2.0)
    assert seen == [
        ["java", f"-Dpenstock.directory={group.directory}", "-Xmx1g", "Main"],
        group.directory / "master" / "daemon.log",
        None,
    ]
    assert json.dumps(str(group.log("master")))


def test_a_daemon_that_ends_while_it_is_awaited_is_told_in_its_own_words(group: DaemonGroup) -> None:
    """Nobody waits to the end for one that is gone."""
    (group.make("worker-1") / "daemon.log").write_text("no room\n", encoding="utf-8")
    with pytest.raises(ClusterError, match="worker 1 ended while it started: no room"):
        group.wait([("worker-1", 2**22 + 1, 1.0)], lambda: False, 60.0, "has no workers")
