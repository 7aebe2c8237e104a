"""The control process of a fleet: engines, the loop over them, and the API that its commands talk to.

Its directory holds ``control.json`` (where it answers), ``token``, ``fleet.db`` (what was decided) and a directory for
each engine. Engines run on without it, and a control process that is started again takes them over as they are.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from penstock.errors import FleetError, PenstockError, UnknownQueryError
from penstock.extras import require
from penstock.fleet.client import AgentClient
from penstock.fleet.engines import ElsewhereEngine, OwnEngine
from penstock.fleet.loop import FleetLoop
from penstock.fleet.page import FleetPage
from penstock.fleet.plant import EngineFleet
from penstock.fleet.status import fleet_status
from penstock.http import Access, GuardedApp, HttpServer, token_at
from penstock.model import Mode, QueryName
from penstock.process.daemon import write_state
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from penstock.fleet.engines import EngineHandle
    from penstock.fleet.loop import Deciding
    from penstock.fleet_declaration import FleetDeclaration

logger = logging.getLogger("penstock")

CONTROL_FILE, TOKEN_FILE, STORE_FILE, ENGINES = "control.json", "token", "fleet.db", "engines"


def engine_directory(directory: Path, engine: str) -> Path:
    """Where an engine of a fleet keeps its state, token, store and log."""
    return directory / ENGINES / engine


@dataclass(frozen=True, slots=True)
class GoalChangeRequest:
    """What of a query's goal is to change, and who asks; what is None stays."""

    asked_by: str
    latency: str | float | None = None
    minimum_accuracy: float | None = None
    priority: int | None = None
    weight: float | None = None


