"""Learned times of service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.estimate.service_time import ServiceTime, ServiceTimeState


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_lie_between_what_was_seen(seconds: list[float], probability: float) -> None:
    """Within the window's smallest and largest, and the same again from a snapshot."""
    learned = ServiceTime(window=10)
    for value in seconds:
        learned.observe(value)
    found = learned.quantile_s(probability)
    assert found is not None
    assert min(seconds[-10:]) - 1e-6 <= found <= max(seconds[-10:]) + 1e-6
    assert ServiceTime(10, learned.snapshot()).quantile_s(probability) == found


def test_what_is_no_time_is_not_learned() -> None:
    """Neither NaN nor infinity nor a time before the request."""
    learned = ServiceTime(4, ServiceTimeState((3.0,)))
    for nothing in (float("nan"), float("inf"), -1.0):
        learned.observe(nothing)
    assert learned.snapshot().observed_s == (3.0,)
    with pytest.raises(ValueError, match="window 0"):
        ServiceTime(0)
