"""Rates and lag from offsets, in numbers."""

from __future__ import annotations

import pytest

from penstock.estimate.lag import partition_lag
from penstock.estimate.offset_rate import OffsetRate


def test_a_rate_is_over_the_window_and_forgets_what_lies_before() -> None:
    """After a step the old rate is gone as soon as the window has passed."""
    rate, end = OffsetRate(window_s=3.0), 0
    for second in range(10):
        rate.update(float(second), {("t", 0): end})
        end += 100 if second < 5 else 900
    assert rate.by_topic() == {"t": 900.0}
    assert len(rate.snapshot()) == 4


def test_a_new_partition_counts_from_its_beginning() -> None:
    """Its records arrived within the window, so they are part of the rate."""
    rate = OffsetRate(window_s=10.0)
    rate.update(0.0, {("t", 0): 100})
    rate.update(2.0, {("t", 0): 300, ("t", 1): 50})
    assert rate.by_partition() == {("t", 0): 100.0, ("t", 1): 25.0}


def test_a_topic_made_anew_begins_anew() -> None:
    """An offset that went back must not give a negative rate."""
    rate = OffsetRate(window_s=10.0)
    for second, end in enumerate((1000, 2000, 10, 30)):
        rate.update(float(second), {("t", 0): end})
    assert rate.by_topic() == {"t": 20.0}


def test_a_look_out_of_order_is_passed_over() -> None:
    """Two looks at one moment would divide by zero."""
    rate = OffsetRate(window_s=10.0)
    for second, end in ((1.0, 10), (1.0, 20), (0.5, 5), (2.0, 30)):
        rate.update(second, {("t", 0): end})
    assert rate.by_topic() == {"t": 20.0}


def test_a_snapshot_goes_on_where_it_was() -> None:
    """An estimator built from a snapshot gives the same rates."""
    rate = OffsetRate(window_s=10.0)
    rate.update(0.0, {("t", 0): 0})
    again = OffsetRate(10.0, rate.snapshot())
    for one in (rate, again):
        one.update(4.0, {("t", 0): 100})
    assert rate.by_partition() == again.by_partition() == {("t", 0): 25.0}


def test_a_window_without_length_is_refused() -> None:
    """It would never hold two looks."""
    with pytest.raises(ValueError, match="above zero"):
        OffsetRate(0.0)


def test_lag_is_what_waits_in_every_partition() -> None:
    """Behind, level, new, and made anew."""
    read = {"t": {0: 5, 1: 9, 3: 80}}
    ends = {"t": {0: 8, 1: 9, 2: 4, 3: 7}}
    assert partition_lag(read, ends) == {("t", 0): 3, ("t", 1): 0, ("t", 2): 4, ("t", 3): 7}
