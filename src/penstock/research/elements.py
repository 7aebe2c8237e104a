"""A graph of two-state elements on engines, row by row in virtual time.

Section VI of "Adaptive control of extreme-scale stream processing systems": for every row that an element takes from
its buffer it computes for ``T_0`` or ``T_1``, depending on its state, and then puts out ``M`` rows to all its readers.
An element executes one row at a time; a core that is free takes the next row from the element that the policy prefers.
"""

from __future__ import annotations

import numpy as np

from penstock.control.cpu import split_cores
from penstock.control.flow import flow_maximum
from penstock.control.tokens import earn, spend
from penstock.estimate.compiled import compiled_inline, compiled_lean
from penstock.research.chance import exponential, poisson, uniform
from penstock.research.kernel import Agenda, schedule, take_next
from penstock.research.plant import REPORT_SLOTS, Control, Plant, State, Tally

ACES, LOCK_STEP, BACKPRESSURE, STATIC_LIMIT = 0, 2, 3, 4
COMPLETION_FIRST, ARRIVAL_SECOND, CONTROL_LAST = 0, 1, 2
# How fast an element's idea of what a row costs follows the last row.
COST_GAIN = 0.5


def source_priorities(plant: Plant) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Priority of each source of events: streams, then cores, then engines."""
    streams, cores, engines = plant.stream_reader.size, int(plant.cores.sum()), plant.cores.size
    return np.repeat([ARRIVAL_SECOND, COMPLETION_FIRST, CONTROL_LAST], [streams, cores, engines])


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
            _complete(plant, control, state, tally, source - streams, now_s)
        else:
            engine = source - streams - cores
            _control(plant, control, state, tally, engine, now_s)
            _look_again(state, engine)
            schedule(agenda, source, now_s + control.step_s)


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
    limited = control.policy in (ACES, STATIC_LIMIT) and state.intake_credit[stream] <= 0.0
    if limited and control.policy == ACES:
        # As between elements: below its target a buffer takes a row, however small the last allowance.
        limited = state.rows[element] >= control.target_rows
    if not limited and _push(plant, state, element, now_s):
        state.intake_credit[stream] = max(-control.debt_rows, state.intake_credit[stream] - 1.0)
    elif now_s >= control.warm_up_s:
        tally.refused[element] += 1


@compiled_inline
def _may_send(plant: Plant, control: Control, state: State, element: int) -> bool:
    """Whether a row may go out: min-flow needs room with every reader, max-flow with some, the others need none.

    Max-flow waits for the others as long as nobody is in need, which is a reader with few rows and a core that has
    nothing to do: a reader without room loses the row, and holding it meanwhile costs nobody anything.
    """
    min_flow = control.policy in (LOCK_STEP, BACKPRESSURE)
    if not min_flow and control.policy != ACES:
        return True
    capacity = state.waiting.shape[1]
    all_have_room, some_is_low = True, False
    for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
        reader = plant.reader[edge]
        if state.rows[reader] >= capacity:
            all_have_room = False
        elif state.rows[reader] + state.running[reader] < control.low_rows and _has_free_core(plant, state, reader):
            some_is_low = True
    return all_have_room or (some_is_low and not min_flow)


@compiled_inline
def _has_free_core(plant: Plant, state: State, element: int) -> bool:
    engine, free = plant.engine[element], 0
    for core in range(state.first_core[engine], state.first_core[engine + 1]):
        free += state.core_element[core] < 0
    return free > 0


@compiled_inline
def _ask_for_rows(plant: Plant, control: Control, state: State, tally: Tally, engine: int, now_s: float) -> None:
    """A core has nothing to do: whoever holds a row for an element that has none sends it now."""
    for place in range(plant.members_of[engine], plant.members_of[engine + 1]):
        element = plant.member[place]
        if state.rows[element] + state.running[element] >= control.low_rows:
            continue
        for back in range(plant.feeders_of[element], plant.feeders_of[element + 1]):
            feeder = plant.sender[plant.feeding_edge[back]]
            if state.held[feeder] > 0:
                _flush(plant, control, state, tally, feeder, now_s)


@compiled_inline
def _may_run(plant: Plant, control: Control, state: State, element: int) -> bool:
    if state.rows[element] == 0 or state.running[element] > 0:
        return False
    if state.held[element] > 0:
        return False
    if control.policy == ACES and plant.readers_of[element] < plant.readers_of[element + 1]:
        return bool(state.output_credit[element] > 0.0 or _some_reader_is_low(plant, control, state, element))
    return True


@compiled_inline
def _some_reader_is_low(plant: Plant, control: Control, state: State, element: int) -> bool:
    """Whether a reader is below its target, of at least one row: it takes a row, however small its last report.

    Without this a buffer of a few rows runs dry between two reports, and rates in fractions of a row stop elements that
    have work and room.
    """
    for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
        if state.rows[plant.reader[edge]] < control.target_rows:
            return True
    return False


@compiled_inline
def _least_waiting(plant: Plant, control: Control, state: State, element: int) -> float:
    """Rows with the reader that has fewest, those in work included; zero for a result."""
    if control.policy != ACES or plant.readers_of[element] == plant.readers_of[element + 1]:
        return 0.0
    least = 1e18
    for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
        reader = plant.reader[edge]
        least = min(least, float(state.rows[reader] + state.running[reader]))
    return control.reader_weight * least


@compiled_inline
def _dispatch(
    plant: Plant, control: Control, state: State, tally: Tally, agenda: Agenda, engine: int, now_s: float
) -> None:
    """Give every free core of an engine the row that the policy prefers."""
    per_row_s = control.row_s if control.policy == ACES else 0.0
    for core in range(state.first_core[engine], state.first_core[engine + 1]):
        if state.core_element[core] >= 0:
            continue
        best, best_value = -1, 0.0
        for place in range(plant.members_of[engine], plant.members_of[engine + 1]):
            element = plant.member[place]
            difference = state.rows[element] - _least_waiting(plant, control, state, element)
            value = state.tokens[element] + per_row_s * difference
            if (best < 0 or value > best_value) and _may_run(plant, control, state, element):
                best, best_value = element, value
        if best < 0:
            if control.policy == ACES:
                _ask_for_rows(plant, control, state, tally, engine, now_s)
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
    _wake_feeders(plant, control, state, tally, element, now_s)


@compiled_inline
def _wake_feeders(plant: Plant, control: Control, state: State, tally: Tally, element: int, now_s: float) -> None:
    for place in range(plant.feeders_of[element], plant.feeders_of[element + 1]):
        feeder = plant.sender[plant.feeding_edge[place]]
        if state.held[feeder] > 0:
            _flush(plant, control, state, tally, feeder, now_s)
        elif control.policy == ACES:
            _look_again(state, plant.engine[feeder])


@compiled_inline
def _row_cost(plant: Plant, control: Control, state: State, element: int, now_s: float) -> float:
    """CPU time of the next row, after moving the element's state on."""
    clock_s = state.cpu_s[element] if control.counts_cpu_time else now_s
    while state.next_switch_s[element] <= clock_s:
        state.is_slow[element] = not state.is_slow[element]
        share = plant.slow_share[element] if state.is_slow[element] else 1.0 - plant.slow_share[element]
        state.next_switch_s[element] += exponential(state.chances, element, 2.0 * share * plant.state_time_s[element])
    return float(plant.slow_s[element] if state.is_slow[element] else plant.fast_s[element])


