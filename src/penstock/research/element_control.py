"""Tier two of a simulated graph, engine by engine: Eq. 7 for intake, Eq. 8 for output, cores by buffers, prices."""

from __future__ import annotations

from penstock.control.cpu import split_cores
from penstock.control.flow import flow_maximum
from penstock.estimate.compiled import compiled_inline
from penstock.research.chance import uniform
from penstock.research.plant import REPORT_SLOTS, Control, Plant, State


@compiled_inline
def control_flow(plant: Plant, control: Control, state: State, engine: int, now_s: float) -> None:
    """One step of an engine: what its elements may put out, their cores, and what they can take in."""
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
        state.step_cores[element] = shares[place]
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


@compiled_inline
def learn_prices(plant: Plant, control: Control, state: State, engine: int) -> None:
    r"""What a row more before each element of an engine would be worth, from who runs dry.

    .. math:: p_j = d_j m_j \Big(w_j + \sum_i p_i\Big)

    with :math:`d_j` the share of time in which element :math:`j` had nothing to do for want of rows, its selectivity
    :math:`m_j`, its weight :math:`w_j` and the prices of its readers. One that always has rows makes nothing of one
    more; one that is mostly dry makes of it what its readers do. The prices of tier one say the same of fluid, where
    cores alone bound anything. With buffers of a few rows most cores wait for rows, and those prices, of which many are
    zero, give rows away that would have been wanted.
    """
    gain = control.step_s / control.price_memory_s
    for place in range(plant.members_of[engine], plant.members_of[engine + 1]):
        element = plant.member[place]
        dry = 0.0 if state.rows[element] + state.running[element] + state.held[element] > 0 else 1.0
        state.dry_share[element] += gain * (dry - state.dry_share[element])
        made = plant.weight[element]
        for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
            made += state.price[plant.reader[edge]]
        state.price[element] = state.dry_share[element] * plant.selectivity[element] * made
