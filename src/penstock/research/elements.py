"""A graph of two-state elements on engines, row by row in virtual time.

Section VI of "Adaptive control of extreme-scale stream processing systems": for every row that an element takes from
its buffer it computes for ``T_0`` or ``T_1``, depending on its state, and then puts out ``M`` rows to all its readers.
An element executes one row at a time; a core that is free takes the next row from the element that the policy prefers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.control.tokens import earn, spend
from penstock.estimate.compiled import compiled_inline, compiled_lean
from penstock.research.chance import exponential, poisson
from penstock.research.element_control import control_flow, learn_prices
from penstock.research.element_rules import SHARES, WORTH_IT, may_go_on, may_run, may_send, preference
from penstock.research.kernel import Agenda, schedule, take_next

if TYPE_CHECKING:
    from penstock.research.plant import Control, Plant, State, Tally

COMPLETION_FIRST, ARRIVAL_SECOND, CONTROL_LAST = 0, 1, 2
# How fast an element's idea of what a row costs follows the last row.
COST_GAIN = 0.5


def source_priorities(plant: Plant) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Priority of each source of events: streams, then cores, then engines, then elements that sleep."""
    streams, cores, engines = plant.stream_reader.size, int(plant.cores.sum()), plant.cores.size
    return np.repeat(
        [ARRIVAL_SECOND, COMPLETION_FIRST, CONTROL_LAST, CONTROL_LAST], [streams, cores, engines, plant.engine.size]
    )


@compiled_lean
def run_elements(plant: Plant, control: Control, state: State, tally: Tally, agenda: Agenda, until_s: float) -> None:
    """Run a graph from its state to a moment; ``tally`` counts what happens after the warm-up."""
    streams, cores, engines = plant.stream_reader.size, state.core_element.size, plant.cores.size
    for stream in range(streams):
        _schedule_arrival(plant, state, agenda, stream, 0.0)
    for engine in range(engines):
        # Engines do not step together: nothing synchronises them.
        schedule(agenda, streams + cores + engine, control.step_s * (engine + 1) / engines)
        _look_again(state, engine)
    now_s = 0.0
    while now_s <= until_s:
        while state.dirty_count[0] > 0:
            state.dirty_count[0] -= 1
            engine = state.dirty[state.dirty_count[0]]
            state.is_dirty[engine] = False
            _dispatch(plant, control, state, tally, agenda, engine, now_s)
        source = take_next(agenda)
        if source < 0:
            break
        now_s = agenda.times_s[source]
        if source < streams:
            tally.events[0] += 1
            _arrive(plant, control, state, tally, source, now_s)
            _schedule_arrival(plant, state, agenda, source, now_s)
        elif source < streams + cores:
            tally.events[0] += 1
            _complete(plant, control, state, tally, agenda, source - streams, now_s)
        elif source < streams + cores + engines:
            engine = source - streams - cores
            _control(plant, control, state, tally, engine, now_s)
            _look_again(state, engine)
            schedule(agenda, source, now_s + control.step_s)
        else:
            element = source - streams - cores - engines
            state.is_asleep[element] = False
            _flush(plant, control, state, tally, agenda, element, now_s)


@compiled_inline
def _schedule_arrival(plant: Plant, state: State, agenda: Agenda, stream: int, now_s: float) -> None:
    rate = plant.stream_rows_per_s[stream]
    if rate > 0.0:
        schedule(agenda, stream, now_s + exponential(state.stream_chances, stream, 1.0 / rate))


@compiled_inline
def _look_again(state: State, engine: int) -> None:
    """Have the cores of an engine look for work before the next event."""
    if not state.is_dirty[engine]:
        state.is_dirty[engine] = True
        state.dirty[state.dirty_count[0]] = engine
        state.dirty_count[0] += 1


@compiled_inline
def _push(plant: Plant, state: State, element: int, entered_s: float) -> bool:
    capacity = state.waiting.shape[1]
    if state.rows[element] >= capacity:
        return False
    place = state.first[element] + state.rows[element]
    if place >= capacity:
        place -= capacity
    state.waiting[element, place] = entered_s
    state.rows[element] += 1
    _look_again(state, plant.engine[element])
    return True


@compiled_inline
def _arrive(plant: Plant, control: Control, state: State, tally: Tally, stream: int, now_s: float) -> None:
    element = plant.stream_reader[stream]
    limited = (control.has_flow_control or control.has_static_limit) and state.intake_credit[stream] <= 0.0
    if limited and control.has_flow_control:
        # As between elements: below its target a buffer takes a row, however small the last allowance.
        limited = state.rows[element] >= control.target_rows
    if not limited and _push(plant, state, element, now_s):
        state.intake_credit[stream] = max(0.0, state.intake_credit[stream] - 1.0)
    elif now_s >= control.warm_up_s:
        tally.refused[element] += 1


