"""All engines that are shown, looked at once a second by one thread; pages and metrics read what it found."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.errors import ServiceError
from penstock.serve.engine_model import EngineModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.serve.engine import ServedEngine

logger = logging.getLogger("penstock")

LOOK_EVERY_S = 1.0
_REMEMBERED_ACTIONS = 500
_ENDS_WITHIN_S = 5.0


class Fleet:
    """What is known of every engine, with a version that rises with every change.

    Parameters
    ----------
    engines
        What is shown.
    clock
        Seconds since the epoch.
    """

    def __init__(self, engines: Sequence[ServedEngine], *, clock: Callable[[], float] = time.time) -> None:
        names = [engine.name for engine in engines]
        if len(set(names)) < len(names):
            raise ServiceError(f"two engines have the same name ({', '.join(sorted(names))}): give each its own")
        self.engines = {engine.name: engine for engine in engines}
        self._models = {engine.name: EngineModel(engine) for engine in engines}
        self._clock = clock
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, str], int] = {}
        self._actions: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_REMEMBERED_ACTIONS)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._snapshot: tuple[int, bytes] = (-1, b"")
        self.version = 0

    def start(self) -> None:
        """Look now, and then once a second."""
        self.look()
        self._thread = threading.Thread(target=self._run, name="penstock-fleet", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_ENDS_WITHIN_S)

    def look(self) -> None:
        """Take in what is new."""
        for name, model in self._models.items():
            changed, actions = model.refresh()
            with self._lock:
                self.version += 1
                self._versions.update(((name, str(query)), self.version) for query in changed)
                self._actions.extend((self.version, {"engine": name, **entry.to_dict()}) for entry in actions)

    def snapshot(self) -> bytes:
        """Everything as JSON; made once for each version, however many ask."""
        with self._lock:
            version, text = self._snapshot
            if version != self.version:
                rows = [row for model in self._models.values() for row in list(model.rows.values())]
                text = self._json({"version": self.version, **self._head(), "queries": rows})
                self._snapshot = (self.version, text)
            return text

    def changes(self, since_version: int) -> tuple[int, bytes]:
        """What is new since a version, as JSON: engines, rows that changed, new actions."""
        with self._lock:
            keys = [key for key, version in self._versions.items() if version > since_version]
            rows = [self._models[engine].rows[query] for engine, query in keys]  # type: ignore[index]
            actions = [entry for version, entry in self._actions if version > since_version]
            news = {"version": self.version, **self._head(), "queries": rows, "actions": actions}
            return self.version, self._json(news)

    def model(self, engine: str) -> EngineModel:
        """What is known of one engine; an error that lists them where there is no such one."""
        if engine not in self._models:
            raise UnknownEngineError(engine, sorted(self._models))
        return self._models[engine]

    @property
    def models(self) -> tuple[EngineModel, ...]:
        """What is known of each."""
        return tuple(self._models.values())

    def _head(self) -> dict[str, Any]:
        now_s = self._clock()
        return {"time_s": now_s, "engines": [model.state.to_dict(now_s=now_s) for model in self._models.values()]}

    @staticmethod
    def _json(document: dict[str, Any]) -> bytes:
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                self.look()
            except Exception:
                logger.exception("the fleet could not be looked at; pages show what was seen before")


class UnknownEngineError(ServiceError, LookupError):
    """No engine of that name is shown."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"no engine named {name!r}; known engines: {', '.join(known) or 'none'}")
