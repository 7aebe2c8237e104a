"""A checkpoint belongs to one query, and to its newest run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.engine.ownership import Owner, claim, read_owner
from penstock.errors import CheckpointOwnerError
from penstock.spark.folders import LocalFolder

if TYPE_CHECKING:
    from pathlib import Path

OWNER = Owner("ads", "clicks", "left", 5)


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path / "penstock")


def test_nobody_owns_a_new_checkpoint(folder: LocalFolder) -> None:
    """A checkpoint without a file is anybody's."""
    assert read_owner(folder) is None


@pytest.mark.parametrize("number", [5, 6])
def test_a_later_run_of_the_same_query_takes_over(folder: LocalFolder, number: int) -> None:
    """The same run again, or a later one on another engine, is let in."""
    claim(folder, OWNER, "here")
    later = replace(OWNER, engine="right", number=number)
    claim(folder, later, "here")
    assert read_owner(folder) == later


def test_an_earlier_run_comes_too_late(folder: LocalFolder) -> None:
    """A run that was asked for before the one that has the checkpoint is refused, and changes nothing."""
    claim(folder, OWNER, "here")
    with pytest.raises(CheckpointOwnerError, match="run 4 of query 'clicks' comes too late: run 5 on engine 'left'"):
        claim(folder, replace(OWNER, engine="right", number=4), "here")
    assert read_owner(folder) == OWNER


@pytest.mark.parametrize("change", [{"query": "views"}, {"application": "shop"}])
def test_another_query_is_refused(folder: LocalFolder, change: dict[str, str]) -> None:
    """A query of another name or application is told whose checkpoint it is."""
    claim(folder, OWNER, "here")
    with pytest.raises(CheckpointOwnerError, match="belongs to query 'clicks' of application 'ads'"):
        claim(folder, replace(OWNER, number=9, **change), "here")


def test_a_torn_file_is_no_owner(folder: LocalFolder) -> None:
    """What cannot be read is told, and not taken for a free checkpoint."""
    claim(folder, OWNER, "here")
    folder.write("owner.json", b"{")
    with pytest.raises(CheckpointOwnerError, match="cannot be read"):
        claim(folder, OWNER, "here")
