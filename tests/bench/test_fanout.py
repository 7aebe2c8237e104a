"""What the fan-out benchmark makes of its batches."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.apps.stages import SHAPES, StageGraph, StageTopics, shape_named
from penstock.bench.fanout import STATIC_SHARES, best_static_limit, mode_settings
from penstock.bench.fanout_capacity import find_capacity, states_of
from penstock.bench.fanout_figures import ACES, MODES, Fanout, StageFigures, stage_figures
from penstock.bench.fanout_runs import GraphRun, GraphRuns, StageBatch, StageWindow
from penstock.errors import PenstockError
from penstock.model.query import QueryName
from penstock.settings import load_settings


def batches(stage: str, ends_s: list[float], rows: int) -> list[StageBatch]:
    """Batches whose rows came into the input between eight and four seconds before they were out."""
    return [StageBatch(stage, end_s - 1.0, 1.0, rows, 5.0, 0.5, rows, end_s - 8.0, end_s - 4.0) for end_s in ends_s]


def run(done: list[StageBatch], rows: int) -> GraphRun:
    return GraphRun(done, StageWindow(10.0, 20.0, {"fast": rows}), load_began_s=0.0)


def figures(mode: str, number: int, rows_per_s: float) -> StageFigures:
    return StageFigures(mode, number, "fast", 5.0, 2.0 * rows_per_s, rows_per_s, 3, 1.0, 9.0, 0.5)


def test_throughput_is_what_tasks_read_in_the_window() -> None:
    """A batch that is not done counts with its part, and a batch from before the window does not count again."""
    found = stage_figures("aces", 1, "fast", 5.0, run(batches("fast", [9.0, 12.0, 16.0], 120), 400), 10.0)
    assert found.rows_per_s == pytest.approx(40.0)
    assert found.batches == 2
    assert found.cores == pytest.approx(0.1)


@pytest.mark.parametrize(("goal_s", "young"), [(8.0, 24.0), (6.0, 12.0), (4.0, 0.0)])
def test_rows_count_that_were_out_within_the_goal(goal_s: float, young: float) -> None:
    """Two batches of 120 rows in ten seconds; of rows that came evenly, those count that are young enough."""
    found = stage_figures("aces", 1, "fast", 5.0, run(batches("fast", [9.0, 12.0, 16.0], 120), 400), goal_s)
    assert found.young_rows_per_s == pytest.approx(young)
    assert found.oldest_age_s == pytest.approx(8.0)


def test_a_window_without_a_finished_batch_has_no_age() -> None:
    """A batch longer than the window tells no length and no age, and none of its rows is out."""
    found = stage_figures("plain", 1, "fast", 5.0, run(batches("fast", [9.0], 120), 400), 10.0)
    assert (found.oldest_age_s, found.batch_mean_s, found.batches, found.young_rows_per_s) == (None, None, 0, 0.0)
    assert found.rows_per_s == pytest.approx(40.0)


def fanout_of(runs: dict[str, tuple[float, ...]]) -> Fanout:
    return Fanout(
        "fanout", 10.0, 10.0, 40.0, 30,
        tuple(figures(mode, number, rate) for mode, rates in runs.items() for number, rate in enumerate(rates)),
    )  # fmt: skip


def test_aces_is_to_have_half_as_much_again_in_every_pair() -> None:
    """The mean decides how many times; the interval, paired over rounds, whether that could be chance."""
    rivals = {"plain": (50.0, 60.0, 40.0), "static_limit": (70.0, 70.0, 70.0), "min_flow": (0.0, 0.0, 0.0)}
    met = fanout_of({**rivals, ACES: (120.0, 125.0, 115.0)})
    assert met.times("plain") == pytest.approx(2.4)
    assert met.times("min_flow") == float("inf")
    assert met.is_met
    by_chance = fanout_of({**rivals, ACES: (300.0, 20.0, 40.0)})
    assert by_chance.times("static_limit") > 1.5
    assert not by_chance.is_met
    document = met.to_dict()
    assert set(document["young_weighted_rows_per_s"]) == set(MODES)  # type: ignore[call-overload]


def test_multiples_that_could_be_true_are_told() -> None:
    """Paired over rounds: twice as many in every round is twice for sure; a rival with nothing has no upper end."""
    rivals = {"plain": (50.0, 60.0, 40.0), "static_limit": (70.0, 10.0, 40.0), "min_flow": (0.0, 0.0, 0.0)}
    found = fanout_of({**rivals, ACES: (100.0, 120.0, 80.0)})
    assert found.times_95("plain") == pytest.approx((2.0, 2.0), rel=1e-3)
    low, high = found.times_95("static_limit")
    assert low < found.times("static_limit") < high
    assert found.times_95("min_flow") == (float("inf"), float("inf"))
    assert found.to_dict()["times_95"]["min_flow"] == [None, None]  # type: ignore[index]


def test_one_round_shows_nothing() -> None:
    """Without a second round it is not known what was chance, however large the difference."""
    once = fanout_of({"plain": (1.0,), "static_limit": (1.0,), "min_flow": (1.0,), ACES: (100.0,)})
    assert once.times_95("plain") == (0.0, float("inf"))
    assert not once.is_met


def test_ages_are_told_by_reader_and_round() -> None:
    """Whoever wants to know which reader was late, and when, finds it without going through all rows."""
    met = fanout_of({"plain": (10.0, 10.0), "static_limit": (), "min_flow": (), ACES: (120.0, 125.0)})
    assert met.oldest_ages_s(ACES) == {"fast": [9.0, 9.0]}


def test_a_window_says_when_it_began_and_how_busy_the_machine_was() -> None:
    """The time to settle counts from the queries' start; how long the load had come by then is told as well."""
    done = GraphRun([], StageWindow(45.0, 60.0, {"fast": 0}), load_began_s=12.5, load_average=3.25)
    told = stage_figures("plain", 1, "fast", 5.0, done, 10.0).to_dict()
    assert (told["counted_after_s"], told["load_average"]) == (32.5, 3.2)


