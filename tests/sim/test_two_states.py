"""Two-state elements from measured costs."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidSettingError
from penstock.sim.two_states import fit_two_states


def test_states_are_found_again() -> None:
    """Costs drawn from two noisy states give back both of them, their share and how long they last."""
    draw = np.random.default_rng(1)
    slow = np.repeat(draw.permutation([True, False] * 40), 5)
    costs = np.where(slow, 0.02, 0.002) * draw.lognormal(0.0, 0.1, slow.size)
    found = fit_two_states(costs.tolist(), rows_per_batch=1.0)
    assert found.fast_s == pytest.approx(0.002, rel=0.1)
    assert found.slow_s == pytest.approx(0.02, rel=0.1)
    # As many rows in either state, so the slow one has ten parts in eleven of the time.
    assert found.slow_share == pytest.approx(10 / 11, abs=0.02)
    runs = 1 + np.count_nonzero(np.diff(slow.astype(int)))
    mean_row_s = 0.002 / 11 + 0.02 * 10 / 11
    assert found.burstiness_rows == pytest.approx(costs.sum() / runs / mean_row_s, rel=0.05)


def test_one_state_stays_one() -> None:
    """A query of even cost gets two states of the same cost, which is an element without bursts."""
    found = fit_two_states([0.005] * 20, rows_per_batch=100.0)
    assert found.fast_s == pytest.approx(found.slow_s)
    assert found.burstiness_rows == pytest.approx(2000.0)


@pytest.mark.parametrize("costs", [[], [0.1], [0.1, 0.0], [0.1, float("nan")]])
def test_costs_that_tell_nothing_are_refused(costs: list[float]) -> None:
    """Too few costs, and costs of nothing, are refused by name."""
    with pytest.raises(InvalidSettingError, match="row costs"):
        fit_two_states(costs, rows_per_batch=1.0)
