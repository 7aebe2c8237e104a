"""The page of one application, served from its driver."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.extras import require
from penstock.model import QueryName
from penstock.serve.engine import ServedEngine
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from penstock.serve.service import Service
    from penstock.spark.attach import Penstock

logger = logging.getLogger("penstock")

BESIDE = "beside the store"
_MEMORY_TOKEN = Path("penstock.token")


class Dashboard:
    """Serves a hold on a session while it lasts."""

    def __init__(self, pen: Penstock) -> None:
        self._pen = pen
        self._service: Service | None = None
        self._reader: SqliteStore | None = None

    def serve(self, port: int | None) -> Service:
        """Serve, or go on serving."""
        if self._service is not None:
            return self._service
        require("serve", "the dashboard")
        from penstock.serve.service import Service, announce  # noqa: PLC0415 - the extra may be absent

        pen, settings = self._pen, self._pen.settings.dashboard
        store = pen.store
        if isinstance(store, SqliteStore):
            # A connection of its own: pages must not hold up the loop, which records before it acts.
            self._reader = store = SqliteStore(store.path, read_only=True)
        service = Service(
            [ServedEngine(pen.application_name, store, controls=pen)],
            token_file=self._token_file(),
            host=settings.host,
            port=settings.port if port is None else port,
        )
        service.start()
        self._service = service
        if self._reader is not None:
            announce(self._reader.path, service)
        logger.info("the dashboard of this application is at %s", service.url)
        return service

    def plot(self, query: str, *, hours: float) -> Figure:
        """Draw a query."""
        require("serve", "plot", "plotly")
        from penstock.serve.figure import query_figure  # noqa: PLC0415 - the extra may be absent

        return query_figure(self._pen.store, QueryName(query), hours=hours, now_s=time.time())

    def close(self) -> None:
        """Serve no more."""
        from penstock.serve.service import address_file  # noqa: PLC0415 - imports more than attaching needs

        service, self._service = self._service, None
        if service is not None:
            service.stop()
        reader, self._reader = self._reader, None
        if reader is not None:
            with suppress(OSError):
                address_file(reader.path).unlink()
            reader.close()

    def _token_file(self) -> Path:
        told = self._pen.settings.dashboard.token_file
        if told != BESIDE:
            return Path(told).expanduser()
        store = self._pen.store
        return store.path.with_name(f"{store.path.name}.token") if isinstance(store, SqliteStore) else _MEMORY_TOKEN
