"""Shedder and operator in one loop, row by row: what the operator learns comes back to the shedder in time.

Before a row arrives, the operator has executed all rows that end by then; their keys and times go into its sketch, and
its messages reach the shedder. The decisions are the very functions that the live strategies call.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.shedding import economic
from penstock.control.shedding.accuracy import count_row
from penstock.control.shedding.economic import MEASURED, economic_row, learn_wait
from penstock.control.shedding.queue import BUSY_UNTIL, keeps_row
from penstock.estimate.compiled import compiled
from penstock.estimate.sketch import add_row_fading, cost_of, mean_cost
from penstock.estimate.sketch_state import NOP, RUN, SEND, operator_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

ECONOMIC_BUSY_UNTIL = economic.BUSY_UNTIL
NOBODY = -1
MEAN_OVER_ROWS = 1024.0


@compiled
def run_load_aware(
    keys: NDArray[np.uint64],
    costs: NDArray[np.float64],
    arrivals: NDArray[np.float64],
    hashes: NDArray[np.uint64],
    model: NDArray[np.float64],
    phase: int,
    operator_cells: NDArray[np.float64],
    operator_ratios: NDArray[np.float64],
    operator_state: NDArray[np.int64],
    window_rows: int,
    tolerance: float,
    raised: float,
    prior_rows: float,
    threshold: float,
    constraint: int,
    state: NDArray[np.float64],
    window: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Listings III.1 and III.2 side by side; gives which rows were kept. ``model`` is what the shedder knows."""
    keep = np.empty(keys.size, np.bool_)
    queued = np.empty(keys.size, np.int64)
    ends = np.empty(keys.size)
    waiting, done, free = 0, 0, 0.0
    outbox = np.empty_like(model)
    mean = mean_cost(model)
    asked, expected = NOBODY, 0.0
    for index in range(keys.size):
        arrival = arrivals[index]
        while done < waiting and ends[done] <= arrival:
            row = queued[done]
            if done == asked:
                state[BUSY_UNTIL] += ends[done] - expected
                asked = NOBODY
            if operator_row(
                operator_cells, hashes, operator_ratios, outbox, operator_state,
                window_rows, tolerance, keys[row], costs[row],
            ):  # fmt: skip
                model[:] = outbox
                mean = mean_cost(model)
                phase = SEND
            done += 1
        if phase == NOP:
            keep[index] = True
            count_row(state, True)
        else:
            estimate = cost_of(model, hashes, keys[index], mean, prior_rows) * raised
            keep[index] = keeps_row(arrival, estimate, threshold, constraint, 0.0, state, window)
        if keep[index]:
            free = max(free, arrival) + costs[index]
            queued[waiting] = index
            ends[waiting] = free
            if phase == SEND:
                asked, expected = waiting, state[BUSY_UNTIL]
                phase = RUN
            waiting += 1
    return keep


@compiled
def run_economic(
    keys: NDArray[np.uint64],
    costs: NDArray[np.float64],
    arrivals: NDArray[np.float64],
    uniforms: NDArray[np.float64],
    hashes: NDArray[np.uint64],
    cells: NDArray[np.float64],
    memory_rows: float,
    prior_rows: float,
    batch_rows: int,
    threshold: float,
    thrift: float,
    gain: float,
    smallest: float,
    state: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Economic shedding that learns from every executed row and puts its queue right after each batch of them."""
    keep = np.empty(keys.size, np.bool_)
    probability = np.empty(keys.size)
    queued = np.empty(keys.size, np.int64)
    ends = np.empty(keys.size)
    expected = np.empty(keys.size)
    waiting, done, free = 0, 0, 0.0
    mean = mean_cost(cells)
    corrected = 0.0
    state[MEASURED] = 1.0
    for index in range(keys.size):
        arrival = arrivals[index]
        while done < waiting and ends[done] <= arrival:
            row = queued[done]
            add_row_fading(cells, hashes, keys[row], costs[row], memory_rows)
            mean = costs[row] if math.isnan(mean) else mean + (costs[row] - mean) / MEAN_OVER_ROWS
            learn_wait(ends[done] - costs[row] - arrivals[row], threshold, gain, state)
            if (done + 1) % batch_rows == 0:
                # Part of the error of a row let through earlier has been put right since, by the answers in between.
                late = ends[done] - expected[done] - corrected
                state[ECONOMIC_BUSY_UNTIL] += late
                corrected += late
            done += 1
        if math.isnan(mean):
            keep[index], probability[index] = True, 1.0
            count_row(state, True)
        else:
            estimate = cost_of(cells, hashes, keys[index], mean, prior_rows)
            signed = economic_row(
                arrival, estimate, 1.0, uniforms[index], threshold, thrift, gain, smallest, 0.0, state
            )
            keep[index], probability[index] = signed > 0.0, abs(signed)
        if keep[index]:
            free = max(free, arrival) + costs[index]
            queued[waiting] = index
            ends[waiting] = free
            expected[waiting] = state[ECONOMIC_BUSY_UNTIL] - corrected
            waiting += 1
    return keep, probability
