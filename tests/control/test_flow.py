"""The flow law against its printed form, and its gains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.flow import FlowLaw
from penstock.control.lqr import FlowGains, flow_gains

_gain = st.floats(0.0, 1.0)
_amount = st.floats(0.0, 1e6)
_step = st.tuples(_amount, _amount, st.floats(1.0, 1e6))


def printed_equation_7(
    step: int,
    rho: list[float],
    buffer: list[float],
    target: list[float],
    r_max: list[float],
    gains: FlowGains,
) -> float:
    """Eq. 7 term by term, with the past before the first step as zero deviation."""
    total = rho[step]
    for k, gain in enumerate(gains.lambdas):
        if step - k >= 0:
            total -= gain * (buffer[step - k] - target[step - k])
    for index, gain in enumerate(gains.mus, start=1):
        if step - index >= 0:
            total -= gain * (r_max[step - index] - rho[step - index])
    return max(0.0, total)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(_step, min_size=1, max_size=12),
    st.lists(_gain, min_size=1, max_size=4),
    st.lists(_gain, min_size=0, max_size=4),
)
def test_flow_law_is_the_printed_equation(
    steps: list[tuple[float, float, float]], lambdas: list[float], mus: list[float]
) -> None:
    """For any gains and any history, the law gives what Eq. 7 gives."""
    gains = FlowGains(tuple(lambdas), tuple(mus))
    law = FlowLaw(gains)
    rho, buffer, target = ([step[i] for step in steps] for i in range(3))
    r_max: list[float] = []
    for n in range(len(steps)):
        got = law.maximum(rate=rho[n], buffer=buffer[n], target=target[n])
        assert got == pytest.approx(printed_equation_7(n, rho, buffer, target, r_max, gains), rel=1e-9, abs=1e-6)
        law.granted(got)
        r_max.append(got)


@pytest.mark.parametrize("delay", [0, 1, 2, 5])
@pytest.mark.parametrize("effort", [0.1, 1.0, 4.0, 100.0])
def test_gains_make_the_delayed_buffer_stable(delay: int, effort: float) -> None:
    """All eigenvalues of the closed loop lie inside the unit circle, for every delay and effort."""
    gains = flow_gains(delay_steps=delay, effort=effort)
    size = delay + 1
    closed = np.zeros((size, size))
    closed[0, 0] = 1.0
    row = -np.array([gains.lambdas[0], *gains.mus])
    if delay == 0:
        closed[0] += row
    else:
        closed[0, delay] = 1.0
        closed[1] += row
        for index in range(2, size):
            closed[index, index - 1] = 1.0
    assert np.abs(np.linalg.eigvals(closed)).max() < 1.0


def test_more_effort_means_a_smaller_gain_on_the_buffer() -> None:
    """A dear movement of the rate makes the controller chase the buffer less."""
    gains = [flow_gains(delay_steps=1, effort=effort).lambdas[0] for effort in (0.1, 1.0, 10.0, 100.0)]
    assert gains == sorted(gains, reverse=True)


def test_without_delay_the_gain_solves_the_scalar_riccati_equation() -> None:
    """With S the positive root of S = S + 1 - S^2 / (R + S), the gain is S / (R + S)."""
    for effort in (0.5, 1.0, 7.0):
        solution = (1 + np.sqrt(1 + 4 * effort)) / 2
        assert flow_gains(delay_steps=0, effort=effort).lambdas[0] == pytest.approx(solution / (effort + solution))
