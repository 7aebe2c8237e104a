"""The flow of an application's graph: cold start, joins and leaves, merges, minima, and going on from a snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.graph_tier import GraphTier, GraphTierState
from penstock.control.tier_two import FlowPolicy
from penstock.errors import InvalidSettingError
from penstock.model.application import Application, QueryDeclaration
from penstock.model.decision import Decision, GraphPlan, Hold, Infeasible, from_action, to_action
from penstock.model.goal import Goal
from penstock.model.query import QueryName
from penstock.model.signal import BatchSignal, GuardSignal, SourceSignal

ROWS_PER_CORE_S = {"parse": 1000.0, "fast": 1000.0, "medium": 400.0, "slow": 100.0}
MINIMUM = 0.02


def query(*reads: str, writes: str = "", weight: float = 1.0, minimum: float = MINIMUM) -> QueryDeclaration:
    goal = Goal(weight=weight, minimum_accuracy=minimum)
    return QueryDeclaration(goal, reads, (writes,) if writes else ())


def application(**queries: QueryDeclaration) -> Application:
    return Application({QueryName(name): declared for name, declared in queries.items()})


FANOUT = application(
    parse=query("clicks", writes="parsed", minimum=1.0),
    fast=query("parsed", weight=5.0),
    medium=query("parsed", weight=2.0),
    slow=query("parsed"),
)


@dataclass
class Queries:
    """Queries in steps of one batch, each reading no more than it may of what waits; nothing waits at first."""

    application: Application
    arriving_rows: dict[str, int]
    rows_per_core_s: dict[str, float]
    cores: float = 2.0
    policy: FlowPolicy = FlowPolicy.MAX
    fixed_core_s: float = 0.0
    silent: str = ""
    state: GraphTierState | None = None
    lags: dict[str, float] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        self.tier = GraphTier(
            self.application, plan_every_s=5.0, batch_s=1.0, cores=self.cores, policy=self.policy, state=self.state
        )
        self.running = [QueryName(name) for name in self.rows_per_core_s]
        for name in self.running:
            self.lags.setdefault(name, 0.0)
            self.done.setdefault(name, 0)
            self.tier.query_started(name)

    def run(self, batches: int) -> None:
        """So many batches of every query."""
        for _ in range(batches):
            self.now += 1
            for name, rows in self.arriving_rows.items():
                self.lags[name] += rows
            limits = {name: self.tier.limit_rows(name, float(self.now)) for name in self.running}
            # At first admission limits everybody, to sizes that differ.
            first = 100 + 50 * (self.now % 3)
            read = {
                name: int(min(self.lags[name], first if limit is None and self.now < 5 else limit or 1e9))
                for name, limit in limits.items()
            }
            for name, rows in read.items():
                self.lags[name] -= rows
                self.done[name] += rows
                for reader in self.application.readers(name):
                    self.lags[reader] += rows
            for name, rows in read.items():
                if rows and name != self.silent:
                    self._tell(name, rows)
            self.decisions += self.tier.plan(float(self.now))

    def _tell(self, name: QueryName, rows: int) -> None:
        source = SourceSignal(0, rows, None, self.lags[name])
        signal = BatchSignal(name, self.now, self.now - 1.0, 1.0, rows, (source,))
        core_s = self.fixed_core_s + rows / self.rows_per_core_s[name]
        self.tier.observe_batch(signal, core_s, None, float(self.now))

    def end(self, name: str) -> None:
        """A query ends."""
        self.running.remove(QueryName(name))
        self.tier.query_ended(QueryName(name))

    def start(self, name: str) -> None:
        """A query starts."""
        self.running.append(QueryName(name))
        self.tier.query_started(QueryName(name))

    def plans(self) -> list[GraphPlan]:
        """What was planned so far."""
        return [decision for decision in self.decisions if isinstance(decision, GraphPlan)]


def fanout(policy: FlowPolicy = FlowPolicy.MAX, *, silent: str = "", arriving_rows: int = 800) -> Queries:
    return Queries(FANOUT, {"parse": arriving_rows}, ROWS_PER_CORE_S, policy=policy, silent=silent)


def weighted(queries: Queries) -> float:
    return 5.0 * queries.done["fast"] + 2.0 * queries.done["medium"] + queries.done["slow"]


def test_max_flow_does_more_than_min_flow() -> None:
    """With a slow reader, following the fastest reader gives more weighted rows, at least twice as many here."""
    fast, slow = fanout(FlowPolicy.MAX), fanout(FlowPolicy.MIN)
    fast.run(60)
    slow.run(60)
    assert weighted(fast) > 2 * weighted(slow)
    assert fast.done["fast"] == pytest.approx(60 * 800, rel=0.05)


def test_nothing_is_limited_before_everybody_is_known() -> None:
    """No calibration: until every query that runs has two batches of known cost there is neither plan nor limit."""
    queries = fanout()
    queries.run(1)
    assert queries.tier.limit_rows(QueryName("fast"), 1.0) is None
    assert queries.decisions == []
    queries.run(5)
    assert queries.tier.limit_rows(QueryName("fast"), 6.0) is not None
    assert queries.plans()[0].cause == "deployment of parse, fast, medium, slow"


def test_a_query_without_rows_holds_up_nobody() -> None:
    """A query that never had a batch is not waited for longer than fifteen batches."""
    queries = fanout(silent="medium")
    queries.run(14)
    assert queries.decisions == []
    queries.run(6)
    assert "medium" not in queries.plans()[-1].targets_rows_per_s


def test_costs_of_nobody_knows_limit_nothing() -> None:
    """Where Spark does not say what batches cost, missing data argues against acting."""
    tier = GraphTier(FANOUT, plan_every_s=5.0, batch_s=1.0)
    parse = QueryName("parse")
    tier.query_started(parse)
    for number in range(40):
        signal = BatchSignal(parse, number, float(number), 1.0, 100, (SourceSignal(0, 100, None, 9e3),))
        tier.observe_batch(signal, None, 800.0, number + 1.0)
        assert tier.plan(number + 1.0) == []
        assert tier.limit_rows(parse, number + 1.0) is None


def test_lag_of_the_followed_reader_settles_at_a_batch() -> None:
    """Eq. 7 keeps about one batch waiting before the reader that the producer follows, whatever it began with."""
    queries = fanout()
    queries.lags["fast"] = 4000.0
    queries.run(80)
    limit = queries.tier.limit_rows(QueryName("fast"), 80.0)
    assert limit is not None
    assert queries.lags["fast"] <= 1.5 * limit


def test_cores_are_used_and_not_promised_twice() -> None:
    """With costs that are known, targets settle at the cores that there are."""
    queries = fanout()
    queries.run(30)
    promised = sum(rate / ROWS_PER_CORE_S[name] for name, rate in queries.tier.targets_rows_per_s.items())
    assert 1.8 <= promised <= 2.0 + 1e-6


@pytest.mark.parametrize("fixed_core_s", [0.0, 0.1, 0.3])
def test_fixed_costs_neither_idle_nor_overload_cores(fixed_core_s: float) -> None:
    """The cores that there are get busy, with whatever batches cost before their first row."""
    queries = Queries(FANOUT, {"parse": 800}, ROWS_PER_CORE_S, cores=4.0, fixed_core_s=fixed_core_s)
    queries.run(60)
    before = dict(queries.done)
    queries.run(20)
    used = sum((queries.done[name] - before[name]) / 20 / rate for name, rate in ROWS_PER_CORE_S.items())
    assert 0.9 * 4.0 <= used + 4 * fixed_core_s <= 1.1 * 4.0


def test_silent_reader_stops_nobody() -> None:
    """A reader whose reports are lost counts with its target: the producer keeps its pace."""
    talking, quiet = fanout(), fanout()
    for queries in (talking, quiet):
        queries.run(20)
    quiet.silent = "fast"
    for queries in (talking, quiet):
        queries.run(40)
    assert quiet.done["parse"] >= 0.95 * talking.done["parse"]


def test_a_load_that_fits_is_not_limited() -> None:
    """Where all that comes needs few of the cores, a batch may read what all of them can do; the plan says it fits."""
    queries = fanout(arriving_rows=100)
    queries.run(30)
    for name in queries.running:
        limit = queries.tier.limit_rows(name, 30.0)
        assert limit is not None
        # Batches of one size tell little of what is fixed.
        assert 1.0 <= limit / (2.0 * 3.0 * ROWS_PER_CORE_S[name]) <= 1.5
    assert queries.plans()[-1].reason.startswith("all that comes fits")
    assert queries.done["slow"] >= 95 * 30 - 800


def test_what_waited_is_read_when_there_are_cores_again() -> None:
    """After an overload the slow reader works off what waits, beyond what its producer sends meanwhile."""
    queries = fanout()
    queries.run(60)
    assert queries.lags["slow"] > 20_000
    queries.arriving_rows["parse"] = 50
    queries.run(600)
    assert queries.lags["slow"] < 1_000


def test_a_reader_that_ends_frees_its_producer() -> None:
    """The plan after a departure is without that reader, and its cores go to the others."""
    queries = fanout()
    queries.run(30)
    before = dict(queries.tier.targets_rows_per_s)
    queries.end("fast")
    queries.run(30)
    after = queries.tier.targets_rows_per_s
    assert queries.plans()[-1].cause == "period" or "departure of fast" in queries.plans()[-1].cause
    assert any(plan.cause == "departure of fast" for plan in queries.plans())
    assert "fast" not in after
    assert after["medium"] > before["medium"]
    # Nobody needs more of the producer than the reader that is fastest now.
    assert after["parse"] <= 1.01 * after["medium"]


def test_a_query_whose_readers_all_ended_is_a_result_itself() -> None:
    """With nobody left to read it, a producer counts with its own weight instead of starving."""
    queries = fanout()
    queries.run(20)
    for name in ("fast", "medium", "slow"):
        queries.end(name)
    queries.run(30)
    assert queries.done["parse"] == pytest.approx(50 * 800, rel=0.1)


def test_a_query_that_joins_is_planned_with() -> None:
    """A reader that starts later is deployed as soon as its cost is known; until then the others go on."""
    queries = fanout()
    queries.end("medium")
    queries.run(20)
    assert "medium" not in queries.tier.targets_rows_per_s
    queries.start("medium")
    queries.run(10)
    assert any(plan.cause == "deployment of medium" for plan in queries.plans())
    assert queries.tier.targets_rows_per_s["medium"] > 0


def test_two_sources_are_two_inputs() -> None:
    """A query of a stream of its own and of what another one writes is offered both."""
    joined = application(left=query("a", writes="l"), both=query("l", "b"))
    queries = Queries(joined, {"left": 300, "both": 200}, {"left": 1000.0, "both": 500.0}, cores=0.8)
    queries.run(40)
    targets = queries.tier.targets_rows_per_s
    # All of 300 * 0.001 + 500 * 0.002 = 1.3 cores do not fit 0.8. Nobody can slow down the stream from outside, so the
    # producer gives way: x * 0.001 + (200 + x) * 0.002 = 0.8.
    assert targets["left"] == pytest.approx(133.0, rel=0.15)
    assert targets["both"] == pytest.approx(333.0, rel=0.15)


def test_merge_takes_of_each_feeder_what_it_sends() -> None:
    """Two writers of one stream, nine rows in ten from the first: both slow down by the same part."""
    merged = application(left=query("a", writes="m"), right=query("b", writes="m"), both=query("m"))
    queries = Queries(merged, {"left": 900, "right": 100}, {"left": 2000.0, "right": 1000.0, "both": 1000.0}, cores=1.0)
    queries.run(40)
    before = dict(queries.done)
    queries.run(20)
    left, right = (queries.done[name] - before[name] for name in ("left", "right"))
    assert left / (left + right) == pytest.approx(0.9, abs=0.02)
    assert (left + right) / 20 == pytest.approx(1.0 / (0.9 * 0.0005 + 0.1 * 0.001 + 0.001), rel=0.1)


def test_minima_that_do_not_fit_are_told_once() -> None:
    """Infeasible with remedies when minima stop fitting, Hold when they fit again, nothing in between."""
    queries = fanout()
    queries.run(20)
    slow = QueryName("slow")
    queries.tier.goal_changed(slow, Goal(minimum_accuracy=1.0))
    queries.run(20)
    [told] = [decision for decision in queries.decisions if isinstance(decision, Infeasible)]
    assert told.cause == "goal of slow"
    assert "lower the minimum accuracy of 'slow'" in told.reason
    assert "cores more" in told.reason
    queries.tier.goal_changed(slow, Goal(minimum_accuracy=0.02))
    queries.run(20)
    assert len([decision for decision in queries.decisions if isinstance(decision, Hold)]) == 1
    assert len([decision for decision in queries.decisions if isinstance(decision, Infeasible)]) == 1


def test_more_cores_are_planned_with_at_once() -> None:
    """The plan after a change of cores does not wait for its period."""
    queries = fanout()
    queries.run(21)
    before = queries.tier.targets_rows_per_s["medium"]
    queries.tier.set_cores(3.0)
    queries.run(1)
    assert queries.plans()[-1].cause == "3 cores instead of 2"
    assert queries.tier.targets_rows_per_s["medium"] > before


def test_shed_rows_do_not_count_as_work() -> None:
    """A query that drops three rows of four may read four times what it could process.

    And a little more: of what its batches cost, three dropped rows have a part, three tenths of a kept one by the first
    guess, which batches of one size do not contradict.
    """
    lone = application(parse=query("clicks", writes="parsed"), count=query("parsed"))
    tiers = []
    for kept in (1.0, 0.25):
        tier = GraphTier(lone, plan_every_s=5.0, batch_s=1.0, cores=1.0)
        for name in lone.queries:
            tier.query_started(name)
        for number in range(20):
            for name in lone.queries:
                rows = round(100 / kept)
                guard = GuardSignal(rows, round(kept * rows), kept)
                source = SourceSignal(0, rows, None, 5e4)
                signal = BatchSignal(name, number, float(number), 1.0, rows, (source,), guard=guard)
                tier.observe_batch(signal, 0.5, 1000.0, number + 1.0)
            tier.plan(number + 1.0)
        tiers.append(tier.limit_rows(QueryName("count"), 20.0))
    assert tiers[0] is not None
    assert tiers[1] is not None
    assert 4.0 * tiers[0] <= tiers[1] <= 4.0 * 1.3 * tiers[0]


def test_plans_survive_the_log() -> None:
    """A plan that is read back from the log equals the one that was made."""
    queries = fanout()
    queries.run(10)
    [plan] = queries.plans()[:1]
    assert from_action(to_action(plan)) == plan


def test_queries_outside_the_graph_are_left_alone() -> None:
    """A query that reads nobody and is read by nobody is no part of the plan."""
    alone = Application({**FANOUT.queries, QueryName("alone"): query("other")})
    queries = Queries(alone, {"parse": 800, "alone": 100}, {**ROWS_PER_CORE_S, "alone": 100.0})
    queries.run(20)
    assert "alone" not in queries.tier.targets_rows_per_s
    assert queries.tier.limit_rows(QueryName("alone"), 20.0) is None


def test_batches_of_no_time_are_refused() -> None:
    """A batch length of zero means nothing."""
    with pytest.raises(InvalidSettingError, match="batch_s"):
        GraphTier(FANOUT, plan_every_s=5.0, batch_s=0.0)


costs = st.floats(20.0, 5000.0)
STEPS = st.lists(
    st.tuples(st.sampled_from(["end", "start", "cores", "load"]), st.sampled_from(list(ROWS_PER_CORE_S)), costs),
    max_size=6,
)


def play(queries: Queries, steps: list[tuple[str, str, float]], *, restored: bool = False) -> None:
    """Let queries come and go, cores and load change; go on from a snapshot after each step where told to."""
    for what, name, figure in steps:
        if what == "end" and name in queries.running:
            queries.end(name)
        elif what == "start" and name not in queries.running:
            queries.start(name)
        elif what == "cores":
            queries.tier.set_cores(0.5 + figure / 1000.0)
        elif what == "load":
            queries.arriving_rows["parse"] = round(figure)
        if restored:
            tier = queries.tier
            queries.tier = GraphTier(
                tier.application, plan_every_s=5.0, batch_s=1.0, cores=tier.cores, state=tier.snapshot()
            )
        queries.run(9)
        assert queries.tier.promised_cores <= queries.tier.cores * (1.0 + 1e-6) or not queries.plans()
        for limited in queries.running:
            limit = queries.tier.limit_rows(limited, float(queries.now))
            assert limit is None or limit >= 1.0


@settings(deadline=None, max_examples=15)
@given(STEPS, st.tuples(costs, costs, costs, costs), st.floats(0.5, 8.0))
def test_promised_cores_never_exceed_those_that_are_there(
    steps: list[tuple[str, str, float]], rates: tuple[float, ...], cores: float
) -> None:
    """Whatever comes and goes, the targets in force never need more cores than there were when they were planned."""
    queries = Queries(FANOUT, {"parse": 800}, dict(zip(ROWS_PER_CORE_S, rates, strict=True)), cores=cores)
    queries.run(10)
    play(queries, steps)


@settings(deadline=None, max_examples=15)
@given(STEPS)
def test_a_restored_tier_decides_alike(steps: list[tuple[str, str, float]]) -> None:
    """Going on from a snapshot makes no difference to any decision or limit."""
    kept, restored = fanout(), fanout()
    for queries in (kept, restored):
        queries.run(12)
    play(kept, steps)
    play(restored, steps, restored=True)
    assert kept.decisions == restored.decisions
    assert kept.done == restored.done
    limits = [[each.tier.limit_rows(name, 1e3) for name in each.running] for each in (kept, restored)]
    assert limits[0] == limits[1]


def warm(rows_per_core_s: float, batches: int, tier: GraphTier, first: int = 0, rows: int = 500) -> None:
    """Batches of all queries of the fan-out, of sizes that differ, all rows of one cost."""
    for number in range(first, first + batches):
        for name in FANOUT.queries:
            own = rows + 250 * (number % 3)
            batch = BatchSignal(name, number, float(number), 0.9, own, (SourceSignal(0, own, None, 9_000.0),))
            tier.observe_batch(batch, own / rows_per_core_s, 2_000.0 if name == "parse" else None, number + 0.9)


def test_costs_that_fell_are_planned_with_at_once() -> None:
    """Code that got warm is not left idle until the period is over."""
    tier = GraphTier(FANOUT, plan_every_s=1_000.0, batch_s=1.0, cores=2.0)
    for name in FANOUT.queries:
        tier.query_started(name)
    warm(1_000.0, 6, tier)
    [before] = [each for each in tier.plan(6.0) if isinstance(each, GraphPlan)]
    warm(4_000.0, 6, tier, first=6)
    [after] = [each for each in tier.plan(12.0) if isinstance(each, GraphPlan)]
    assert "times what was planned with" in after.cause
    assert after.targets_rows_per_s["fast"] > 1.5 * before.targets_rows_per_s["fast"]
    assert not tier.plan(12.5)


@pytest.mark.parametrize(("lag_rows", "is_held"), [(2_000.0, False), (50_000.0, True)])
def test_rows_that_will_be_late_are_not_worked_off_before_there_is_a_plan(lag_rows: float, *, is_held: bool) -> None:
    """A query keeps some times its largest batch when rows wait for more than half of its goal; before, it is free."""
    declared = application(parse=QueryDeclaration(Goal(latency=10, minimum_accuracy=0.02), ("clicks",), ("parsed",)),
                           fast=query("parsed"))  # fmt: skip
    tier, parse = GraphTier(declared, plan_every_s=5.0, batch_s=1.0, growth_factor=4.0), QueryName("parse")
    tier.query_started(parse)
    tier.query_started(QueryName("fast"))
    assert tier.keep_bounds(parse, 0.0) is None
    tier.observe_batch(BatchSignal(parse, 0, 0.0, 1.0, 100, (SourceSignal(0, 100, None, lag_rows),)), 0.1, 1_000.0, 1.0)
    bounds = tier.keep_bounds(parse, 1.0)
    assert (bounds is not None) == is_held
    assert bounds is None or bounds.most_rows == pytest.approx(400.0)
