"""The rules of a simulated graph: when an element may send and run, and whose row a free core takes next.

Why these: docs/adr/0019-rows-by-their-worth.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.estimate.compiled import compiled_inline
from penstock.research.element_policies import Ranking, Sending

if TYPE_CHECKING:
    from penstock.research.plant import Control, Plant, State

AT_ONCE, ROOM_WITH_ALL = int(Sending.AT_ONCE), int(Sending.ROOM_WITH_ALL)
WORTH_IT = int(Sending.WORTH_IT)
SHARES, PRESSURE = int(Ranking.SHARES), int(Ranking.PRESSURE)


@compiled_inline
def may_send(plant: Plant, control: Control, state: State, element: int) -> bool:
    r"""Whether a row may go out to all readers, of which full ones lose it.

    By worth, a row goes out when, with prices :math:`p_i` of a row before reader :math:`i` from tier one, its buffer
    :math:`b_i` of :math:`B` rows,

    .. math:: \sum_{i: b_i = B} p_i \le \sum_{i: b_i < B} p_i (1 - b_i / B)

    A reader that loses the row loses its price; one that has room gains it the more surely the less it has: a buffer
    that is nearly full would have had the row a little later as well. A reader whose cores bound it has a price of
    zero, so that nobody waits for it.
    """
    if control.sending == AT_ONCE:
        return True
    capacity = state.waiting.shape[1]
    lost, gained, some_full, some_room = 0.0, 0.0, False, False
    for edge in range(plant.readers_of[element], plant.readers_of[element + 1]):
        reader = plant.reader[edge]
        rows = state.rows[reader]
        if rows >= capacity:
            some_full = True
            lost += plant.price[reader]
        else:
            some_room = True
            gained += plant.price[reader] * (1.0 - rows / capacity)
    if not some_full:
        return True
    if control.sending == ROOM_WITH_ALL or not some_room:
        return False
    return control.sending != WORTH_IT or lost <= gained


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

    By pressure, with tokens :math:`k_j`, rows :math:`b_j`, those :math:`b_i` with the reader that has fewest (zero for
    a result), the cost :math:`T_j` of its last rows and :math:`T_0` that of its cheapest,

    .. math:: k_j + \gamma \, (b_j - \min_i b_i)^+ \, T_0 / T_j

    Backpressure scheduling (Tassiulas and Ephremides, 1992) weighs the difference with the rate of service; the
    difference alone keeps a core with an element whose rows are dear at the moment while others' are cheap.
    """
    if control.ranking == SHARES:
        return float(state.share_credit_s[element])
    value = float(state.tokens[element])
    if control.ranking == PRESSURE:
        ahead = max(0.0, state.rows[element] - _fewest_waiting(plant, state, element))
        value += control.row_s * ahead * plant.fast_s[element] / state.row_cost_s[element]
    return value


@compiled_inline
def _fewest_waiting(plant: Plant, state: State, element: int) -> float:
    """Rows with the reader that has fewest, those in work included; zero for a result."""
    begin, end = plant.readers_of[element], plant.readers_of[element + 1]
    if begin == end:
        return 0.0
    fewest = 1e18
    for edge in range(begin, end):
        reader = plant.reader[edge]
        fewest = min(fewest, float(state.rows[reader] + state.running[reader]))
    return fewest