def test_old_rows_of_a_result_are_a_miss() -> None:
    """However many rows are young: a result with a row older than the goal has missed it."""
    rivals = {"plain": (10.0, 10.0), "static_limit": (10.0, 10.0), "min_flow": (10.0, 10.0)}
    old = fanout_of({**rivals, ACES: (120.0, 125.0)})
    assert old.is_met
    late = Fanout(old.shape, 8.0, 10.0, 40.0, 30, old.figures)
    assert not late.is_met


class StaticRuns:
    """Runs whose rows are young with a limit of what fits alone."""

    batch_s, goal_s = 3.0, 10.0
    graph = shape_named("fanout")

    def __init__(self) -> None:
        self.limits: list[int | None] = []

    def on_load(self, name: str, *rest: object) -> GraphRun:
        """Fewer rows with a smaller limit, old ones with a larger."""
        assert name.startswith("static-")
        limit = rest[-1]
        assert isinstance(limit, int)
        self.limits.append(limit)
        rows, age_s = (limit, 4.0) if limit <= 3000 else (limit, 60.0)
        done = [StageBatch("fast", 14.0, 1.0, rows, 0.0, 0.5, rows, 15.0 - age_s - 1.0, 15.0 - age_s)]
        names = [stage.name for stage in self.graph.stages]
        return GraphRun(done, StageWindow(10.0, 20.0, dict.fromkeys(names, rows)), load_began_s=0.0)


def test_the_best_static_limit_is_the_one_with_most_young_rows() -> None:
    """A larger limit reads more rows, all of them too old; a smaller one reads fewer."""
    runs, said = StaticRuns(), list[str]()
    assert best_static_limit(cast("GraphRuns", runs), 1000.0, 3000.0, 1.0, 10.0, said.append) == 3000
    assert len(runs.limits) == len(said) == len(STATIC_SHARES)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_shapes_are_graphs(shape: StageGraph) -> None:
    """Every shape is an application whose weights are on results that nobody reads, and which a user could declare."""
    application = shape.application()
    assert application.has_graph
    for stage in shape.stages:
        assert (stage.weight is None) == bool(application.readers(QueryName(stage.name)))


def test_modes_are_settings_that_exist() -> None:
    """Plain Spark is not attached, with a limit or without; the others differ in nothing but the policy."""
    chosen = {mode: mode_settings(mode, 3.0) for mode in MODES}
    assert chosen.pop("plain") is chosen.pop("static_limit") is None
    policies = {mode: load_settings(arguments=values).graph.policy for mode, values in chosen.items()}
    assert policies == {"min_flow": "min", ACES: "max"}


def test_unknown_shape_names_the_known_ones() -> None:
    """A graph that does not exist is refused with those that do."""
    with pytest.raises(PenstockError, match="fanout, chain"):
        shape_named("ring")


def test_topics_of_two_runs_differ() -> None:
    """No run reads what another one left."""
    assert StageTopics("b", "aces-1").of("rows") != StageTopics("b", "aces-2").of("rows")


def test_states_come_from_the_later_half() -> None:
    """A stage that alternates between cheap and dear batches has these two states; its warm-up does not count."""
    costs_s = [50.0] * 8 + [1.0, 1.0, 4.0, 4.0] * 2
    done = [StageBatch("fast", float(place), 1.0, 100, 0.0, cost) for place, cost in enumerate(costs_s)]
    found = states_of("fast", done)
    assert (found.fast_s, found.slow_s) == pytest.approx((0.01, 0.04))
    assert found.slow_share == pytest.approx(0.8)


class BacklogRuns:
    """Queries with so many seconds for a batch and a row on a backlog, all of them in turn on two cores."""

    batch_s = 3.0
    graph = shape_named("fanout")
    cores = 2.0
    fixed_core_s, row_core_s = 0.1, {"parse": 1e-4, "fast": 1e-4, "medium": 3e-4, "slow": 5e-4}

    def __init__(self) -> None:
        self.limits: list[int] = []

    def on_backlog(self, name: str, backlog_rows: int, limit_rows: int, settle_s: float, seconds: float) -> GraphRun:
        """As many batches as cores and triggers let them have."""
        assert backlog_rows > limit_rows
        assert settle_s >= 0
        self.limits.append(limit_rows)
        # What runs first is not compiled yet.
        slower = 3.0 if name == "warm" else 1.0
        costs = {stage: slower * (self.fixed_core_s + limit_rows * row_s) for stage, row_s in self.row_core_s.items()}
        period_s = max(self.batch_s, sum(costs.values()) / self.cores)
        done = [
            StageBatch(stage, number * period_s, 1.0, limit_rows, 5.0, core_s)
            for number in range(6)
            for stage, core_s in costs.items()
        ]
        rows = dict.fromkeys(self.row_core_s, round(limit_rows * seconds / period_s))
        return GraphRun(done, StageWindow(0.0, seconds, rows), load_began_s=0.0)


def test_capacity_is_what_cores_bound() -> None:
    """Limits grow until they do no more rows a second, whatever the warm-up said."""
    runs = BacklogRuns()
    said: list[str] = []
    found = find_capacity(cast("GraphRuns", runs), said.append)
    assert found.rows_per_s == pytest.approx(runs.cores / sum(runs.row_core_s.values()), rel=0.1)
    assert runs.limits[1] > runs.limits[0] / 2
    assert set(found.states) == set(runs.row_core_s)
    assert said[0].startswith("warm-up")
