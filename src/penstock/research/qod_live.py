"""Scenarios 1 to 3 of "Stream-Economics" on live engines of one pinned core each, over Kafka.

The scenarios are scripts as the simulator runs them, shorter and with smaller rates: of a live engine's core its own
driver takes a part. The declaration of the fleet is made of the script, the control process is that of ``penstock up``.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import FleetError
from penstock.fleet.control import FleetControl, engine_directory
from penstock.fleet.engines import Answer, OwnEngine
from penstock.fleet_declaration import read_fleet
from penstock.kafka import jars
from penstock.kafka.broker import running_cluster
from penstock.kafka.broker_config import ClusterSpec
from penstock.kafka.client import KafkaClient
from penstock.kafka.load import run_load
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model.fleet import EngineSeen
from penstock.model.goal import Goal
from penstock.model.profile import LoadProfile
from penstock.model.rows import PlainContent
from penstock.process.ports import free_port
from penstock.research.qod import FIRST, SECOND, Scenario, steps
from penstock.research.qod_live_watch import LiveWatch
from penstock.sim.fleet import FleetScript
from penstock.sim.fleet_apps import GREEN, POINTS, YELLOW, nearest_neighbours, taxi_drives
from penstock.sim.fleet_queries import SimulatedFleetQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.fleet.engines import EngineHandle
    from penstock.fleet_declaration import FleetDeclaration
    from penstock.research.qod_figures import Row
    from penstock.sim.fleet import FleetRun

LATENCY_GOAL_S = 25.0
TRIGGER_S = 6
"""Of a core that five queries share, planning their batches took a third at a trigger of 3 s; it is to be the rows'.

And a row goes through two queries: it waits for a trigger twice, and within a goal of 25 s one batch may overrun."""
PARTITIONS = 2
_MODULES = Path(__file__).parent / "fleet_modules"
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A life of minutes: what the second compiler would gain, it does not gain any more."""
_HEAP, _BROKER_HEAP = "1g", "512m"
_PLACED_WITHIN_S, _COMES_BEFORE_S = 150.0, 15.0
_SOURCE_MINIMUM = 0.05
"""Of a query that others read the goal does not count, it inherits theirs; below one so that its guard may drop."""
_SETTINGS = f"""\
[fleet]
waiting_s = {TRIGGER_S + 0.5}
warm_up_s = 20
move_after_s = 8
downtime_s = 6
"""


def live_scenario_1() -> Scenario:
    """Equal priorities on one engine that is short of CPU; the second engine comes later."""
    drives = ((0, 30.0), (40, 230.0))
    half = steps(*((begin_s, rate / 2) for begin_s, rate in drives))
    return Scenario(
        "1: equal priorities, live",
        FleetScript({YELLOW: half, GREEN: half}, [(0, FIRST), *((0, each) for each in taxi_drives()), (110, SECOND)]),
        until_s=220,
        changes_s=(40.0,),
        marks=((40, "A"), (110, "TM2 added")),
    )


def live_scenario_2() -> Scenario:
    """Detours before landmarks before neighbours; neighbours grow, then the drives do, then beyond what is there."""
    # More neighbours than a core does that has nothing else to do, a thousand a second. Then so many drives that minima
    # still fit: with 360 a second they did not, beside planning, and everybody moved in search of room.
    drives, points = ((0, 30.0), (110, 110.0), (200, 260.0)), ((0, 20.0), (40, 1000.0))
    half = steps(*((begin_s, rate / 2) for begin_s, rate in drives))
    applications = taxi_drives(
        landmarks=Goal(latency=LATENCY_GOAL_S, minimum_accuracy=0.4, priority=5),
        detours=Goal(latency=LATENCY_GOAL_S, minimum_accuracy=0.6, priority=9),
    )
    # With a goal of its own it cannot take the core for batches of any length: Spark takes no core from a task.
    neighbours = nearest_neighbours(goal=Goal(latency=LATENCY_GOAL_S / 2, minimum_accuracy=0.1, priority=1))
    return Scenario(
        "2: different priorities, live",
        FleetScript(
            {YELLOW: half, GREEN: half, POINTS: steps(*points)},
            [(0, FIRST), (0, SECOND), *((0, each) for each in (*applications, *neighbours))],
        ),
        until_s=320,
        changes_s=(40.0, 110.0, 200.0),
        marks=((40, "B"), (110, "C"), (200, "D")),
    )


