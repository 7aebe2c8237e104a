"""Sharing a budget over sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.control.sharing import share_rows


@given(st.floats(1, 1e9), st.lists(st.one_of(st.none(), st.floats(0, 1e9)), min_size=1, max_size=8))
def test_shares_add_up_to_the_budget(budget: float, demands: list[float | None]) -> None:
    """Nothing of the budget is lost or invented, and no share is negative."""
    shares = share_rows(budget, demands)
    assert sum(shares) == pytest.approx(budget)
    assert all(share >= 0 for share in shares)


@given(st.lists(st.integers(0, 1_000_000), min_size=1, max_size=8))
def test_no_source_is_cut_while_all_of_them_fit(demands: list[int]) -> None:
    """A budget above the sum of the demands leaves each source at least its own."""
    shares = share_rows(sum(demands) * 1.01 + 1, demands)
    assert all(share >= demand * (1 - 1e-9) for share, demand in zip(shares, demands, strict=True))


def test_a_query_without_sources_shares_nothing() -> None:
    """No sources, no shares."""
    assert share_rows(100.0, []) == ()
