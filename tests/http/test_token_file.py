"""The file of the token."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from penstock.errors import ServiceError
from penstock.http import token_at


def test_a_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    """The first call makes a file that nobody else can read, and later ones read the same token."""
    path = tmp_path / "inner" / "token"
    token = token_at(path)
    assert len(token) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token_at(path) == token
    assert [each.name for each in path.parent.iterdir()] == ["token"]


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """A token that others know protects nothing; the error says what to do."""
    path = tmp_path / "token"
    token_at(path)
    path.chmod(0o640)
    with pytest.raises(ServiceError, match="chmod 600"):
        token_at(path)


@pytest.mark.parametrize("content", ["", "short", "two words that are long enough", "x" * 600, "\x01" * 30])
def test_what_is_no_token_is_refused(tmp_path: Path, content: str) -> None:
    """An empty or mangled file must not become a token that anybody can guess."""
    path = tmp_path / "token"
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(ServiceError, match="holds no token"):
        token_at(path)


def test_a_link_and_a_place_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    """Nobody makes the server read a file through a link, and an impossible path is told in one sentence."""
    link = tmp_path / "link"
    target = tmp_path / "target"
    token_at(target)
    link.symlink_to(target)
    with pytest.raises(ServiceError, match="cannot be used"):
        token_at(link)
    with pytest.raises(ServiceError, match="use a path"):
        token_at(target / "below-a-file" / "token")