def live_scenario_3() -> Scenario:
    """Neighbours in two instances on two engines; the rate doubles, doubles again, and falls."""
    # Two cores that have nothing else to do take two thousand a second.
    points = ((0, 300.0), (50, 600.0), (110, 2000.0), (170, 400.0))
    return Scenario(
        "3: rate of a topic, live",
        FleetScript(
            {POINTS: steps(*points)},
            [(0, FIRST), (0, SECOND), *((0, each) for each in nearest_neighbours(parallelism=2))],
        ),
        until_s=220,
        changes_s=(50.0, 110.0, 170.0),
        marks=((50, "A"), (110, "A"), (170, "B")),
    )


LIVE_SCENARIOS: dict[int, Callable[[], Scenario]] = {1: live_scenario_1, 2: live_scenario_2, 3: live_scenario_3}


def run_live(
    scenario: Scenario, *, say: Callable[[str], None], place: Path | None = None
) -> tuple[FleetRun, list[Row]]:
    """Run a scenario on a broker and engines of its own; gives what was seen of queries, and of engines' cores.

    All of it is gone afterwards, but for ``place``.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-qod-") as scratch:
        where = place or Path(scratch)
        where.mkdir(parents=True, exist_ok=True)
        with running_cluster(ClusterSpec(where / "cluster", port=free_port(), heap=_BROKER_HEAP)) as cluster:
            return _Live(scenario, cluster.bootstrap, where, say).run()


class LaterEngine(OwnEngine):
    """An engine that is not there until it is told to come."""

    _is_invited = False

    @property
    def runs_nothing(self) -> bool:
        """Whether it cannot have queries."""
        return not self._is_invited or super().runs_nothing

    def start(self) -> None:
        """Start it once it may come."""
        if self._is_invited:
            super().start()

    def ask(self) -> Answer:
        """How it is; nothing to tell before it may come."""
        return super().ask() if self._is_invited else Answer(self.name)

    def come(self) -> None:
        """Let it start with the next question."""
        self._is_invited = True


@dataclass(frozen=True, slots=True)
class _Live:
    """One run: topics, a fleet under control, and loads."""

    scenario: Scenario
    bootstrap: str
    place: Path
    say: Callable[[str], None]

    def run(self) -> tuple[FleetRun, list[Row]]:
        self._make_topics()
        file = self.place / "fleet.toml"
        file.write_text(declaration_of(self.scenario, self.bootstrap), encoding="utf-8")
        declaration = read_fleet(file)
        control = FleetControl(declaration, self.place / "state", handles=self._handles(declaration))
        try:
            self.say("starting engines")
            control.start_engines()
            control.open()
            self._await_queries(control)
            return self._under_load(control)
        finally:
            control.close(engines_too=True)

    def _make_topics(self) -> None:
        client = KafkaClient(self.bootstrap)
        streams = {stream for each in queries_of(self.scenario) for stream in (*each.query.reads, *each.query.writes)}
        for stream in sorted(streams):
            client.create_topic(topic_of(stream), PARTITIONS)

    def _handles(self, declaration: FleetDeclaration) -> dict[str, EngineHandle]:
        later = {name for name, at_s in engines_of(self.scenario) if at_s > 0}
        return {
            name: (LaterEngine if name in later else OwnEngine)(
                declared, declaration.path.absolute(), engine_directory(self.place / "state", name),
                declaration.settings.agents,
            )
            for name, declared in declaration.engines.items()
        }  # fmt: skip

    def _await_queries(self, control: FleetControl) -> None:
        deadline_s = time.monotonic() + _PLACED_WITHIN_S
        while any(standing.engine is None for standing in control.fleet.standing.values()):
            if time.monotonic() > deadline_s:
                errors = [standing.error for standing in control.fleet.standing.values() if standing.error]
                raise FleetError(f"not all queries run after {_PLACED_WITHIN_S:g} s: {errors or 'no error is known'}")
            time.sleep(0.5)
        self.say("all queries run")

    def _under_load(self, control: FleetControl) -> tuple[FleetRun, list[Row]]:
        loads = [
            threading.Thread(target=self._send, args=(stream,), daemon=True) for stream in self.scenario.script.rates
        ]
        for load in loads:
            load.start()
        began_s = time.time() + 2.0  # processes that send begin at a full second
        watch = LiveWatch(self.scenario, control, began_s)
        invitations = {name: at_s for name, at_s in engines_of(self.scenario) if at_s > 0}
        while (now_s := time.time() - began_s) < self.scenario.until_s:
            for name, at_s in invitations.items():
                handle = control.handles[name]
                if now_s >= at_s - _COMES_BEFORE_S and isinstance(handle, LaterEngine):
                    handle.come()
            if now_s > 0:
                line = watch.look()
                if len(watch.run.time_s) % 10 == 0:
                    self.say(line)
            time.sleep(max(0.0, began_s + int(now_s) + 1.0 - time.time()))
        return watch.end(), watch.engine_rows()

    def _send(self, stream: str) -> None:
        rate, until_s = self.scenario.script.rates[stream], self.scenario.until_s
        begins = sorted({0.0, *self.scenario.changes_s, *(at_s for at_s, _ in self.scenario.marks)})
        table = [(begin_s, rate(begin_s)) for begin_s in begins]
        profile = LoadProfile.from_rates([*table, (until_s, table[-1][1])])
        target = KafkaTarget(self.bootstrap, topic_of(stream))
        run_load(profile, PlainContent(keys=997), target, processes=1, seconds=until_s, watch=lambda _: None)


def topic_of(stream: str) -> str:
    """The topic that a stream of the script is.

    Examples
    --------
    >>> topic_of("topic:points"), topic_of("drives:yellow")
    ('points', 'drives-yellow')
    """
    return stream.removeprefix("topic:").replace(":", "-")


def queries_of(scenario: Scenario) -> list[SimulatedFleetQuery]:
    """Queries of the script."""
    return [each for _, each in scenario.script.happenings if isinstance(each, SimulatedFleetQuery)]


def engines_of(scenario: Scenario) -> list[tuple[str, float]]:
    """Engines of the script, and when each comes."""
    return [(each.engine.name, at_s) for at_s, each in scenario.script.happenings if isinstance(each, EngineSeen)]


def declaration_of(scenario: Scenario, bootstrap: str, *, cores: Sequence[int] | None = None) -> str:
    """The file that declares the scenario's engines, each pinned to a core, and queries."""
    there = sorted(os.sched_getaffinity(0)) if cores is None else list(cores)
    connector = ", ".join(f'"{jar}"' for jar in jars())
    parts = [_SETTINGS]
    for place, (name, _) in enumerate(engines_of(scenario)):
        parts.append(
            f'[engines.{name}]\npin = [{there[place % len(there)]}]\nmemory = "{_HEAP}"\njars = [{connector}]\n'
            f'spark = {{ "spark.driver.extraJavaOptions" = "{_JAVA}" }}\n'
        )
    parts.append(f'[applications.qod]\nmodules = ["{_MODULES}"]\ncheckpoints = "checkpoints"\n')
    parts += [_query_of(each, bootstrap) for each in queries_of(scenario)]
    return "\n".join(parts)


