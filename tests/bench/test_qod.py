"""The benchmark of a fleet's cycle, small."""

from __future__ import annotations

from penstock.bench.qod import BenchFleet, measure_cycles
from penstock.model.fleet import StreamKeepRatio


def test_every_cycle_has_something_to_decide() -> None:
    """A cycle that is measured plans for all tasks and changes keep ratios: an idle one would measure nothing."""
    row = measure_cycles(100, 4, cycles=3)
    assert row["tasks"] == 100
    assert row["keep_ratios_changed"] > 10
    assert row["median_ms"] > 0


def test_a_cycle_gives_out_no_more_than_there_is() -> None:
    """What the benchmark measures is a plan that fits: low priorities are shed, and engines are not overbooked."""
    fleet = BenchFleet(200, 4)
    fleet.report()
    _, _, decisions = fleet.cycle()
    ratios = [each.keep_ratio for each in decisions if isinstance(each, StreamKeepRatio)]
    assert min(ratios) < 0.9
    assert all(0.0 <= ratio <= 1.0 for ratio in ratios)