@compiled_inline
def _complete(plant: Plant, control: Control, state: State, tally: Tally, core: int, now_s: float) -> None:
    element, cost_s = state.core_element[core], state.core_cost_s[core]
    state.running[element] -= 1
    state.cpu_s[element] += cost_s
    state.row_cost_s[element] += COST_GAIN * (cost_s - state.row_cost_s[element])
    state.tokens[element] = spend(state.tokens[element], cost_s, control.bucket_s)
    produced = poisson(state.chances, element, plant.selectivity[element])
    if now_s >= control.warm_up_s:
        _count_row(plant, tally, element, produced, cost_s, now_s - state.core_entered_s[core])
    if plant.readers_of[element] < plant.readers_of[element + 1] and produced > 0:
        state.output_credit[element] = max(-control.debt_rows, state.output_credit[element] - produced)
        state.held[element] = produced
        state.held_since_s[element] = state.core_entered_s[core]
        _flush(plant, control, state, tally, element, now_s)
    # Only now is the core free: it looks for work of its own before it asks others for rows.
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
def _flush(plant: Plant, control: Control, state: State, tally: Tally, element: int, now_s: float) -> None:
    """Send the rows that an element holds, as far as its policy lets it; a reader without room loses the row."""
    while state.held[element] > 0 and _may_send(plant, control, state, element):
        for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
            if not _push(plant, state, plant.reader[edge], state.held_since_s[element]) and now_s >= control.warm_up_s:
                tally.lost[plant.reader[edge]] += 1
        state.held[element] -= 1
    if state.held[element] == 0:
        _look_again(state, plant.engine[element])


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
    if control.policy == ACES:
        _control_aces(plant, control, state, engine, now_s)
    if control.policy in (ACES, STATIC_LIMIT):
        for place in range(begin, end):
            element = plant.member[place]
            for stream in range(plant.streams_of[element], plant.streams_of[element + 1]):
                rate = state.intake_rows_per_s[element]
                if control.policy == STATIC_LIMIT:
                    rate = plant.stream_limit_rows_per_s[stream]
                state.intake_credit[stream] = min(state.intake_credit[stream] + rate * step_s, max(1.0, rate * step_s))


