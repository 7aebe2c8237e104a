"""Scaling policies: their formulas on a few samples, the misprints of the thesis, and loops in virtual time."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.control.scaling import (
    DynamicAllocation,
    Guarded,
    GuardSettings,
    HorizontalPod,
    Reactive,
    StaticPeak,
)
from penstock.control.scaling.capacity import Capacity
from penstock.control.scaling.clairvoyant import cheapest_plan
from penstock.control.scaling.reactive import ReactiveState
from penstock.errors import InvalidSettingError
from penstock.estimate.effect import Expectation
from penstock.estimate.topics import TopicCosts
from penstock.model.executors import ExecutorBounds
from penstock.model.scaling import ScaleKind, ScalingSignal
from penstock.research.hysteresis import Gains


def _seen(time_s: float, executors: int, demand: float, backlog_ratio: float, **more: float) -> ScalingSignal:
    values = {"processed_rows_per_s": demand, "busy_share": 0.5, "backlog_rows": 0.0} | more
    return ScalingSignal(time_s, executors, executors, demand, backlog_ratio=backlog_ratio, **values)  # type: ignore[arg-type]


def test_reactive_scales_down_across_samples() -> None:
    """The counter lives across samples; set to zero in each of them, as printed, it never comes to ten."""
    policy = Reactive(limit=0.1)
    policy.decide(_seen(15.0, 2, 2_000.0, 0.3))
    sizes = [policy.decide(_seen(30.0 + 15.0 * step, 3, 1_000.0, 0.01)).executors for step in range(10)]
    assert sizes == [3] * 9 + [2]

    printed = 0
    for _ in range(100):
        counter = 0
        counter += 1
        printed += counter >= 9
    assert printed == 0


def test_reactive_aims_at_the_load_not_at_the_sum() -> None:
    """Scaling up comes to ceil(w / w_max) executors; adding that many would come to nine here."""
    policy = Reactive(limit=0.1)
    policy.restore(ReactiveState(Capacity(1_000.0, 49)))
    assert policy.decide(_seen(400.0, 3, 5_500.0, 0.5)).executors == 6


def test_capacity_follows_the_mean_of_violations() -> None:
    """Algorithm 1 on three violations."""
    capacity = Capacity()
    for demand, executors in ((900.0, 1), (2_200.0, 2), (3_000.0, 3)):
        capacity = capacity.violated(demand, executors=executors)
    assert capacity.rows_per_s == pytest.approx(1_000.0)
    assert capacity.violated(0.0, executors=2) == capacity


def test_hysteresis_of_the_thesis() -> None:
    """Alpha 0.9 and beta 0.4, rounded so that a distance of one is gone in one step."""
    assert [Gains().step(1, target) for target in (1, 2, 5, 11)] == [1, 2, 5, 10]
    assert [Gains().step(10, target) for target in (9, 8, 5, 1)] == [9, 9, 8, 6]
    with pytest.raises(InvalidSettingError, match="gain up"):
        Gains(up=0.0)


def test_horizontal_pod_waits_to_go_down() -> None:
    """Down only by the largest wish of five minutes, up at once but no more than double or four."""
    rule = HorizontalPod()
    assert rule.decide(_seen(0.0, 2, 1.0, 0.0, busy_share=1.0)).executors == 3
    assert rule.decide(_seen(15.0, 3, 1.0, 0.0, busy_share=0.82)).executors == 3
    assert rule.decide(_seen(30.0, 3, 1.0, 0.0, busy_share=0.2)).executors == 3
    assert rule.decide(_seen(340.0, 3, 1.0, 0.0, busy_share=0.2)).executors == 1


def test_dynamic_allocation_begins_anew_at_its_bounds() -> None:
    """Where fewer came than were asked for it adds one again, as Spark does, instead of doubling for ever."""
    rule = DynamicAllocation()
    waiting = {"busy_share": 1.0, "batch_s": 4.0}
    sizes = [
        rule.decide(_seen(15.0 * step, size, 1.0, 0.2, **waiting)).executors for step, size in enumerate((4, 5, 7))
    ]
    assert sizes == [5, 7, 11]
    bounded = [rule.decide(_seen(60.0 + 15.0 * step, 8, 1.0, 0.2, **waiting)).executors for step in range(500)]
    assert max(bounded) <= 10


@pytest.mark.parametrize("start_s", [0.0, 45.0, 200.0])
def test_clairvoyant_is_the_cheapest(start_s: float) -> None:
    """No other plan of these lengths is cheaper: all of them are tried."""
    generator = np.random.default_rng(5)
    for _ in range(8):
        needed = generator.integers(1, 4, 6)
        plan = cheapest_plan(needed, step_s=60.0, start_s=start_s, most=4)
        assert np.all(plan >= needed)

        def cost(sizes: np.ndarray) -> np.ndarray:
            return sizes.sum(axis=-1) * 60.0 + start_s * np.maximum(np.diff(sizes, axis=-1), 0).sum(axis=-1)

        plans = np.stack(np.meshgrid(*[np.arange(1, 5)] * 6, indexing="ij"), axis=-1).reshape(-1, 6)
        allowed = plans[(plans >= needed).all(axis=1)]
        assert cost(plan) == pytest.approx(float(cost(allowed).min()))


def test_request_above_capacity_is_infeasible_and_told() -> None:
    """A wish beyond the bounds is cut, marked, and says how much was wished for."""
    decision = Guarded(StaticPeak(64), GuardSettings(ExecutorBounds(1, 16))).decide(_seen(0.0, 4, 100.0, 0.1))
    assert (decision.kind, decision.executors, decision.wanted) == (ScaleKind.INFEASIBLE, 16, 64)
    assert "64 exceeds max_executors = 16" in decision.reason


def test_action_without_effect_is_not_repeated() -> None:
    """Executors that did not help are not asked for again for a while, and the reason says what was seen."""
    limits = GuardSettings(ExecutorBounds(1, 20), effect_s=60.0, block_s=600.0)
    scaler = Guarded(Reactive(limit=0.1), limits)
    size, reasons = 4, []
    for step in range(30):
        # A bottleneck elsewhere: 900 rows/s whatever the number of executors, and a queue that grows.
        signal = _seen(30.0 * step, size, 1_500.0, 1.0 + step, processed_rows_per_s=900.0, backlog_rows=9e4)
        decision = scaler.decide(signal)
        size = decision.executors
        reasons.append(decision.reason)
    blocked = [reason for reason in reasons if "did not help: 900 rows/s before, 900 after" in reason]
    assert len(blocked) > 10
    assert size < 20


def test_expectation_counts_relief() -> None:
    """A queue that shrank by a fifth is help, even with the same throughput."""
    expected = Expectation(0.0, before=2, after=4, processed_rows_per_s=100.0, backlog_ratio=2.0)
    assert expected.has_helped(processed_rows_per_s=100.0, backlog_ratio=1.5, limit=0.5)
    assert not expected.has_helped(processed_rows_per_s=100.0, backlog_ratio=1.9, limit=0.5)


def test_topics_of_unequal_cost_add_up_by_cost() -> None:
    """A shift from cheap to dear rows is more demand though the rows are as many; a sum of rates does not see it."""
    costs = TopicCosts(["cheap", "dear"], rows_per_s=1_000.0)
    for step in range(300):
        rates = {"cheap": 1_000.0 + 5.0 * (step % 60), "dear": 300.0 + 3.0 * (step % 37)}
        costs.update(rates, busy_executors=rates["cheap"] / 2_000.0 + rates["dear"] / 200.0)
    before = costs.demand({"cheap": 1_500.0, "dear": 500.0})
    after = costs.demand({"cheap": 500.0, "dear": 1_500.0})
    assert after / before == pytest.approx((0.25 + 7.5) / (0.75 + 2.5), rel=0.02)
