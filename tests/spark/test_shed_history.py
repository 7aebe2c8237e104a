"""What batches are told of rows that were dropped before them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.model import QueryName
from penstock.model.decision import KeepRatio
from penstock.model.directive import LATE_PART, Directive
from penstock.model.shed_history import ShedHistory
from penstock.settings import DirectiveSettings
from penstock.spark.answers import Answering


def keep(batch_id: int, ratio: float, late_before_s: float | None = None) -> KeepRatio:
    return KeepRatio(
        query=QueryName("q"), cause="c", reason="r", batch_id=batch_id, keep_ratio=ratio, keep_floor=0.0,
        late_before_s=late_before_s,
    )  # fmt: skip


@pytest.fixture
def answering() -> Answering:
    plant = SimpleNamespace(tell=lambda *_: None)
    nobody = cast("Any", None)
    return Answering(nobody, nobody, cast("Any", plant), [], DirectiveSettings(enabled=False))


def watched() -> Any:
    return SimpleNamespace(shed=ShedHistory(), last_answered=None, last_ratio=1.0)


def test_a_batch_is_told_of_those_before_it(answering: Answering) -> None:
    """One that keeps everything knows that an earlier one did not, and when."""
    query = watched()
    assert answering._with_history(query, Directive.from_decision(keep(0, 1.0))).history == ShedHistory()
    shed = answering._with_history(query, Directive.from_decision(keep(1, 0.3))).history
    assert shed.largest_weight(0.0) == pytest.approx(2**1.5)
    later = answering._with_history(query, Directive.from_decision(keep(2, 1.0))).history
    assert later == shed
    assert later.largest_weight(later.moments_s[0] + 1.0) == 1.0


def test_late_rows_count_with_their_own_weight(answering: Answering) -> None:
    """A batch that keeps late rows at an eighth of its ratio has weights eight times as large."""
    query = watched()
    found = answering._with_history(query, Directive.from_decision(keep(0, 0.4, late_before_s=5.0))).history
    assert found.largest_weight(0.0) == pytest.approx(2**4.5)
    assert Directive.from_decision(keep(0, 0.4, late_before_s=5.0)).least_ratio == 0.4 * LATE_PART


def test_a_batch_without_an_answer_counts_as_the_one_before(answering: Answering) -> None:
    """It fell back on what that one was told, which the driver did not see."""
    query = watched()
    answering._with_history(query, Directive.from_decision(keep(4, 0.3)))
    query.shed = ShedHistory()
    found = answering._with_history(query, Directive.from_decision(keep(6, 1.0))).history
    assert found.largest_weight(0.0) > 1.0


def test_what_earlier_runs_told_is_not_forgotten(answering: Answering) -> None:
    """When that was is not on record, so it counts as of the start."""
    query = watched()
    answering.introduce(query, [keep(3, 0.2), keep(4, 1.0)])
    assert query.shed.largest_weight(0.0) > 4.0
    assert query.shed.largest_weight(query.shed.moments_s[0] + 1.0) == 1.0
