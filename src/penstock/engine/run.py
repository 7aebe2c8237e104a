"""The process of an engine: a session, a hold on it, a host of queries, and an agent, until it is told to end."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psutil

from penstock.engine.agent import agent_app
from penstock.engine.host import EngineHost
from penstock.engine.host_cpu import CpuUse, HostCpu
from penstock.engine.lease import Lease
from penstock.engine.modules import ApplicationModules
from penstock.engine.session import engine_session, warm_up
from penstock.http import Access, GuardedApp, HttpServer, token_at
from penstock.model.engine_report import EngineReport
from penstock.process.daemon import write_state
from penstock.spark.attach import attach

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.fleet_declaration import EngineDeclaration
    from penstock.settings import Settings

logger = logging.getLogger("penstock")

STATE_FILE, TOKEN_FILE, STORE_FILE = "engine.json", "token", "penstock.db"
_LOOK_EVERY_S = 1.0


def run_engine(
    declared: EngineDeclaration,
    settings: Settings,
    directory: Path,
    *,
    lease_s: float = 0.0,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run an engine until it is told to end.

    Parameters
    ----------
    declared
        What it is.
    settings
        Of the queries that it governs; its store is in the directory.
    directory
        Its own: state, token, store.
    lease_s
        How long its queries may run without a word of the control side; 0 where whoever controls it can kill it.
    stop
        Set from outside to end it.
    say
        Tells a person how far it is.
    """
    directory.mkdir(0o700, parents=True, exist_ok=True)
    token = token_at(directory / TOKEN_FILE)
    modules = ApplicationModules(declared.modules, setting="modules of its application or of [engines.NAME]")
    modules.open()
    ended = stop or threading.Event()
    with ExitStack() as stack:
        spark = stack.enter_context(engine_session(declared))
        warm_up(spark, sink="json" if declared.kind == "local" else "noop")
        own = settings.with_values({"store.path": str(directory / STORE_FILE)})
        pen = stack.enter_context(attach(spark, settings=own))
        host = EngineHost(declared.name, spark, pen, modules, drain_s=settings.agents.drain_s)
        stack.callback(host.stop_all)
        engine = _Engine(declared, host, Lease(lease_s, time.monotonic), settings.agents.lease_s)
        app = agent_app(host, engine.lease, engine.report, ended.set)
        address, port = declared.listen_at
        access = Access(token=token, reads_need_token=True, names=frozenset({address}))
        server = stack.enter_context(HttpServer(GuardedApp(app, access), host=address, port=port))
        write_state(directory / STATE_FILE, {"name": declared.name, "url": server.url, **engine.process})
        say(f"engine {declared.name} answers at {server.url}")
        while not ended.wait(_LOOK_EVERY_S):
            engine.look()


class _Engine:
    """What is told of the engine as a whole, and what is looked at all the time."""

    def __init__(self, declared: EngineDeclaration, host: EngineHost, lease: Lease, hold_s: float) -> None:
        self.lease, self._hold_s = lease, hold_s
        self._declared, self._host = declared, host
        own = psutil.Process()
        self._started_s = own.create_time()
        is_here = declared.kind == "local"
        self._cpu = HostCpu(declared.pin or None) if is_here else None
        self._use: CpuUse | None = None

    @property
    def process(self) -> dict[str, object]:
        """The process and its children, each with the moment it began: none of them may outlive a kill."""
        own = psutil.Process()
        children = [{"pid": each.pid, "started_s": each.create_time()} for each in own.children(recursive=True)]
        return {"pid": os.getpid(), "started_s": self._started_s, "children": children}

    def report(self) -> EngineReport:
        """How the engine is."""
        use = self._use
        return EngineReport(
            name=self._declared.name,
            kind=self._declared.kind,
            pid=os.getpid(),
            started_s=self._started_s,
            cores=float(self._declared.cores),
            time_s=time.time(),
            busy_cores=None if use is None else use.busy_cores,
            foreign_cores=None if use is None else use.foreign_cores,
            waited_cores=None if use is None else use.waited_cores,
            lease_left_s=self.lease.left_s,
            queries=self._host.reports(),
        )

    def look(self) -> None:
        """Once a second: the host's CPU, queries that ended, and the lease."""
        try:
            if self.lease.is_over:
                logger.warning("nobody has asked for %g s: all queries of this engine end", self.lease.length_s)
                self._host.stop_all()
                self.lease.begin()
            if self.lease.silent_s > self._hold_s:
                # Bounds of a plan that nobody follows up, such as those of a warm-up, must not stand for ever.
                self._host.release_bounds()
            if self._cpu is not None:
                self._use = self._cpu.look(time.monotonic()) or self._use
            self._host.look()
        except Exception:
            logger.exception("the engine could not be looked at")
