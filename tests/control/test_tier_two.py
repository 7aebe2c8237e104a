"""CPU control, tokens and feedback: what tier two does from step to step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.control.cpu import LEAST_WEIGHT, cpu_shares
from penstock.control.feedback import ReaderReport, allowed_output, smallest_output
from penstock.control.flow import FlowLaw, flow_maximum
from penstock.control.lqr import flow_gains
from penstock.control.tokens import TokenBucket
from penstock.errors import InvalidSettingError

_cores = st.floats(0.0, 4.0)
_members = st.lists(st.tuples(_cores, st.floats(0.0, 1000.0), _cores), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@example([(0.0, 1.0, 1.0), (2.220446049250313e-16, 4.0, 2.700329654640757)], 4.0)  # full but for rounding
@given(_members, st.floats(0.1, 8.0))
def test_shares_hold_their_bounds(members: list[tuple[float, float, float]], cores: float) -> None:
    """No element gets more than Eq. 8 allows, all together no more than the cores, and no core idles without cause."""
    tokens, occupancies, bounds = (np.array(column) for column in zip(*members, strict=True))
    shares = cpu_shares(tokens, occupancies, bounds, cores)
    assert np.all(shares >= 0)
    assert np.all(shares <= bounds + 1e-9)
    assert shares.sum() <= cores + 1e-9
    usable = bounds[occupancies > LEAST_WEIGHT].sum()
    assert shares.sum() == pytest.approx(min(cores, usable), abs=1e-6)


def test_tokens_come_first() -> None:
    """Cores go to those who have earned them before they go to anybody else."""
    shares = cpu_shares(np.array([0.0, 1.0]), np.array([50.0, 1.0]), np.array([1.0, 1.0]), 1.0)
    assert shares.tolist() == [0.0, 1.0]


def test_equal_tokens_follow_occupancy() -> None:
    """Among those with tokens the fuller buffer gets more, in proportion."""
    shares = cpu_shares(np.array([1.0, 1.0]), np.array([30.0, 10.0]), np.array([1.0, 1.0]), 1.0)
    assert shares == pytest.approx([0.75, 0.25])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 200), st.floats(1, 100)), min_size=1, max_size=30))
def test_compiled_law_is_the_law(steps: list[tuple[float, float, float]]) -> None:
    """The flow law for compiled loops gives what the live one gives, step for step."""
    gains = flow_gains(delay_steps=2, effort=4.0)
    law = FlowLaw(gains)
    lambdas, mus = np.array(gains.lambdas), np.array(gains.mus)
    past, errors = np.zeros(1), np.zeros(2)
    for rate, buffer, target in steps:
        live = law.maximum(rate=rate, buffer=buffer, target=target)
        law.granted(live)
        assert flow_maximum(rate, buffer - target, lambdas, mus, past, errors) == pytest.approx(live)


def test_bucket_keeps_to_its_target() -> None:
    """Over a long time an element spends what it earned and not more than a bucket beyond."""
    bucket = TokenBucket(rate_cores=0.3, depth_s=0.5)
    spent_s = 0.0
    for _ in range(1000):
        bucket.elapse(0.1)
        used_s = min(0.08, max(0.0, bucket.tokens_s))
        bucket.spend(used_s)
        spent_s += used_s
    assert spent_s == pytest.approx(30.0, abs=0.5)
    with pytest.raises(InvalidSettingError):
        TokenBucket(rate_cores=0.3, depth_s=0.0)


def test_max_flow_against_min_flow() -> None:
    """Figure 2 of the paper: readers of 10, 20, 20 and 30 rows/s get 30 by max-flow and 10 by min-flow."""
    rates = {"pe2": 10.0, "pe3": 20.0, "pe4": 20.0, "pe5": 30.0}
    reports = {name: ReaderReport(rate, 5.0) for name, rate in rates.items()}
    assert allowed_output(reports, dict.fromkeys(rates, 1.0), now_s=5.0, stale_after_s=1.0) == 30.0
    assert smallest_output(rates.values()) == 10.0


def test_silent_reader_counts_with_its_target() -> None:
    """A report that is late is used while it is fresh; a reader silent for longer counts with its target."""
    report = {"r": ReaderReport(500.0, 10.0)}
    assert allowed_output(report, {"r": 40.0}, now_s=10.9, stale_after_s=1.0) == 500.0
    assert allowed_output(report, {"r": 40.0}, now_s=11.1, stale_after_s=1.0) == 40.0
    assert allowed_output({}, {"r": 40.0}, now_s=0.0, stale_after_s=1.0) == 40.0
    assert allowed_output({}, {}, now_s=0.0, stale_after_s=1.0) is None
