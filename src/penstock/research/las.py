"""The simulation experiments of the load-aware shedding paper, section V-B.

Every run draws a stream and gives it to each algorithm: the paper's four, and economic shedding. The shedders that
learn start trained, on a stretch of the same kind that does not overload the operator: one that starts untrained under
overload builds a backlog that a mean over the whole stream never forgets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.shedding import BaseLine, Constraint, Economic, FullKnowledge, Rows, StrawMan
from penstock.control.shedding.economic import ECONOMIC_STATE_SIZE, FIRST_THETA, THETA
from penstock.control.shedding.queue import QUEUE_STATE_SIZE
from penstock.errors import InvalidSettingError
from penstock.estimate.hashing import draw_hashes
from penstock.estimate.sketch import add_rows, sketch_shape
from penstock.estimate.sketch_state import NOP, RUN, OperatorModel
from penstock.research.closed_loop import run_economic, run_load_aware
from penstock.research.las_summary import Measures, Outcome, measure, summarise
from penstock.research.queue import waits_of_kept
from penstock.sim.parallel import run_all
from penstock.sim.streams import Stream, StreamShape, draw_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


ALGORITHMS = ("base_line", "straw_man", "full_knowledge", "las", "economic")
EXTRA_ALGORITHMS = ("economic_exact",)


@dataclass(frozen=True, slots=True)
class LasExperiment:
    """One point of an experiment: all that is needed to repeat it.

    Parameters
    ----------
    underprovision
        ``u``: the input rate is ``capacity / (1 - u)``.
    threshold_s
        ``tau`` of AVG(tau).
    shape
        What the streams look like.
    epsilon, delta, window_rows, tolerance
        Sketch and state machine of load-aware shedding (``epsilon``, ``delta``, ``N``, ``mu``).
    prior_rows
        Shrinkage of its cells; 0 is the paper's.
    trained
        Start with a model, as figures 4 to 8 need.
    economic_columns, economic_memory_rows, economic_sync_rows, thrift
        Economic shedding: columns of its sketch of two rows, rows that a cell remembers, rows between two looks at how
        far its queue is off, and its thrift.
    """

    underprovision: float = 0.25
    threshold_s: float = 0.0064
    shape: StreamShape = field(default_factory=StreamShape)
    epsilon: float = 0.05
    delta: float = 0.1
    window_rows: int = 1024
    tolerance: float = 0.05
    prior_rows: float = 0.0
    trained: bool = True
    economic_columns: int = 16_384
    economic_memory_rows: float = 64.0
    economic_sync_rows: int = 16
    thrift: float = 0.75

    def __post_init__(self) -> None:
        if not self.underprovision < 1:
            raise InvalidSettingError("underprovision", self.underprovision, "below 1; 0.25 offers a third too much")
        if not self.threshold_s >= 0:
            raise InvalidSettingError("threshold", self.threshold_s, "seconds, from zero up")


@dataclass(frozen=True, slots=True)
class LasJob:
    """One run of an experiment, as it travels to another process."""

    experiment: LasExperiment
    algorithms: tuple[str, ...]
    seed: int
    run: int


def run_las_experiment(
    experiment: LasExperiment | None = None,
    *,
    runs: int = 100,
    seed: int = 1,
    algorithms: Sequence[str] = ALGORITHMS,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, float | int | str | None]]:
    """Run all algorithms on the same streams and sum up, one plain row an algorithm.

    Run number ``r`` has the ``r % 100``-th association of keys and costs in its ``r // 100``-th order; it comes out the
    same whatever the number of processes.

    Examples
    --------
    >>> rows = run_las_experiment(LasExperiment(shape=StreamShape(rows=4096)), runs=2)
    >>> [(row["algorithm"], round(row["dropped_fraction"], 2)) for row in rows[:3]]
    [('base_line', 0.25), ('straw_man', 0.25), ('full_knowledge', 0.25)]
    """
    return run_las_points(
        [experiment or LasExperiment()],
        runs=runs, seed=seed, algorithms=algorithms, processes=processes, progress=progress,
    )[0]  # fmt: skip


def run_las_points(
    experiments: Sequence[LasExperiment],
    *,
    runs: int,
    seed: int = 1,
    algorithms: Sequence[str] = ALGORITHMS,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[list[dict[str, float | int | str | None]]]:
    """Run several experiments over one set of processes; gives the rows of each.

    With a threshold of zero economic shedding has no price to go by; such an experiment has no row of it.
    """
    if runs < 1:
        raise InvalidSettingError("runs", runs, "at least one run")
    jobs = [
        LasJob(experiment, _possible(algorithms, experiment), seed, run)
        for experiment in experiments
        for run in range(runs)
    ]
    results = run_all(run_las_job, jobs, processes=processes, progress=progress)
    tables = []
    for place, experiment in enumerate(experiments):
        part = results[place * runs : (place + 1) * runs]
        facts = {"threshold_ms": 1000.0 * experiment.threshold_s, "underprovision": experiment.underprovision}
        tables.append([{**row, **facts, "runs": runs, "seed": seed} for row in summarise(part)])
    return tables


def _possible(algorithms: Sequence[str], experiment: LasExperiment) -> tuple[str, ...]:
    return tuple(name for name in algorithms if experiment.threshold_s > 0 or not name.startswith("economic"))


def run_las_job(job: LasJob) -> dict[str, Measures]:
    """Run every algorithm on the stream of one run."""
    stream = draw_stream(job.experiment.shape, seed=job.seed, run=job.run)
    arrivals_s = stream.arrivals_s(job.experiment.underprovision)
    mean_cost_s = stream.mean_cost_s
    measures = {}
    for algorithm in job.algorithms:
        outcome = run_algorithm(algorithm, stream, arrivals_s, job.experiment, mean_cost_s=mean_cost_s)
        measures[algorithm] = measure(outcome, stream)
    return measures


def run_algorithm(
    algorithm: str, stream: Stream, arrivals_s: NDArray[np.float64], experiment: LasExperiment, *, mean_cost_s: float
) -> Outcome:
    """Give a stream, arriving at those times, to an algorithm and then to the operator.

    ``mean_cost_s`` is what Straw-Man is told.
    """
    probability = None
    if algorithm == "las":
        keep = _run_las(stream, arrivals_s, experiment)
    elif algorithm == "economic":
        keep, probability = _run_economic(stream, arrivals_s, experiment)
    else:
        rows = Rows(stream.keys, arrivals_s, stream.uniforms, costs_s=stream.costs_s)
        decision = _open_loop(algorithm, mean_cost_s, experiment).decide(rows)
        keep, probability = decision.keep, decision.probability if decision.drawn else None
    return Outcome(keep, waits_of_kept(arrivals_s, stream.costs_s, keep), probability)


def _open_loop(
    algorithm: str, mean_cost_s: float, experiment: LasExperiment
) -> BaseLine | StrawMan | FullKnowledge | Economic:
    """Give a shedder that takes nothing back from the operator."""
    if algorithm == "base_line":
        return BaseLine(experiment.underprovision)
    if algorithm == "straw_man":
        return StrawMan(experiment.threshold_s, mean_cost_s=mean_cost_s)
    if algorithm == "full_knowledge":
        return FullKnowledge(experiment.threshold_s)
    if algorithm == "economic_exact":
        return Economic(experiment.threshold_s, exact_costs=True, thrift=experiment.thrift)
    known = ", ".join(ALGORITHMS + EXTRA_ALGORITHMS)
    raise InvalidSettingError("algorithm", algorithm, f"one of {known}")


def _run_las(stream: Stream, arrivals_s: NDArray[np.float64], experiment: LasExperiment) -> NDArray[np.bool_]:
    rows, columns = sketch_shape(epsilon=experiment.epsilon, delta=experiment.delta)
    hashes = draw_hashes(np.random.default_rng(stream.hash_seed), rows)
    operator = OperatorModel(hashes, columns, window_rows=experiment.window_rows, tolerance=experiment.tolerance)
    model = _trained_model(operator, stream) if experiment.trained else None
    restart = operator.snapshot()
    return run_load_aware(
        stream.keys, stream.costs_s, arrivals_s, hashes,
        np.zeros_like(operator.cells) if model is None else model, NOP if model is None else RUN,
        restart["cells"], restart["ratios"], restart["state"].astype(np.int64),
        experiment.window_rows, experiment.tolerance, 1.0 + experiment.epsilon, experiment.prior_rows,
        experiment.threshold_s, int(Constraint.AVERAGE), np.zeros(QUEUE_STATE_SIZE), np.zeros(1),
    )  # fmt: skip


def _trained_model(operator: OperatorModel, stream: Stream) -> NDArray[np.float64] | None:
    """Run the operator over the training stretch until it sends its first sketch; all of it, if it never does."""
    step = operator.window_rows
    for begin in range(0, stream.training_keys.size, step):
        part = slice(begin, begin + step)
        sent = operator.execute(stream.training_keys[part], stream.training_costs_s[part])
        if sent is not None:
            return sent
    return operator.cells.copy() if operator.cells.any() else None


def _run_economic(
    stream: Stream, arrivals_s: NDArray[np.float64], experiment: LasExperiment
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    hashes = draw_hashes(np.random.default_rng(stream.hash_seed), 2)
    cells = np.zeros((2, experiment.economic_columns, 2))
    if experiment.trained:
        add_rows(cells, hashes, stream.training_keys, stream.training_costs_s)
    state = np.zeros(ECONOMIC_STATE_SIZE)
    state[THETA] = FIRST_THETA
    shedder = Economic(experiment.threshold_s, exact_costs=True)
    return run_economic(
        stream.keys, stream.costs_s, arrivals_s, stream.uniforms, hashes, cells,
        experiment.economic_memory_rows, shedder.prior_rows, experiment.economic_sync_rows, experiment.threshold_s,
        experiment.thrift, shedder.gain, shedder.smallest_probability, state,
    )  # fmt: skip
