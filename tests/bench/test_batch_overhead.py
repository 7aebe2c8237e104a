"""What is made of the batches of turns; to measure any takes Spark, and a machine that does nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.bench.batch_overhead import COMPARED, GUARD, TWO_GUARDS, BatchOverheadResult, Bustle, Pair

QUIET = Bustle(0.1, 0.4, 0.02)


def pairs_of(added_ms: float, *, plain_ms: float = 200.0, drift_ms: float = 0.0, seed: int = 1) -> tuple[Pair, ...]:
    """Five pairs of twenty batches, each pair on a slower machine than the one before."""
    draw = np.random.default_rng(seed)
    noise = [tuple(draw.normal(0.0, 10.0, 20)) for _ in range(10)]
    return tuple(
        Pair(
            tuple(plain_ms + number * drift_ms + each for each in noise[2 * number]),
            tuple(plain_ms + added_ms + number * drift_ms + each for each in noise[2 * number + 1]),
        )
        for number in range(5)
    )


@pytest.mark.parametrize("drift_ms", [0.0, 50.0])
def test_a_machine_that_gets_slower_is_not_a_guard_s(drift_ms: float) -> None:
    """What is added is told from pairs, and the interval holds it, however the machine drifts between them."""
    result = BatchOverheadResult({GUARD: pairs_of(30.0, drift_ms=drift_ms)}, QUIET)
    low_ms, high_ms = result.interval_ms(GUARD)
    assert low_ms <= result.added_ms(GUARD) <= high_ms
    assert low_ms <= 30.0 <= high_ms
    assert high_ms - low_ms < 20.0


def test_bounds_are_those_of_one_guard_and_of_two() -> None:
    """One guard may add 40 ms, or a tenth of a batch that is long; two may add 60 ms to any."""
    long = BatchOverheadResult({mode: pairs_of(55.0, plain_ms=600.0) for mode in (GUARD, TWO_GUARDS)}, QUIET)
    short = BatchOverheadResult({mode: pairs_of(55.0) for mode in (GUARD, TWO_GUARDS)}, QUIET)
    assert (long.is_met(GUARD), short.is_met(GUARD)) == (True, False)
    assert (long.allowed_ms(TWO_GUARDS), short.allowed_ms(TWO_GUARDS)) == (60.0, 60.0)


def test_figures_say_how_busy_the_machine_was() -> None:
    """Whoever reads a figure sees its spread, and what else was at work."""
    document = BatchOverheadResult({mode: pairs_of(30.0) for mode in COMPARED}, QUIET).to_dict()
    assert document["cores_busy_with_others"] == 0.02
    assert document["rounds"] == 5
    rows = document["rows"]
    assert isinstance(rows, list)
    assert [row["mode"] for row in rows] == list(COMPARED)
    assert all(row["added_low_ms"] <= row["added_ms"] <= row["added_high_ms"] for row in rows)
