"""The rules of a simulated graph: when an element may send and run, and whose row a free core takes next.

Why these: docs/adr/0019-rows-by-their-worth.md and docs/adr/0026-prices-from-who-runs-dry.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.estimate.compiled import compiled_inline
from penstock.research.element_policies import Ranking, Sending

if TYPE_CHECKING:
    from penstock.research.plant import Control, Plant, State

AT_ONCE, ROOM_WITH_ALL = int(Sending.AT_ONCE), int(Sending.ROOM_WITH_ALL)
WORTH_IT = int(Sending.WORTH_IT)
# Tokens are at most a CPU second; a row ahead counts for a tenth of its worth or more.
TIE = 1e-3
SHARES, PRESSURE = int(Ranking.SHARES), int(Ranking.PRESSURE)


@compiled_inline
def may_send(plant: Plant, control: Control, state: State, element: int) -> bool:
    """Whether a row may go out to all readers at once, of which full ones lose it."""
    if control.sending == AT_ONCE:
        return True
    some_full, some_room = False, False
    for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
        if state.rows[plant.reader[edge]] >= state.waiting.shape[1]:
            some_full = True
        else:
            some_room = True
    return not some_full or (some_room and control.sending != ROOM_WITH_ALL)


@compiled_inline
def may_go_on(plant: Plant, state: State, element: int) -> bool:
    r"""Whether an element goes on without the readers that its row is still owed to, which lose it.

    Readers with room have the row already. With prices :math:`p_i` of a row before reader :math:`i`
    (:func:`~penstock.research.element_control.learn_prices`) and :math:`b_i` of :math:`B` rows in its buffer, the
    element goes on when

    .. math:: \sum_{i\,\text{owed}} p_i \le \sum_{i\,\text{served}} p_i (1 - b_i / B)

    What those owed would lose is worth no more than what the others gain by the rows that come after it; they gain the
    less the more they have. A reader that never runs dry has a price of zero, so that nobody waits for it. Nobody
    gains anything while the element has no other row to turn to.
    """
    if state.rows[element] == 0 and state.held[element] == 1:
        return False
    capacity = float(state.waiting.shape[1])
    lost, gained, some_served = 0.0, 0.0, False
    for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
        reader = plant.reader[edge]
        if state.is_owed[edge]:
            lost += state.price[reader]
        else:
            some_served = True
            gained += state.price[reader] * (1.0 - state.rows[reader] / capacity)
    return some_served and lost <= gained


@compiled_inline
def may_run(plant: Plant, control: Control, state: State, element: int) -> bool:
    """Whether an element may begin a row: it has one, none in work, nothing to send, and a reader that takes more."""
    if state.rows[element] == 0 or state.running[element] > 0 or state.held[element] > 0:
        return False
    if control.has_flow_control and plant.readers_of[element] < plant.readers_of[element + 1]:
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
def preference(plant: Plant, control: Control, state: State, element: int) -> float:
    r"""How much a free core prefers the next row of an element.

    By pressure, with rows :math:`b_j`, those :math:`b_i` before each reader, what a row there is worth by the plan
    :math:`v_i` (:func:`~penstock.research.build_plant.planned_worth`), selectivity :math:`m_j`, the cost :math:`T_j` of
    its last rows and :math:`T_0` that of its cheapest,

    .. math:: \frac{T_0}{T_j} m_j \sum_i v_i (b_j + 1 - b_i)^+

    and :math:`v_j (b_j + 1) T_0 / T_j` for a result. Backpressure scheduling (Tassiulas and Ephremides, 1992) weighs
    the difference in rows with the rate of service; the difference alone keeps a core with an element whose rows are
    dear at the moment while others' are cheap. Without the worth, cores go to rows that nobody makes much of. The one
    more tells elements apart that are level with their readers, which with few rows are most. Tokens, which are earned
    at the target of tier one, break ties.
    """
    if control.ranking == SHARES:
        return float(state.share_credit_s[element])
    value = float(state.tokens[element])
    if control.ranking == PRESSURE:
        speed = plant.fast_s[element] / state.row_cost_s[element]
        value = TIE * value + speed * _worth_ahead(plant, state, element)
    return value


@compiled_inline
def _worth_ahead(plant: Plant, state: State, element: int) -> float:
    """Rows that an element is ahead of each reader, and one more, by what they are worth; those in work count there."""
    begin, end = plant.readers_of[element], plant.readers_of[element + 1]
    if begin == end:
        return float(plant.worth[element] * (state.rows[element] + 1))
    ahead = 0.0
    for edge in range(begin, end):
        reader = plant.reader[edge]
        rows = state.rows[element] + 1 - state.rows[reader] - state.running[reader]
        ahead += plant.worth[reader] * max(0.0, float(rows))
    return float(plant.selectivity[element] * ahead)
