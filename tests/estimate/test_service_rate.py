"""The service rate is found again from what it produced."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.estimate.service_rate import ServiceRate, fit_service_rate


def test_fit_finds_a_noisy_rate() -> None:
    """From 200 noisy moments, ``a`` and ``b`` come out within a few per cent."""
    generator = np.random.default_rng(1)
    truth = ServiceRate(275.0, 20.0)
    cores = generator.uniform(0.0, 1.0, 200)
    rows = [truth.rows_per_s(value) * generator.normal(1.0, 0.03) for value in cores]
    found = fit_service_rate(cores.tolist(), rows)
    assert found is not None
    assert found.rows_per_core_s == pytest.approx(275.0, rel=0.03)
    assert found.idle_rows_per_s == pytest.approx(20.0, abs=4.0)


def test_nothing_seen_gives_nothing() -> None:
    """Without a moment that had rows there is no rate, and unknown values are left out."""
    assert fit_service_rate([], []) is None
    assert fit_service_rate([0.5, float("nan")], [0.0, 10.0]) is None


def test_rate_is_never_below_zero() -> None:
    """The printed ``a c - b`` is below zero for few cores; the rate is not."""
    rate = ServiceRate(100.0, 20.0)
    assert 100.0 * 0.1 - 20.0 < 0
    assert rate.rows_per_s(0.1) == 0.0
    assert rate.cores_for(0.0) == 0.0
