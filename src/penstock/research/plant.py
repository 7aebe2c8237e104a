"""What a simulated graph is made of, as arrays that compiled loops can take."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Plant(NamedTuple):
    """What stays the same through a run.

    Elements, engines, streams and edges are numbered. ``readers_of[j]:readers_of[j + 1]`` are the edges that leave
    element ``j``, with their targets in ``reader``; ``feeders_of`` and ``feeding_edge`` are the same seen from the
    reader; ``members_of`` and ``member`` list the elements of each engine.
    """

    engine: NDArray[np.int64]
    fast_s: NDArray[np.float64]
    slow_s: NDArray[np.float64]
    slow_share: NDArray[np.float64]
    state_time_s: NDArray[np.float64]
    selectivity: NDArray[np.float64]
    weight: NDArray[np.float64]
    target_cores: NDArray[np.float64]
    target_rows_per_s: NDArray[np.float64]
    worth: NDArray[np.float64]
    readers_of: NDArray[np.int64]
    reader: NDArray[np.int64]
    feeders_of: NDArray[np.int64]
    feeding_edge: NDArray[np.int64]
    sender: NDArray[np.int64]
    edge_part: NDArray[np.float64]
    members_of: NDArray[np.int64]
    member: NDArray[np.int64]
    cores: NDArray[np.int64]
    streams_of: NDArray[np.int64]
    stream_reader: NDArray[np.int64]
    stream_rows_per_s: NDArray[np.float64]
    stream_limit_rows_per_s: NDArray[np.float64]


class Control(NamedTuple):
    """How a run is controlled.

    Parameters
    ----------
    sending, ranking, has_flow_control, has_static_limit, sleep_s
        See :class:`~penstock.research.element_policies.PolicyRules`.
    keeps_state
        Whether a row costs what the state says in which it began; else it is worked off at the speed of those it meets.
    buffer_rows
        ``B``, of every element.
    target_rows
        ``b_0``.
    price_memory_s
        How long it is remembered whether an element had rows, for its price.
    share_gain
        How fast the processing rate of Eq. 7 follows the share of cores of the last step.
    step_s
        Time between two steps of an engine's control.
    bucket_s
        Depth of the token buckets, in CPU seconds at one core.
    delay_s, loss_share, stale_after_s
        Reports to feeders: how late, how many are lost, and after how long without one the target stands in.
    counts_cpu_time
        Whether the two states of an element pass with its CPU time; with the clock otherwise.
    warm_up_s
        Nothing is counted before.
    """

    sending: int
    ranking: int
    has_flow_control: bool
    has_static_limit: bool
    sleep_s: float
    keeps_state: bool
    buffer_rows: int
    target_rows: float
    price_memory_s: float
    share_gain: float
    step_s: float
    bucket_s: float
    delay_s: float
    loss_share: float
    stale_after_s: float
    counts_cpu_time: bool
    warm_up_s: float
    lambdas: NDArray[np.float64]
    mus: NDArray[np.float64]


class State(NamedTuple):
    """What changes in a run.

    ``waiting`` has, for each buffer, a ring of the moments at which its rows came in; ``is_owed`` says of each edge
    whether the reader has yet to get the row that is going out; ``dry_share`` is the share of time in which an element
    had nothing to do for want of rows.
    """

    waiting: NDArray[np.float64]
    first: NDArray[np.int64]
    rows: NDArray[np.int64]
    held: NDArray[np.int64]
    held_since_s: NDArray[np.float64]
    is_owed: NDArray[np.bool_]
    dry_share: NDArray[np.float64]
    price: NDArray[np.float64]
    running: NDArray[np.int64]
    tokens: NDArray[np.float64]
    share_cores: NDArray[np.float64]
    step_cores: NDArray[np.float64]
    share_credit_s: NDArray[np.float64]
    is_asleep: NDArray[np.bool_]
    output_credit: NDArray[np.float64]
    intake_credit: NDArray[np.float64]
    intake_rows_per_s: NDArray[np.float64]
    row_cost_s: NDArray[np.float64]
    is_slow: NDArray[np.bool_]
    next_switch_s: NDArray[np.float64]
    cpu_s: NDArray[np.float64]
    past_deviations: NDArray[np.float64]
    past_errors: NDArray[np.float64]
    report: NDArray[np.float64]
    report_time_s: NDArray[np.float64]
    report_next: NDArray[np.int64]
    core_element: NDArray[np.int64]
    core_entered_s: NDArray[np.float64]
    core_cost_s: NDArray[np.float64]
    first_core: NDArray[np.int64]
    dirty: NDArray[np.int64]
    is_dirty: NDArray[np.bool_]
    dirty_count: NDArray[np.int64]
    chances: NDArray[np.uint64]
    stream_chances: NDArray[np.uint64]
    scratch: NDArray[np.float64]


class Tally(NamedTuple):
    """What is counted from the end of the warm-up on, for each element."""

    processed: NDArray[np.int64]
    put_out: NDArray[np.int64]
    latency_s: NDArray[np.float64]
    latency_square_s2: NDArray[np.float64]
    lost: NDArray[np.int64]
    refused: NDArray[np.int64]
    busy_s: NDArray[np.float64]
    occupancy_row_s: NDArray[np.float64]
    events: NDArray[np.int64]


REPORT_SLOTS = 8


def new_tally(elements: int) -> Tally:
    """An empty tally."""
    return Tally(
        processed=np.zeros(elements, np.int64),
        put_out=np.zeros(elements, np.int64),
        latency_s=np.zeros(elements),
        latency_square_s2=np.zeros(elements),
        lost=np.zeros(elements, np.int64),
        refused=np.zeros(elements, np.int64),
        busy_s=np.zeros(elements),
        occupancy_row_s=np.zeros(elements),
        events=np.zeros(1, np.int64),
    )


def new_state(plant: Plant, control: Control, seed: int, *, initial_rows: NDArray[np.int64] | None = None) -> State:
    """A state with given buffers (empty ones else), the same for the same seed whatever the policy."""
    elements, streams, edges = plant.engine.size, plant.stream_reader.size, plant.reader.size
    cores = int(plant.cores.sum())
    first_core = np.concatenate([[0], np.cumsum(plant.cores)]).astype(np.int64)
    generator = np.random.default_rng([seed, 5])
    is_slow = generator.random(elements) < plant.slow_share
    # The time left in a state is exponential again, whenever one looks.
    mean_s = np.where(is_slow, plant.slow_share, 1.0 - plant.slow_share) * 2.0 * plant.state_time_s
    waiting = np.zeros((elements, control.buffer_rows))
    return State(
        waiting=waiting,
        first=np.zeros(elements, np.int64),
        rows=np.zeros(elements, np.int64) if initial_rows is None else initial_rows.astype(np.int64),
        held=np.zeros(elements, np.int64),
        held_since_s=np.zeros(elements),
        is_owed=np.ones(edges, np.bool_),
        # Nobody knows yet who runs dry; what prices are worth is learned within seconds.
        dry_share=np.full(elements, 0.5),
        price=0.5 * plant.worth,
        running=np.zeros(elements, np.int64),
        tokens=np.zeros(elements),
        share_cores=plant.target_cores.copy(),
        step_cores=plant.target_cores.copy(),
        share_credit_s=np.zeros(elements),
        is_asleep=np.zeros(elements, np.bool_),
        output_credit=np.ones(elements),
        intake_credit=np.ones(streams),
        intake_rows_per_s=plant.target_rows_per_s.copy(),
        row_cost_s=np.where(is_slow, plant.slow_s, plant.fast_s),
        is_slow=is_slow,
        next_switch_s=generator.exponential(1.0, elements) * mean_s,
        cpu_s=np.zeros(elements),
        past_deviations=np.zeros((elements, max(1, control.lambdas.size))),
        past_errors=np.zeros((elements, max(1, control.mus.size))),
        report=np.full((edges, REPORT_SLOTS), np.nan),
        report_time_s=np.full((edges, REPORT_SLOTS), -np.inf),
        report_next=np.zeros(edges, np.int64),
        core_element=np.full(cores, -1, np.int64),
        core_entered_s=np.zeros(cores),
        core_cost_s=np.zeros(cores),
        first_core=first_core,
        dirty=np.zeros(plant.cores.size, np.int64),
        is_dirty=np.zeros(plant.cores.size, np.bool_),
        dirty_count=np.zeros(1, np.int64),
        chances=generator.integers(0, 2**63, elements, dtype=np.uint64),
        stream_chances=generator.integers(0, 2**63, streams, dtype=np.uint64),
        scratch=np.zeros((5, max(1, int(np.diff(plant.members_of).max())))),
    )