@compiled_inline
def _control_aces(plant: Plant, control: Control, state: State, engine: int, now_s: float) -> None:
    begin, end = plant.members_of[engine], plant.members_of[engine + 1]
    members, step_s = end - begin, control.step_s
    shares, tokens = state.scratch[0, :members], state.scratch[1, :members]
    occupancies, bounds = state.scratch[2, :members], state.scratch[3, :members]
    allowed = state.scratch[4, :members]
    shares[:] = 0.0
    for place in range(members):
        element = plant.member[begin + place]
        allowed[place] = allowed_output_rows_per_s(plant, control, state, element, now_s)
        tokens[place] = max(0.0, state.tokens[element]) / step_s
        occupancies[place] = state.rows[element]
        rows_per_s = allowed[place] / plant.selectivity[element]
        bounds[place] = min(1.0, rows_per_s * state.row_cost_s[element])
    split_cores(shares, tokens, occupancies, bounds, float(plant.cores[engine]))
    for place in range(members):
        element = plant.member[begin + place]
        if plant.readers_of[element] < plant.readers_of[element + 1]:
            rows = allowed[place] * step_s
            state.output_credit[element] = min(state.output_credit[element] + rows, max(1.0, rows))
        # What it could process over the last steps, no more than its readers let it: else its buffer would settle above
        # the target. A core that serves others in this step will come back, so the target counts at least.
        state.share_cores[element] += control.share_gain * (shares[place] - state.share_cores[element])
        rate = max(state.share_cores[element], plant.target_cores[element]) / state.row_cost_s[element]
        rate = min(rate, allowed[place] / plant.selectivity[element])
        deviation = state.rows[element] - control.target_rows
        maximum = flow_maximum(
            rate * step_s, deviation, control.lambdas, control.mus,
            state.past_deviations[element], state.past_errors[element],
        )  # fmt: skip
        state.intake_rows_per_s[element] = maximum / step_s
        _report(plant, control, state, element, maximum / step_s, now_s)


@compiled_inline
def _report(plant: Plant, control: Control, state: State, element: int, rows_per_s: float, now_s: float) -> None:
    """Tell every feeder its part of what the element can take; some reports are lost."""
    for place in range(plant.feeders_of[element], plant.feeders_of[element + 1]):
        edge = plant.feeding_edge[place]
        if control.loss_share > 0.0 and uniform(state.chances, element) < control.loss_share:
            continue
        slot = state.report_next[edge] % REPORT_SLOTS
        state.report[edge, slot] = rows_per_s * plant.edge_part[edge]
        state.report_time_s[edge, slot] = now_s
        state.report_next[edge] += 1


@compiled_inline
def allowed_output_rows_per_s(plant: Plant, control: Control, state: State, element: int, now_s: float) -> float:
    """Eq. 8 over the newest reports that have arrived, as :func:`penstock.control.feedback.allowed_output` has it."""
    best = -1.0
    for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
        rate = plant.target_rows_per_s[plant.reader[edge]] * plant.edge_part[edge]
        for back in range(1, REPORT_SLOTS + 1):
            slot = (state.report_next[edge] - back) % REPORT_SLOTS
            time_s = state.report_time_s[edge, slot]
            if time_s + control.delay_s <= now_s:
                if now_s - time_s <= control.stale_after_s:
                    rate = state.report[edge, slot]
                break
        best = max(best, rate)
    return best if best >= 0.0 else 1e9
