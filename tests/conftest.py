"""What all tests share: the modules beside this file, and the command line called as a shell would."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from penstock.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(Path(__file__).parent))
# An example that takes longer than 200 ms fails by default, and so do examples that take long to draw: on a busy
# machine any of them may. The same examples are drawn everywhere, so that what passes here passes elsewhere, too;
# 'pytest --hypothesis-profile=search' draws others each time.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("penstock", settings.get_profile("search"), derandomize=True)
settings.load_profile("penstock")


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
