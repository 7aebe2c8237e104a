"""The engines of a fleet as the control side holds them: asked, noticed when they are gone, fenced, started again.

Before a query starts elsewhere it must be sure that it does not run where it was. An engine on this machine is killed
with everything that it started. One elsewhere has a lease that ends by itself, and is waited for.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.errors import AgentUnreachableError, FleetError
from penstock.fleet.processes import await_engine, end_engine, find_engine, kill_engine, start_engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.fleet.client import Agent, AgentClient
    from penstock.fleet.processes import EngineProcess
    from penstock.fleet_declaration import EngineDeclaration
    from penstock.model.engine_report import EngineReport
    from penstock.settings import AgentSettings

logger = logging.getLogger("penstock")

_ENDS_WITHIN_S = 10.0
_LEASE_MARGIN_S = 5.0
"""Added to a lease before it counts as over: the engine looks once a second, and its queries take a while to stop."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking an engine: its report, or that it is lost for good, or neither yet."""

    engine: str
    report: EngineReport | None = None
    lost: str | None = None


class EngineHandle(Protocol):
    """One engine of the fleet."""

    name: str

    @property
    def agent(self) -> Agent | None:
        """Its agent; None while it is not up."""
        ...

    @property
    def runs_nothing(self) -> bool:
        """Whether it is not up and cannot have queries of an earlier control process either."""
        ...

    def ask(self) -> Answer:
        """How it is; a loss is told once, and only when nothing of the engine runs on."""
        ...

    def end(self) -> bool:
        """End it with the fleet; says whether force was needed."""
        ...


class OwnEngine:
    """An engine that the fleet starts on this machine.

    Parameters
    ----------
    declared
        What it is.
    file
        The declaration that its process reads.
    directory
        Its own directory.
    settings
        How long it may be silent, and take to start.
    """

    def __init__(
        self, declared: EngineDeclaration, file: Path, directory: Path, settings: AgentSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.name = declared.name
        self._file, self._directory, self._settings, self._clock = file, directory, settings, clock
        self._process: EngineProcess | None = None
        self._launched: EngineProcess | None = None
        self._client: AgentClient | None = None
        self._answered_s = clock()
        self._starting: threading.Thread | None = None
        self._not_before_s, self._pause_s = 0.0, 1.0
        self._ending = self._has_failed = False

    @property
    def agent(self) -> Agent | None:
        """Its agent; None while it is not up."""
        return self._client

    @property
    def runs_nothing(self) -> bool:
        """Whether it was to start and did not, so that none of its processes is there."""
        return self._has_failed and self._process is None

    @property
    def process(self) -> EngineProcess | None:
        """Its process; None while it is not up."""
        return self._process

    def start(self) -> None:
        """Take over the process that runs already, or start one; returns at once."""
        thread = threading.Thread(target=self._start, name=f"penstock-start-{self.name}", daemon=True)
        self._starting = thread
        thread.start()

    def await_start(self, timeout_s: float) -> None:
        """Wait until the start is over, well or not."""
        if self._starting is not None:
            self._starting.join(timeout_s)

    def ask(self) -> Answer:
        """How it is; one whose process is gone, or that is silent for too long, is killed and told as lost."""
        client = self._client
        if client is None:
            self._start_again()
            return Answer(self.name)
        process = self._process
        assert process is not None
        if not process.is_running:
            return self._lose(process, "its process has ended")
        try:
            report = client.renew()
        except AgentUnreachableError as error:
            silent_s = self._clock() - self._answered_s
            if silent_s < self._settings.lost_after_s:
                return Answer(self.name)
            logger.warning("%s", error)
            return self._lose(process, f"it has not answered for {silent_s:.0f} s")
        except FleetError as error:
            logger.warning("engine %s: %s", self.name, error)
            return Answer(self.name)
        self._answered_s, self._pause_s = self._clock(), 1.0
        return Answer(self.name, report)

    def end(self) -> bool:
        """End it in order."""
        self._ending = True
        self._client = None
        was_forced = self._process is not None and end_engine(self._process)
        if self._process is None and self._launched is not None:
            # One that is starting would go on by itself; it has no query that could be stopped in order.
            kill_engine(self._launched)
        self.await_start(_ENDS_WITHIN_S)
        return was_forced

    def _lose(self, process: EngineProcess, why: str) -> Answer:
        try:
            kill_engine(process)
        except FleetError:
            # Its queries stay where they are: started elsewhere they might run twice.
            logger.exception("engine %s is not given up", self.name)
            return Answer(self.name)
        self._client = self._process = self._launched = None
        self._not_before_s, self._pause_s = self._clock() + self._pause_s, min(60.0, 2 * self._pause_s)
        return Answer(self.name, lost=f"{why}; everything of it is killed")

    def _start_again(self) -> None:
        is_starting = self._starting is not None and self._starting.is_alive()
        if not is_starting and not self._ending and self._clock() >= self._not_before_s:
            self.start()

    def _start(self) -> None:
        try:
            process = find_engine(self.name, self._directory) or start_engine(self.name, self._file, self._directory)
            self._launched = process
            found, client = await_engine(process, self._directory, self._settings.start_s)
        except Exception as error:
            if not self._ending:
                is_told = isinstance(error, FleetError)
                logger.warning("engine %s could not be started: %s", self.name, error, exc_info=not is_told)
            self._has_failed, self._launched = True, None
            self._not_before_s, self._pause_s = self._clock() + self._pause_s, min(60.0, 2 * self._pause_s)
            return
        if self._ending:
            end_engine(found)
            return
        self._answered_s = self._clock()
        self._process, self._client = found, client


class ElsewhereEngine:
    """An engine that somebody else runs: asked, never started or ended, and given up when its lease is over.

    A renewal that gets no answer may have reached the engine all the same. So the first one is the last until the
    engine answers again: what it is asked in between renews nothing, and its lease ends.
    """

    def __init__(
        self,
        declared: EngineDeclaration,
        client: AgentClient,
        settings: AgentSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = declared.name
        self._client, self._settings, self._clock = client, settings, clock
        self._is_up = False
        self._silent_since_s: float | None = None

    @property
    def agent(self) -> Agent | None:
        """Its agent; None until it has answered, and when it is lost."""
        return self._client if self._is_up else None

    @property
    def runs_nothing(self) -> bool:
        """Whether it has been silent for so long that its lease is over."""
        since_s = self._silent_since_s
        return not self._is_up and since_s is not None and self._clock() - since_s >= self._patience_s

    @property
    def _patience_s(self) -> float:
        return self._settings.lease_s + _LEASE_MARGIN_S

    def ask(self) -> Answer:
        """How it is; a silent one is told as lost when its lease is over."""
        try:
            if self._silent_since_s is not None:
                self._client.report()
            report = self._client.renew()
        except FleetError as error:
            logger.warning("%s", error)
            return self._silent()
        self._is_up, self._silent_since_s = True, None
        return Answer(self.name, report)

    def end(self) -> bool:
        """Nothing is ended: whoever started it ends it."""
        self._client.close()
        return False

    def _silent(self) -> Answer:
        now_s = self._clock()
        if self._silent_since_s is None:
            self._silent_since_s = now_s
        silent_s = now_s - self._silent_since_s
        if not self._is_up or silent_s < self._patience_s:
            return Answer(self.name)
        self._is_up = False
        return Answer(self.name, lost=f"it has not answered for {silent_s:.0f} s, and its lease is over")