@compiled_inline
def _dispatch(
    plant: Plant, control: Control, state: State, tally: Tally, agenda: Agenda, engine: int, now_s: float
) -> None:
    """Give every free core of an engine the row that the policy prefers."""
    for core in range(state.first_core[engine], state.first_core[engine + 1]):
        if state.core_element[core] >= 0:
            continue
        best, best_value = -1, 0.0
        for place in range(plant.members_of[engine], plant.members_of[engine + 1]):
            element = plant.member[place]
            if control.sending == WORTH_IT and state.held[element] > 0 and state.rows[element] > 0:
                # It waited for a reader as long as it had nothing else to do; now it may have.
                _flush(plant, control, state, tally, agenda, element, now_s)
            if not may_run(plant, control, state, element):
                continue
            value = preference(plant, control, state, element)
            if best < 0 or value > best_value:
                best, best_value = element, value
        if best < 0:
            return
        _start(plant, control, state, tally, agenda, core, best, now_s)


@compiled_inline
def _start(
    plant: Plant,
    control: Control,
    state: State,
    tally: Tally,
    agenda: Agenda,
    core: int,
    element: int,
    now_s: float,
) -> None:
    first = state.first[element]
    state.core_entered_s[core] = state.waiting[element, first]
    state.first[element] = first + 1 if first + 1 < state.waiting.shape[1] else 0
    state.rows[element] -= 1
    state.running[element] += 1
    cost_s = _row_cost(plant, control, state, element, now_s)
    state.core_element[core] = element
    state.core_cost_s[core] = cost_s
    schedule(agenda, plant.stream_reader.size + core, now_s + cost_s)
    # A place has become free, which may be what an element before it sleeps for.
    _wake_feeders(plant, control, state, tally, agenda, element, now_s)


@compiled_inline
def _wake_feeders(
    plant: Plant, control: Control, state: State, tally: Tally, agenda: Agenda, element: int, now_s: float
) -> None:
    for place in range(plant.feeders_of[element], plant.feeders_of[element + 1]):
        feeder = plant.sender[plant.feeding_edge[place]]
        if state.held[feeder] > 0:
            if not state.is_asleep[feeder]:
                _flush(plant, control, state, tally, agenda, feeder, now_s)
        elif control.has_flow_control:
            _look_again(state, plant.engine[feeder])


@compiled_inline
def _row_cost(plant: Plant, control: Control, state: State, element: int, now_s: float) -> float:
    """CPU time of the next row, after moving the element's state on.

    A row keeps the state that it begins in, or is worked off at the speed of each state that it meets.
    """
    clock_s = state.cpu_s[element] if control.counts_cpu_time else now_s
    while state.next_switch_s[element] <= clock_s:
        _switch(plant, state, element)
    cost_s = float(plant.slow_s[element] if state.is_slow[element] else plant.fast_s[element])
    if control.keeps_state:
        return cost_s
    spent_s, left = 0.0, 1.0
    while state.next_switch_s[element] < clock_s + spent_s + left * cost_s:
        left -= (state.next_switch_s[element] - clock_s - spent_s) / cost_s
        spent_s = state.next_switch_s[element] - clock_s
        _switch(plant, state, element)
        cost_s = float(plant.slow_s[element] if state.is_slow[element] else plant.fast_s[element])
    return spent_s + left * cost_s


@compiled_inline
def _switch(plant: Plant, state: State, element: int) -> None:
    state.is_slow[element] = not state.is_slow[element]
    share = plant.slow_share[element] if state.is_slow[element] else 1.0 - plant.slow_share[element]
    state.next_switch_s[element] += exponential(state.chances, element, 2.0 * share * plant.state_time_s[element])


@compiled_inline
def _complete(
    plant: Plant, control: Control, state: State, tally: Tally, agenda: Agenda, core: int, now_s: float
) -> None:
    element, cost_s = state.core_element[core], state.core_cost_s[core]
    state.running[element] -= 1
    state.cpu_s[element] += cost_s
    state.row_cost_s[element] += COST_GAIN * (cost_s - state.row_cost_s[element])
    state.tokens[element] = spend(state.tokens[element], cost_s, control.bucket_s)
    state.share_credit_s[element] -= cost_s
    produced = poisson(state.chances, element, plant.selectivity[element])
    if now_s >= control.warm_up_s:
        _count_row(plant, tally, element, produced, cost_s, now_s - state.core_entered_s[core])
    if plant.readers_of[element] < plant.readers_of[element + 1] and produced > 0:
        state.output_credit[element] = max(0.0, state.output_credit[element] - produced)
        state.held[element] = produced
        state.held_since_s[element] = state.core_entered_s[core]
        _flush(plant, control, state, tally, agenda, element, now_s)
    state.core_element[core] = -1
    _look_again(state, plant.engine[element])


