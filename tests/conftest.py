"""What all tests share: the modules beside this file, and the command line called as a shell would."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from penstock.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parent))


class Outcome(NamedTuple):
    """What a shell sees of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*words: str) -> Outcome:
        code = main(words)
        written = capsys.readouterr()
        return Outcome(code, written.out, written.err)

    return call
