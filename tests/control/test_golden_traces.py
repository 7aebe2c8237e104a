"""Decisions of closed loops are those on file, batch by batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden_scenarios import SCENARIOS, trace_of

GOLDEN = Path(__file__).parent.parent / "golden"
_SAME = 2e-3


@pytest.mark.parametrize("name", SCENARIOS)
def test_decisions_are_those_on_file(name: str) -> None:
    """A change of a decision must be meant: ``python tests/write_golden.py`` then writes the files anew."""
    expected = json.loads((GOLDEN / f"{name.replace(',', '').replace(' ', '_')}.json").read_text())
    found = trace_of(SCENARIOS[name]())
    assert [entry[:4] for entry in found] == [entry[:4] for entry in expected]
    for (*what, value), (*_, wanted) in zip(found, expected, strict=True):
        assert value == (None if wanted is None else pytest.approx(wanted, rel=_SAME)), what