@compiled_inline
def _count_row(plant: Plant, tally: Tally, element: int, produced: int, cost_s: float, latency_s: float) -> None:
    tally.processed[element] += 1
    tally.busy_s[element] += cost_s
    if plant.weight[element] > 0.0:
        tally.put_out[element] += produced
        tally.latency_s[element] += produced * latency_s
        tally.latency_square_s2[element] += produced * latency_s * latency_s


@compiled_inline
def _hand_out(plant: Plant, control: Control, state: State, tally: Tally, element: int, now_s: float) -> None:
    """Give each row to the readers that have room, and wait for the others while they are worth it."""
    begin, end = plant.readers_of[element], plant.readers_of[element + 1]
    while state.held[element] > 0:
        owes = False
        for edge in range(begin, end):
            if state.is_owed[edge]:
                state.is_owed[edge] = not _push(plant, state, plant.reader[edge], state.held_since_s[element])
                owes = owes or state.is_owed[edge]
        if owes and not may_go_on(plant, state, element):
            return
        for edge in range(begin, end):
            if state.is_owed[edge]:
                _count_lost(control, tally, plant.reader[edge], now_s)
            state.is_owed[edge] = True
        state.held[element] -= 1


@compiled_inline
def _count_lost(control: Control, tally: Tally, reader: int, now_s: float) -> None:
    if now_s >= control.warm_up_s:
        tally.lost[reader] += 1


@compiled_inline
def _flush(
    plant: Plant, control: Control, state: State, tally: Tally, agenda: Agenda, element: int, now_s: float
) -> None:
    """Send the rows that an element holds, as far as its policy lets it; else it sleeps, where it is to."""
    if control.sending == WORTH_IT:
        _hand_out(plant, control, state, tally, element, now_s)
    else:
        while state.held[element] > 0 and may_send(plant, control, state, element):
            for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
                if not _push(plant, state, plant.reader[edge], state.held_since_s[element]):
                    _count_lost(control, tally, plant.reader[edge], now_s)
            state.held[element] -= 1
    if state.held[element] == 0:
        _look_again(state, plant.engine[element])
    elif control.sleep_s > 0.0:
        state.is_asleep[element] = True
        sources = plant.stream_reader.size + state.core_element.size + plant.cores.size
        schedule(agenda, sources + element, now_s + control.sleep_s)


@compiled_inline
def _control(plant: Plant, control: Control, state: State, tally: Tally, engine: int, now_s: float) -> None:
    """One step of an engine's control: tokens for all policies, Eq. 7 and 8 for ACES."""
    step_s = control.step_s
    begin, end = plant.members_of[engine], plant.members_of[engine + 1]
    for place in range(begin, end):
        element = plant.member[place]
        state.tokens[element] = earn(state.tokens[element], plant.target_cores[element], step_s, control.bucket_s)
        if now_s >= control.warm_up_s:
            tally.occupancy_row_s[element] += state.rows[element] * step_s
    if control.sending == WORTH_IT:
        learn_prices(plant, control, state, engine)
    if control.has_flow_control:
        control_flow(plant, control, state, engine, now_s)
    if control.ranking == SHARES:
        for place in range(begin, end):
            element = plant.member[place]
            # Cores that were not used are not saved up: tokens do that.
            credit_s = state.share_credit_s[element] + state.step_cores[element] * step_s
            state.share_credit_s[element] = max(-control.bucket_s, min(credit_s, step_s))
    if control.has_flow_control or control.has_static_limit:
        for place in range(begin, end):
            _allow_intake(plant, control, state, plant.member[place])


@compiled_inline
def _allow_intake(plant: Plant, control: Control, state: State, element: int) -> None:
    """Let the streams of an element bring what it takes in a step, each its part."""
    begin, end = plant.streams_of[element], plant.streams_of[element + 1]
    whole = 0.0
    for stream in range(begin, end):
        whole += plant.stream_rows_per_s[stream]
    for stream in range(begin, end):
        rate = state.intake_rows_per_s[element] * plant.stream_rows_per_s[stream] / max(whole, 1e-12)
        if control.has_static_limit:
            rate = plant.stream_limit_rows_per_s[stream]
        rows = rate * control.step_s
        state.intake_credit[stream] = min(state.intake_credit[stream] + rows, max(1.0, rows))