def _query_of(spec: SimulatedFleetQuery, bootstrap: str) -> str:
    query, goal = spec.query, spec.query.goal
    topics = ", ".join(f'"{topic_of(stream)}"' for stream in query.reads)
    options = [f'bootstrap = "{bootstrap}"', f"topics = [{topics}]", f"core_s_per_row = {spec.core_s_per_row}"]
    options.append(f'trigger = "{TRIGGER_S} seconds"')
    if query.writes:
        options.append(f'out = "{topic_of(query.writes[0])}"')
    if query.task and query.task != query.name:
        options.append(f"partitions = [{query.name.rpartition('-')[2]}]")
    lines = [
        f"[applications.qod.queries.{query.name}]",
        f'run = "qod_apps:{"hand_on" if query.writes else "take_in"}"',
        f"options = {{ {', '.join(options)} }}",
        f"reads = [{', '.join(repr(str(each)) for each in query.reads)}]",
        f"writes = [{', '.join(repr(str(each)) for each in query.writes)}]",
        f"priority = {goal.priority}",
        f"minimum_accuracy = {_SOURCE_MINIMUM if query.writes else goal.minimum_accuracy}",
    ]
    lines += [f'task = "{query.task}"'] if query.task else []
    lines += [f'latency = "{goal.latency_s:g} seconds"'] if goal.latency_s is not None else []
    return "\n".join(lines) + "\n"
