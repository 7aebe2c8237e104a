"""What constants of the fast tier move, counted."""

from __future__ import annotations

import pytest

from penstock.bench import constants
from penstock.control import batch_length as lengths
from penstock.control import keep_choice, whole_or_cut


def test_constants_are_those_of_the_module_itself() -> None:
    """What a module imports is another's, and what keeps rounding errors away is nobody's choice."""
    names = dict(constants.numbers_of("penstock.control.whole_or_cut"))
    assert names["_LONGEST_PART"] == whole_or_cut._LONGEST_PART
    assert not {"WORTH", "_TINY"} & set(names)
    assert {"_MIN_NOISE", "_MAX_NOISE"} <= set(dict(constants.numbers_of("penstock.estimate.batch_time")))


def test_what_is_read_only_at_import_is_left_out() -> None:
    """A default keeps the value that it was given: to change the constant later would move nothing, and say so."""
    assert not dict(constants.numbers_of("penstock.estimate.bisection"))
    assert "_HALVINGS" in dict(constants.numbers_of("penstock.control.keep_curve"))


def test_a_change_reaches_whoever_has_imported_it_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two modules have constants of one name; one constant has two modules that go by it."""
    for module, name in ((lengths, "WORTH"), (whole_or_cut, "WORTH"), (whole_or_cut, "_LONGEST_PART")):
        monkeypatch.setattr(module, name, getattr(module, name))
    constants.change("penstock.control.batch_length", "WORTH", 7.0)
    constants.change("penstock.control.whole_or_cut", "_LONGEST_PART", 0.7)
    assert (lengths.WORTH, whole_or_cut.WORTH) == (7.0, 7.0)
    assert (whole_or_cut._LONGEST_PART, keep_choice._LONGEST_PART) == (0.7, 0.5)


def test_every_loop_is_run_with_the_constant_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that may take all of the goal before rows are dropped makes more of them late."""
    cases = ([constants.LoopCase(0.2, 0.05, 5.0)], [constants.LoopCase(1.3, 0.15, 0.8, calm_load=0.8)])
    monkeypatch.setattr(constants, "loops_of", lambda *_: cases)
    monkeypatch.setattr(lengths, "WORTH", lengths.WORTH)
    monkeypatch.setattr(whole_or_cut, "WORTH", whole_or_cut.WORTH)
    base = constants.run_varied(constants.Varied(), seeds=1)
    moved = constants.run_varied(constants.Varied("penstock.control.batch_length", "WORTH", 1_000.0), seeds=1)
    row = moved.row(base)
    assert row["constant"] == "control.batch_length.WORTH"
    assert row["value"] == pytest.approx(1_100.0)
    assert base.runs == 2
    assert (row["more_late_ratio"], row["useful_rows_ratio"]) != (0.0, 1.0)
