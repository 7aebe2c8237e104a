"""Single decisions on what a query may read."""

from __future__ import annotations

import pytest

from penstock.control.query_logic import QueryLogic
from penstock.control.target import target_batch_s
from penstock.model import (
    BatchSignal,
    Goal,
    LimitUnit,
    QueryName,
    QuerySpec,
    SourceSignal,
    SourceSpec,
)
from penstock.model.decision import Decision, ReadLimit, Unmanaged
from penstock.settings import AdmissionSettings

QUERY = QueryName("q")


def build(*sources: SourceSpec, latency: float | None = 5.0, enforced: bool = True) -> QueryLogic:
    spec = QuerySpec(QUERY, sources or (SourceSpec(0, "s", LimitUnit.ROWS),))
    return QueryLogic(spec, Goal(latency=latency), AdmissionSettings(batch_share_of_goal=0.5), enforced=enforced)


def batch(batch_id: int, duration_s: float, *sources: SourceSignal) -> BatchSignal:
    rows = sum(source.rows for source in sources)
    return BatchSignal(QUERY, batch_id, batch_id * 10.0, duration_s, rows, sources)


def limits(decisions: list[Decision]) -> dict[str, float]:
    return {decision.target: float(decision.units) for decision in decisions if isinstance(decision, ReadLimit)}


def test_first_limits_by_unit() -> None:
    """Rows are split over the sources that take rows; a file source starts with one file, a byte source with 1 MiB."""
    logic = build(
        SourceSpec(0, "kafka", LimitUnit.ROWS),
        SourceSpec(1, "files", LimitUnit.FILES),
        SourceSpec(2, "b", LimitUnit.BYTES),
    )
    assert limits(logic.on_start()) == {"source 0": 333.0, "source 1": 1.0, "source 2": 1_048_576.0}


def test_without_a_latency_goal_nothing_is_decided() -> None:
    """A goal that says nothing of latency leaves admission alone."""
    logic = build(latency=None)
    assert logic.on_start() == []
    assert logic.on_batch(batch(0, 9.0, SourceSignal(0, 10, 10.0, 1e9))) == []


def test_the_first_batch_teaches_nothing() -> None:
    """Code generation and cold workers make the first batch slow; it must not shrink the second."""
    logic = build()
    logic.on_start()
    assert logic.on_batch(batch(0, 30.0, SourceSignal(0, 1000, 1000.0, 1e6))) == []
    assert logic.batch_time.batches == 0


def test_a_short_first_batch_makes_room_for_a_larger_one() -> None:
    """Its rows took a tenth of the goal at the most, so four times as many are within it whatever they cost."""
    logic = build()
    logic.on_start()
    assert limits(logic.on_batch(batch(0, 0.5, SourceSignal(0, 1000, 1000.0, 1e6)))) == {"source 0": 4000.0}
    assert logic.batch_time.batches == 0


def test_a_source_left_alone_gets_no_limit_and_its_rows_count() -> None:
    """A source that cannot be limited is never in a decision, and takes its part of the budget."""
    logic = build(SourceSpec(0, "kafka", LimitUnit.ROWS), SourceSpec(1, "rate", None, reason="takes no limit"))
    assert limits(logic.on_start()) == {"source 0": 1000.0}
    for index in range(6):
        decisions = logic.on_batch(
            batch(index, 0.5, SourceSignal(0, 1000, 1000.0, 1e6), SourceSignal(1, 200, 200.0, None))
        )
        assert "source 1" not in limits(decisions)


def test_the_configured_limit_stays_an_upper_bound() -> None:
    """However much would fit, a source never reads more than its own option says."""
    logic = build(SourceSpec(0, "kafka", LimitUnit.ROWS, own_limit_units=1500))
    logic.on_start()
    values = [
        value
        for index in range(8)
        for value in limits(logic.on_batch(batch(index, 0.2, SourceSignal(0, 1500, 1500.0, 1e6)))).values()
    ]
    assert values
    assert max(values) == 1500.0


def test_a_single_file_larger_than_the_budget_is_still_read() -> None:
    """Files of a million rows that take ten seconds each: the limit stays at one file and never wedges."""
    logic = build(SourceSpec(0, "files", LimitUnit.FILES))
    logic.on_start()
    for index in range(6):
        logic.on_batch(batch(index, 10.0, SourceSignal(0, 1_000_000, 1.0, 5e6)))
    assert logic.snapshot().sources[0].limit_units == 1


def test_file_limits_follow_the_rows_in_a_file() -> None:
    """With 100 rows in a file, the limit in files is the budget in rows over 100."""
    logic = build(SourceSpec(0, "files", LimitUnit.FILES))
    logic.on_start()
    files = 1.0
    for index in range(30):
        rows = int(files * 100)
        decisions = logic.on_batch(batch(index, 0.2 + rows * 1e-4, SourceSignal(0, rows, files, 1e6)))
        files = float(limits(decisions).get("source 0", files))
    assert files * 100 * 1e-4 + 0.2 == pytest.approx(2.5, rel=0.1)


def test_limits_of_two_sources_are_shared_by_their_lag() -> None:
    """The source with nine times the lag gets about nine times the rows."""
    logic = build(SourceSpec(0, "a", LimitUnit.ROWS), SourceSpec(1, "b", LimitUnit.ROWS))
    share = {"source 0": 500.0, "source 1": 500.0}
    logic.on_start()
    for index in range(30):
        a, b = int(share["source 0"]), int(share["source 1"])
        signal = batch(
            index, 0.2 + (a + b) * 2e-5, SourceSignal(0, a, float(a), 9e6), SourceSignal(1, b, float(b), 1e6)
        )
        share |= limits(logic.on_batch(signal))
    assert share["source 0"] / share["source 1"] == pytest.approx(9.0, rel=0.1)


def test_a_source_that_ignores_its_limit_is_left_alone_with_the_reason() -> None:
    """Three batches far above the limit prove that the source does not obey; decisions about it end."""
    logic = build()
    logic.on_start()
    slow = [batch(index, 10.0, SourceSignal(0, 900_000, 900_000.0, 0.0)) for index in range(8)]
    decided = [logic.on_batch(signal) for signal in slow]
    blamed = [index for index, decisions in enumerate(decided) for a in decisions if isinstance(a, Unmanaged)]
    assert blamed == [2]
    assert all(limits(decisions) == {} for decisions in decided[3:])
    observed = build(enforced=False)
    observed.on_start()
    for signal in slow:
        found = observed.on_batch(signal)
        assert not any(isinstance(decision, Unmanaged) for decision in found)


def test_unknown_lag_is_not_a_lag_of_zero() -> None:
    """A source that does not tell its lag is limited by what fits, and nothing is said of overload."""
    logic = build()
    logic.on_start()
    for index in range(20):
        rows = int(logic.budget_rows)
        decisions = logic.on_batch(batch(index, 0.2 + rows * 2e-5, SourceSignal(0, rows, float(rows), None)))
        assert all(isinstance(decision, ReadLimit) for decision in decisions)
    assert logic.budget_rows == pytest.approx(2.3 / 2e-5, rel=0.1)


@pytest.mark.parametrize(
    ("latency_s", "interval_s", "expected_s"),
    [(5.0, 0.0, 2.5), (5.0, 2.5, 2.5), (5.0, 3.0, 2.0), (5.0, 10.0, 0.5), (None, 1.0, None)],
)
def test_target_batch_length(latency_s: float | None, interval_s: float, expected_s: float | None) -> None:
    """Half the goal, or what a long trigger interval leaves of it, and never nothing."""
    assert target_batch_s(Goal(latency=latency_s), interval_s, 0.5) == expected_s
