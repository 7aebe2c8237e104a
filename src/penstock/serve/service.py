"""The service as a whole: a fleet that is looked at, an API over it, and a place where it listens."""

from __future__ import annotations

import html
import json
import logging
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from penstock.errors import PenstockError, ServiceError
from penstock.extras import require
from penstock.http import LOOPBACK, Access, GuardedApp, HttpServer, is_loopback, token_at
from penstock.model import Goal
from penstock.serve.engine import EngineAddress, ServedEngine
from penstock.serve.fleet import Fleet
from penstock.serve.lease import Lease
from penstock.serve.orders import Forwarding, Leader, Orders, instance_name
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import CollectorRegistry

    from penstock.model import QueryName
    from penstock.serve.changes import Changes

logger = logging.getLogger("penstock")

LEASE_S = 6.0
"""A standby acts within this and a third of it: within 10 s of the leader's death."""

_DEFAULT_LATENCY_S = 60.0


class Service:
    """Shows engines, and takes wishes for those that run.

    Parameters
    ----------
    engines
        What is shown.
    token_file
        Where the token is, or is made.
    host, port
        Where it listens: loopback and a free port, unless told otherwise.
    names
        Host names by which it may be called.
    state_file
        The file that several instances share; None where this is the only one and forwards nothing.
    lease_s
        How long a leader that died is waited for.
    """

    def __init__(
        self,
        engines: Sequence[ServedEngine],
        *,
        token_file: Path,
        host: str = LOOPBACK,
        port: int = 0,
        names: Sequence[str] = (),
        state_file: Path | None = None,
        lease_s: float = LEASE_S,
    ) -> None:
        require("serve", "the dashboard")
        from penstock.serve.api import OPEN_PATHS, make_app  # noqa: PLC0415 - the extra may be absent
        from penstock.serve.changes import Changes  # noqa: PLC0415 - as above
        from penstock.serve.metrics import make_registry  # noqa: PLC0415 - as above

        self.fleet = Fleet(engines)
        self.token_file, self.token = token_file, token_at(token_file)
        self.instance = instance_name()
        self.is_stopping = False
        self.orders: Orders | None = None
        self.leader: Leader | None = None
        if state_file is not None:
            self.orders = Orders(state_file)
            lease = Lease(state_file, self.instance, lasts_s=lease_s)
            self.leader = Leader(lease, Forwarding(self.orders, self._addresses))
        self.changes: Changes = Changes(self.fleet, self.orders, self.leader)
        self.registry: CollectorRegistry = make_registry(self)
        access = Access(
            token=self.token, names=frozenset(name.lower() for name in names),
            reads_need_token=not is_loopback(host), open_paths=OPEN_PATHS,
        )  # fmt: skip
        self.server = HttpServer(GuardedApp(make_app(self), access), host=host, port=port)

    @property
    def url(self) -> str:
        """Where its page is."""
        return self.server.url

    @property
    def page_url(self) -> str:
        """The page with the token behind the ``#``, which browsers keep to themselves; it lets goals be changed."""
        return f"{self.url}/#token={self.token}"

    def start(self) -> Self:
        """Look at the engines, and answer."""
        self.fleet.start()
        try:
            self.server.start()
        except PenstockError:
            self.fleet.stop()
            raise
        if self.leader is not None:
            self.leader.start()
        return self

    def stop(self) -> None:
        """Answer no more; stores that were opened for the service are closed by whoever opened them."""
        self.is_stopping = True
        if self.leader is not None:
            self.leader.stop()
        self.server.stop()
        self.fleet.stop()

    def newest_s(self, engine: str) -> float | None:
        """Time of the newest observation of an engine."""
        return self.fleet.model(engine).state.seen_s

    def what_if(
        self,
        engine: str,
        query: QueryName,
        *,
        hours: float,
        latency_s: float | None,
        minimum_accuracy: float | None,
        max_executors: int | None,
        policy: str | None,
    ) -> dict[str, Any]:
        """The last hours of a query under its goal and under another."""
        from penstock.serve.changes import goal_of  # noqa: PLC0415 - the extra may be absent
        from penstock.serve.charts import require_known  # noqa: PLC0415 - as above
        from penstock.serve.what_if import describe, simulate  # noqa: PLC0415 - as above

        served = self.fleet.model(engine).engine
        require_known(served.store, query)
        stands = goal_of(served, query) or Goal(latency=_DEFAULT_LATENCY_S)
        as_is = stands if stands.latency_s is not None else stands.with_(latency=_DEFAULT_LATENCY_S)
        wanted = as_is.with_(
            latency=as_is.latency_s if latency_s is None else latency_s,
            minimum_accuracy=as_is.minimum_accuracy if minimum_accuracy is None else minimum_accuracy,
        )
        described = describe(served.store, query, hours=hours, until_s=self.newest_s(engine) or time.time())
        return simulate(described, as_is, wanted, max_executors=max_executors, policy=policy)

    def _addresses(self) -> dict[str, EngineAddress]:
        found = ((name, engine.address) for name, engine in self.fleet.engines.items())
        return {name: address for name, address in found if address is not None}

    def __repr__(self) -> str:
        return f"the dashboard is at {self.url}"

    def _repr_html_(self) -> str:
        return f'the dashboard is at <a href="{html.escape(self.page_url)}" target="_blank">{html.escape(self.url)}</a>'

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def address_file(store: Path) -> Path:
    """Where an application that serves writes down where, beside its store."""
    return store.with_name(f"{store.name}.serve")


def announce(store: Path, service: Service) -> None:
    """Write down where an application serves, so that a service over its store can forward wishes to it."""
    path = address_file(store)
    text = json.dumps({"url": service.url, "token_file": str(service.token_file.resolve()), "pid": os.getpid()})
    # A name that nobody can guess, and a file that is new: a link that was planted under a name known beforehand would
    # have whatever it leads to emptied.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def beside(store: Path) -> EngineAddress | None:
    """Where the application of a store serves; None where it does not, or has ended."""
    path = address_file(store)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if path.stat().st_uid != os.getuid():
            return None
        os.kill(int(found["pid"]), 0)
        return EngineAddress(str(found["url"]), str(found["token_file"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def open_engines(paths: Sequence[Path]) -> list[ServedEngine]:
    """Stores by file or by directory, those of directories inside included; for reading.

    Each goes by the name of its file; where files have the same name in several directories, by that of its directory.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.rglob("*.db")) if path.is_dir() else [path]
        if not inside:
            raise ServiceError(f"there is no store in the directory {path}: stores are files named *.db")
        files += inside
    namings = ([file.stem for file in files], [file.parent.name for file in files], [str(file) for file in files])
    names = next(listed for listed in namings if len(set(listed)) == len(listed) or listed is namings[-1])
    engines: list[ServedEngine] = []
    try:
        for name, file in zip(names, files, strict=True):
            store = SqliteStore(file, read_only=True)
            engines.append(ServedEngine(name, store, find_address=partial(beside, store.path)))
    except PenstockError:
        for engine in engines:
            engine.store.close()
        raise
    return engines
