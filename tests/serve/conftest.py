"""A service over a small store, and what governs its queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.bench.serve_load import write_history
from penstock.serve.engine import ServedEngine
from penstock.serve.service import Service
from penstock.store import MemoryStore, SqliteStore
from serve_helpers import Served, SomeControls


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with ten minutes of twelve queries."""
    path = tmp_path_factory.mktemp("history") / "clickstream.db"
    write_history(path, queries=12, seconds=600.0, until_s=time.time())
    return path


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Serve a store in which nothing is yet, governed by somebody or not."""
    services: list[Service] = []

    def serve(store: Any = None, *, governed: bool = True, **how: Any) -> Served:
        opened = store or MemoryStore()
        controls = SomeControls(opened) if governed else None
        service = Service([ServedEngine("app", opened, controls=controls)], token_file=tmp_path / "token", **how)
        services.append(service.start())
        return Served(service, opened, controls)

    yield serve
    for service in services:
        service.stop()


@pytest.fixture
def recorded(history: Path, serving: Callable[..., Served]) -> Iterator[Served]:
    """A finished run, served."""
    with SqliteStore(history, read_only=True) as store:
        yield serving(store, governed=False)
