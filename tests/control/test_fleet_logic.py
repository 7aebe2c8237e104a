"""The logic of a fleet, one event at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from penstock.control.fleet.logic import FleetLogic
from penstock.errors import InvalidGraphError
from penstock.model.decision import Hold, Infeasible
from penstock.model.decision_base import Decision
from penstock.model.fleet import (
    AccuracyBounds,
    EngineLost,
    EngineSeen,
    FleetEngine,
    FleetEvent,
    FleetGoalChanged,
    FleetQuery,
    FleetTick,
    Move,
    MoveFailed,
    MoveFinished,
    Place,
    QueryAdded,
    QueryRemoved,
    QueryReport,
    StreamKeepRatio,
    StreamReport,
)
from penstock.model.goal import Goal
from penstock.model.query import QueryName
from penstock.settings import FleetSettings

CLICKS, ADS = QueryName("clicks"), QueryName("ads")


def _query(name: str, *, priority: int = 1, minimum: float = 0.2, **more: object) -> FleetQuery:
    goal = Goal(minimum_accuracy=minimum, priority=priority)
    return FleetQuery(QueryName(name), goal, reads=(f"topic:{name}",), **more)  # type: ignore[arg-type]


def _report(name: str, engine: str, *, rows_per_s: float, core_s_per_row: float, backlog: float = 0.0) -> QueryReport:
    """One second in which everything that arrived was kept."""
    inputs = (StreamReport(f"topic:{name}", rows_per_s, rows_per_s, backlog, rows_per_s),)
    return QueryReport(QueryName(name), engine, 1.0, rows_per_s * core_s_per_row, inputs)


class Fleet:
    """A logic with a clock that goes on by a second with every step."""

    def __init__(self, engines: Sequence[str] = ("east", "west"), settings: FleetSettings | None = None) -> None:
        self.logic = FleetLogic(settings)
        self.now_s = 0.0
        for engine in engines:
            self.tell(EngineSeen(FleetEngine(engine)))

    def tell(self, event: FleetEvent) -> list[Decision]:
        """What follows from an event now."""
        return self.logic.on_event(event, self.now_s)

    def running(self, query: FleetQuery, engine: str) -> None:
        """A query that runs there already."""
        self.tell(QueryAdded(query, engine))

    def steps(self, count: int, *reports: QueryReport) -> list[Decision]:
        """The same reports every second, for so many seconds; what was decided meanwhile."""
        decided: list[Decision] = []
        for _ in range(count):
            self.now_s += 1.0
            for report in reports:
                decided += self.tell(report)
            decided += self.tell(FleetTick())
        return decided


def _of(kind: type[Decision], decisions: Sequence[Decision]) -> list[Decision]:
    return [each for each in decisions if isinstance(each, kind)]


def test_a_query_is_placed_where_the_most_cpu_is_free() -> None:
    """Foreign processes and queries count as use, one that nobody has measured as a whole core."""
    fleet = Fleet()
    for _ in range(30):
        fleet.tell(EngineSeen(FleetEngine("east"), host_busy_cores=0.8))
    (place,) = _of(Place, fleet.tell(QueryAdded(_query("clicks"))))
    assert isinstance(place, Place)
    assert place.engine == "west"
    (other,) = _of(Place, fleet.tell(QueryAdded(_query("ads"))))
    assert isinstance(other, Place)
    assert other.engine == "east", "west is taken to be full with one unknown query"


def test_a_query_waits_for_an_engine() -> None:
    """Without an engine it is said once that it waits; when one comes it is placed."""
    fleet = Fleet(engines=())
    assert len(_of(Hold, fleet.tell(QueryAdded(_query("clicks"))))) == 1
    assert fleet.tell(FleetTick()) == []
    (place,) = _of(Place, fleet.tell(EngineSeen(FleetEngine("east"))))
    assert place.query == CLICKS


def test_a_preferred_engine_is_taken_unless_it_is_too_small() -> None:
    """A location preference holds as long as the engine has the CPU that the query needs."""
    fleet = Fleet(engines=())
    fleet.tell(EngineSeen(FleetEngine("big", cores=8.0)))
    fleet.tell(EngineSeen(FleetEngine("near", cores=2.0)))
    (first,) = _of(Place, fleet.tell(QueryAdded(_query("clicks", prefers=("near",)))))
    (second,) = _of(Place, fleet.tell(QueryAdded(_query("ads", prefers=("near",)))))
    (third,) = _of(Place, fleet.tell(QueryAdded(_query("more", prefers=("near",)))))
    assert [each.target for each in (first, second, third)] == ["near", "near", "big"]


def test_low_priorities_give_way_first() -> None:
    """Above capacity the high one keeps everything and the low one what is left, at least its minimum."""
    fleet = Fleet(engines=("east",))
    fleet.running(_query("clicks", priority=9), "east")
    fleet.running(_query("ads", priority=1), "east")
    reports = [_report(name, "east", rows_per_s=600, core_s_per_row=0.001) for name in ("clicks", "ads")]
    decisions = _of(StreamKeepRatio, fleet.steps(10, *reports))
    assert {each.query for each in decisions} == {ADS}
    assert decisions[-1].value == pytest.approx(0.5, abs=0.03), "0.9 cores to give less 0.6 leave half of 0.6"


def test_a_changed_goal_takes_effect_at_once() -> None:
    """The next plan after a change of priority takes from the other one, and says who asked."""
    fleet = Fleet(engines=("east",))
    fleet.running(_query("clicks", priority=9), "east")
    fleet.running(_query("ads", priority=1), "east")
    reports = [_report(name, "east", rows_per_s=600, core_s_per_row=0.001) for name in ("clicks", "ads")]
    fleet.steps(10, *reports)
    fleet.now_s += 1.0
    goal = Goal(minimum_accuracy=0.2, priority=50)
    decisions = _of(StreamKeepRatio, fleet.tell(FleetGoalChanged(ADS, goal, asked_by="ann")))
    assert {str(each.query): round(each.value or 0, 1) for each in decisions} == {"clicks": 0.5, "ads": 1.0}
    assert "ann" in decisions[0].cause


def test_a_backlog_lowers_accuracy_until_it_is_gone() -> None:
    """Rows that wait count as demand over the drain horizon."""
    fleet = Fleet(engines=("east",))
    fleet.running(_query("clicks"), "east")
    fleet.steps(5, _report("clicks", "east", rows_per_s=800, core_s_per_row=0.001))
    waiting = fleet.steps(3, _report("clicks", "east", rows_per_s=800, core_s_per_row=0.001, backlog=4000))
    assert _of(StreamKeepRatio, waiting)[-1].value == pytest.approx(0.9 / (0.8 + 0.36), abs=0.03)
    drained = fleet.steps(6, _report("clicks", "east", rows_per_s=800, core_s_per_row=0.001))
    assert _of(StreamKeepRatio, drained)[-1].value == 1.0


def test_a_query_of_higher_priority_is_not_held_while_a_lower_one_warms_up() -> None:
    """One of low priority that moves in takes nothing from those above it, and they are no part of its cost."""
    fleet = Fleet()
    fleet.running(_query("clicks", priority=9), "west")
    fleet.running(_query("logs", priority=1), "west")
    fleet.running(_query("ads", priority=1), "east")
    fleet.running(_query("bids", priority=5), "east")
    east = [_report(name, "east", rows_per_s=700, core_s_per_row=0.001) for name in ("ads", "bids")]
    west = [_report(name, "west", rows_per_s=100, core_s_per_row=0.001) for name in ("clicks", "logs")]
    (move,) = _of(Move, fleet.steps(30, *east, *west))
    assert isinstance(move, Move)
    assert (move.query, move.engine) == (ADS, "west")
    held = _of(AccuracyBounds, fleet.tell(MoveFinished(ADS, "west", move.number, downtime_s=4.0)))
    assert {str(each.query) for each in held} == {"ads", "logs"}
    ratios = _of(StreamKeepRatio, fleet.steps(3, *west))
    assert all(each.query != CLICKS for each in ratios), "it keeps all of its rows"


def test_a_query_moves_where_it_pays_and_does_not_come_back() -> None:
    """The lower priority moves to the engine with room, its neighbours are held meanwhile, and it stays away."""
    fleet = Fleet(settings=FleetSettings(stay_s=1000.0))
    fleet.running(_query("clicks", priority=9), "east")
    fleet.running(_query("ads", priority=1), "east")
    fleet.running(_query("logs", priority=1), "west")
    east = [_report(name, "east", rows_per_s=700, core_s_per_row=0.001) for name in ("clicks", "ads")]
    logs = _report("logs", "west", rows_per_s=100, core_s_per_row=0.001)
    (move,) = _of(Move, fleet.steps(30, *east, logs))
    assert isinstance(move, Move)
    assert (move.query, move.leaves, move.engine) == (ADS, "east", "west")
    assert move.expected["gain_core_s"] > move.expected["cost_core_s"]
    held = _of(AccuracyBounds, fleet.tell(MoveFinished(ADS, "west", move.number, downtime_s=4.0)))
    assert {str(each.query) for each in held} == {"ads", "logs"}
    assert {each.value for each in held} == {0.2}
    ads = _report("ads", "west", rows_per_s=700, core_s_per_row=0.001)
    clicks = _report("clicks", "east", rows_per_s=700, core_s_per_row=0.001)
    after = fleet.steps(20, clicks, ads, logs)
    assert {each.value for each in _of(AccuracyBounds, after)} == {1.0}, "nobody is held when it is warm"
    crowded = _report("logs", "west", rows_per_s=900, core_s_per_row=0.001)
    idle = _report("clicks", "east", rows_per_s=10, core_s_per_row=0.001)
    assert all(each.query != ADS for each in _of(Move, fleet.steps(60, idle, ads, crowded)))


def test_a_move_that_costs_more_than_it_gains_is_not_made() -> None:
    """With a learned downtime of minutes a small gain moves nobody."""
    fleet = Fleet(settings=FleetSettings(downtime_s=600.0))
    fleet.running(_query("clicks", priority=9), "east")
    fleet.running(_query("ads", priority=1), "east")
    fleet.running(_query("logs", priority=1), "west")
    east = [_report(name, "east", rows_per_s=700, core_s_per_row=0.001) for name in ("clicks", "ads")]
    assert not _of(Move, fleet.steps(60, *east, _report("logs", "west", rows_per_s=10, core_s_per_row=0.001)))


def test_queries_of_a_lost_engine_run_elsewhere() -> None:
    """Everything that ran on an engine that is lost is placed on another at once, what was on its way there too."""
    fleet = Fleet()
    fleet.running(_query("clicks"), "east")
    fleet.tell(QueryAdded(_query("ads")))
    fleet.now_s += 1
    decisions = _of(Place, fleet.tell(EngineLost("east", "no answer for 15 s")))
    assert CLICKS in {each.query for each in decisions}
    assert {each.target for each in decisions} == {"west"}
    assert "no answer" in decisions[0].cause


def test_a_move_that_fails_is_tried_elsewhere_or_given_up() -> None:
    """A query that no engine runs after a failed placement goes to another; one that still runs stays where it is."""
    fleet = Fleet()
    (place,) = _of(Place, fleet.tell(QueryAdded(_query("clicks"))))
    assert isinstance(place, Place)
    other = {"east": "west", "west": "east"}[place.engine]
    (again,) = _of(Place, fleet.tell(MoveFailed(CLICKS, place.engine, place.number, "module does not import")))
    assert isinstance(again, Place)
    assert again.engine == other
    assert not fleet.tell(MoveFailed(CLICKS, place.engine, place.number, "told twice"))
    fleet.tell(MoveFailed(CLICKS, again.engine, again.number, "timed out", running_on=other))
    assert fleet.logic.state.engine_place("clicks") == fleet.logic.state.engines.place[other]


def test_minima_that_fit_nowhere_are_said_once() -> None:
    """What cannot be is said of the query of low priority, once, and said again when it fits."""
    fleet = Fleet(engines=("east",))
    fleet.running(_query("clicks", priority=9, minimum=0.8), "east")
    fleet.running(_query("ads", priority=1, minimum=0.8), "east")
    heavy = [_report(name, "east", rows_per_s=900, core_s_per_row=0.001) for name in ("clicks", "ads")]
    decisions = fleet.steps(40, *heavy)
    assert [each.query for each in _of(Infeasible, decisions)] == [ADS]
    keep = {each.query: each.value for each in _of(StreamKeepRatio, decisions)}
    assert keep[ADS] == pytest.approx(0.8), "a minimum is a promise: it is kept to although it does not fit"
    light = [_report(name, "east", rows_per_s=300, core_s_per_row=0.001) for name in ("clicks", "ads")]
    assert ADS in {each.query for each in _of(Hold, fleet.steps(10, *light))}


def test_reports_of_the_engine_that_was_left_do_not_count() -> None:
    """A late report from the old engine changes nothing of what is known."""
    fleet = Fleet()
    fleet.running(_query("clicks"), "east")
    fleet.steps(2, _report("clicks", "west", rows_per_s=5000, core_s_per_row=1.0))
    assert not fleet.logic.state.table.known.any()


def test_a_removed_query_leaves_its_cpu_to_others() -> None:
    """When the high one goes, the low one gets all of its rows back."""
    fleet = Fleet(engines=("east",))
    fleet.running(_query("clicks", priority=9), "east")
    fleet.running(_query("ads", priority=1), "east")
    reports = [_report(name, "east", rows_per_s=600, core_s_per_row=0.001) for name in ("clicks", "ads")]
    fleet.steps(10, *reports)
    fleet.now_s += 1
    decisions = _of(StreamKeepRatio, fleet.tell(QueryRemoved(CLICKS)))
    assert [(each.query, each.value) for each in decisions] == [(ADS, 1.0)]


def test_what_has_no_guard_is_never_thinned_out() -> None:
    """A query that cannot drop keeps all, and so does what feeds it."""
    fleet = Fleet(engines=("east",))
    source = FleetQuery(QueryName("clicks"), reads=("topic:clicks",), writes=("parsed",))
    sink = FleetQuery(QueryName("sums"), Goal(minimum_accuracy=0.1), reads=("parsed",), is_guarded=False)
    fleet.running(source, "east")
    fleet.running(sink, "east")
    fleet.running(_query("ads", minimum=0.1), "east")
    sums = QueryReport(QueryName("sums"), "east", 1.0, 0.3, (StreamReport("parsed", 300, 300, 0, 300),))
    loads = [_report("clicks", "east", rows_per_s=300, core_s_per_row=0.001), sums]
    loads.append(_report("ads", "east", rows_per_s=600, core_s_per_row=0.001))
    assert {each.query for each in _of(StreamKeepRatio, fleet.steps(10, *loads))} == {ADS}


def test_a_query_that_dropped_nearly_all_gets_its_rows_back() -> None:
    """What a query costs is not taken for boundless where it keeps next to nothing of what it reads."""
    fleet = Fleet(engines=("east",))
    fleet.running(_query("clicks", priority=9), "east")
    fleet.running(_query("ads", priority=1, minimum=0.0), "east")
    crowded = _report("clicks", "east", rows_per_s=890, core_s_per_row=0.001)
    ads = _report("ads", "east", rows_per_s=300, core_s_per_row=0.001)
    fleet.steps(10, crowded, ads)
    starved = QueryReport(ADS, "east", 1.0, 0.01, (StreamReport("topic:ads", 300, 0.001, 0, 300),))
    fleet.steps(120, crowded, starved)
    free = _report("clicks", "east", rows_per_s=300, core_s_per_row=0.001)
    decisions = fleet.steps(5, free, starved)
    assert {each.query: each.value for each in _of(StreamKeepRatio, decisions)}[ADS] == 1.0


def test_a_stream_that_leads_back_is_refused() -> None:
    """A query that would read what comes from itself is an error that names it, and the others run on."""
    fleet = Fleet(engines=("east",))
    fleet.running(FleetQuery(QueryName("a"), reads=("x",), writes=("y",)), "east")
    fleet.running(FleetQuery(QueryName("b"), reads=("y",), writes=("z",)), "east")
    back = QueryAdded(FleetQuery(QueryName("c"), reads=("z",), writes=("x",)), "east")
    with pytest.raises(InvalidGraphError, match="'c' reads 'z', which comes from itself"):
        fleet.tell(back)
    assert set(fleet.logic.state.queries) == {"a", "b"}
    fleet.steps(3)


def test_a_restored_logic_decides_the_same() -> None:
    """A snapshot that went through JSON in the middle of a move goes on as the original does."""
    fleet = Fleet()
    for name, priority in (("clicks", 9), ("ads", 1)):
        fleet.running(_query(name, priority=priority), "east")
    fleet.tell(QueryAdded(_query("logs")))
    reports = [_report(name, "east", rows_per_s=700, core_s_per_row=0.001) for name in ("clicks", "ads")]
    for count in (3, 9, 25):
        fleet.steps(count, *reports)
        twin = Fleet(engines=())
        twin.logic = FleetLogic.restored(json.loads(json.dumps(fleet.logic.snapshot())))
        twin.now_s = fleet.now_s
        start = fleet.logic.snapshot()
        assert twin.steps(8, *reports[:1]) == fleet.steps(8, *reports[:1])
        assert twin.logic.snapshot() == fleet.logic.snapshot()
        assert start != fleet.logic.snapshot()