class FleetControl:
    """A fleet that is under control; :meth:`open` begins, :meth:`close` ends it.

    Parameters
    ----------
    declaration
        Engines, queries and settings.
    directory
        Of the fleet.
    logic
        What decides; made of the declaration where it is left out.
    handles
        The engines; made of the declaration where they are left out.
    """

    def __init__(
        self,
        declaration: FleetDeclaration,
        directory: Path,
        *,
        logic: Deciding | None = None,
        handles: dict[str, EngineHandle] | None = None,
    ) -> None:
        self.declaration, self.directory = declaration, directory.absolute()
        self.directory.mkdir(0o700, parents=True, exist_ok=True)
        self.handles = handles if handles is not None else self._handles()
        self.fleet = EngineFleet(declaration, self.handles)
        self.store = SqliteStore(self.directory / STORE_FILE)
        self.page_url: str | None = None
        mode = Mode.OBSERVE if declaration.settings.observe.only else Mode.ACT
        self.loop = FleetLoop(
            logic or make_logic(declaration),
            self.fleet,
            self.store,
            clock=time.time,
            mode=mode,
            retention=declaration.settings.store,
        )

    def start_engines(self) -> None:
        """Start all engines side by side, or take over those that run; returns when all have answered or failed."""
        own = [handle for handle in self.handles.values() if isinstance(handle, OwnEngine)]
        for handle in own:
            handle.start()
        for handle in own:
            handle.await_start(self.declaration.settings.agents.start_s + 10.0)
        down = [handle.name for handle in own if handle.agent is None]
        if own and len(down) == len(own) == len(self.handles):
            raise FleetError(
                f"no engine started: the log of each is in {self.directory / ENGINES}, such as "
                f"{engine_directory(self.directory, down[0]) / 'engine.log'}"
            )

    def open(self) -> None:
        """Run the loop from now on."""
        self.loop.start(self.declaration.settings.agents.every_s)

    def close(self, *, engines_too: bool = False) -> list[tuple[str, bool]]:
        """Decide no more; with ``engines_too`` end all engines, and tell which of them only by force."""
        self.loop.close()
        self.fleet.runs.wait(self.declaration.settings.agents.drain_s + 10.0)
        ended: list[tuple[str, bool]] = []
        if engines_too:
            threads = [
                threading.Thread(target=lambda handle=handle: ended.append((handle.name, handle.end())))
                for handle in self.handles.values()
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.store.close()
        return sorted(ended)

    def set_goal(self, query: str, asked: GoalChangeRequest) -> dict[str, Any]:
        """Change what is asked of a query; gives the goal that holds now."""
        name = QueryName(query)
        if name not in self.fleet.goals:
            raise UnknownQueryError(query, [str(each) for each in self.fleet.goals])
        changes = {
            key: value
            for key in ("latency", "minimum_accuracy", "priority", "weight")
            if (value := getattr(asked, key)) is not None
        }
        goal = self.fleet.goals[name].with_(**changes)
        self.loop.set_goal(name, goal, asked.asked_by)
        return {
            "query": query,
            "latency_s": goal.latency_s,
            "minimum_accuracy": goal.minimum_accuracy,
            "priority": goal.priority,
            "weight": goal.weight,
            "asked_by": asked.asked_by,
        }

    def _handles(self) -> dict[str, EngineHandle]:
        handles: dict[str, EngineHandle] = {}
        agents = self.declaration.settings.agents
        for name, declared in self.declaration.engines.items():
            if declared.is_ours:
                place = engine_directory(self.directory, name)
                handles[name] = OwnEngine(declared, self.declaration.path.absolute(), place, agents)
            else:
                assert declared.address is not None
                assert declared.token_file is not None
                client = AgentClient(name, declared.address, token_at(Path(declared.token_file)))
                handles[name] = ElsewhereEngine(declared, client, agents)
        return handles


def make_logic(declaration: FleetDeclaration) -> Deciding:
    """The logic of a fleet as it is declared."""
    from penstock.control.fleet.logic import FleetLogic  # noqa: PLC0415 - brings numpy, which commands need not

    return FleetLogic(declaration.settings.fleet)


def control_app(control: FleetControl, end: Callable[[], None]) -> FastAPI:
    """The API of a fleet's control process."""
    require("serve", "the control process of a fleet", "fastapi", "uvicorn")
    from fastapi import FastAPI  # noqa: PLC0415 - the extra may be absent

    from penstock.http.problems import answer_with_sentences  # noqa: PLC0415 - as above

    app = FastAPI(title="Penstock fleet", docs_url=None, redoc_url=None, openapi_url=None)
    answer_with_sentences(app)

    @app.get("/v1/fleet")
    def fleet() -> dict[str, Any]:
        return {**fleet_status(control.fleet, time.time()).to_dict(), "page_url": control.page_url}

    @app.put("/v1/queries/{query}/goal")
    def goal(query: str, asked: GoalChangeRequest) -> dict[str, Any]:
        return control.set_goal(query, asked)

    @app.post("/v1/down")
    def down() -> dict[str, Any]:
        end()
        return {}

    return app


def run_fleet(
    declaration: FleetDeclaration,
    directory: Path,
    *,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Control a fleet until it is told to end, and end its engines with it."""
    ended = stop or threading.Event()
    control = FleetControl(declaration, directory)
    with ExitStack() as stack:
        stack.callback(lambda: control.close(engines_too=True))
        token = token_at(control.directory / TOKEN_FILE)
        app = GuardedApp(control_app(control, ended.set), Access(token=token, reads_need_token=True))
        server = stack.enter_context(HttpServer(app))
        # First where it answers, then the engines: 'penstock down' reaches it while they start.
        started_s = psutil.Process().create_time()
        stack.callback((control.directory / CONTROL_FILE).unlink, missing_ok=True)
        write_state(
            control.directory / CONTROL_FILE,
            {"pid": os.getpid(), "started_s": started_s, "url": server.url, "file": str(declaration.path.absolute())},
        )
        say(f"the fleet answers at {server.url}; starting {len(control.handles)} engines")
        control.start_engines()
        control.open()
        page = _page(control)
        if page is not None:
            stack.callback(page.stop)
            control.page_url = page.service.page_url
            say(f"dashboard: {control.page_url}")
        ended.wait()


def _page(control: FleetControl) -> FleetPage | None:
    """The fleet's page; a port that is taken, or a token that cannot be read, ends no fleet."""
    declaration = control.declaration
    try:
        page = FleetPage(declaration.path.stem, control.loop, control.store.path, declaration.settings.dashboard)
        page.start()
    except PenstockError as error:
        logger.warning("the fleet goes on without its dashboard: %s", error)
        return None
    return page
