"""A real store with a small history, and no settings from outside."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from penstock.model import Action, ActionKind, Metric, Mode, QueryName, SeriesPoint
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

CLICKS, VIEWS = QueryName("clicks"), QueryName("views")
BEGAN_S = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(variable)


def limit(value: float, previous: float | None = None, *, cause: str = "batch 1", source: int = 0) -> Action:
    return Action(
        ActionKind.READ_LIMIT, CLICKS, cause, "half of the goal [5 s] at 0.9 ms a row", target=f"source {source}",
        value=value, previous=previous, unit="rows", expected={"batch_duration_s": 2.0},
    )  # fmt: skip


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """A store in which ``clicks`` is governed and limited, and ``views`` is only observed."""
    path = tmp_path / "actions.db"
    history = [
        Action(ActionKind.GOVERN, CLICKS, "start", "latency goal 5 s"),
        limit(1000, cause="start"),
        limit(2500, 1000),
        Action(ActionKind.HOLD, CLICKS, "batch 2", "within the dead band"),
    ]
    with SqliteStore(path) as store:
        for second, action in enumerate(history):
            store.append(action, time_s=BEGAN_S + second, mode=Mode.ACT)
        store.append_points([
            SeriesPoint(BEGAN_S + 1, CLICKS, Metric.BATCH_DURATION_S, 9.0, 0),
            SeriesPoint(BEGAN_S + 3, CLICKS, Metric.BATCH_DURATION_S, 2.0, 1),
            SeriesPoint(BEGAN_S + 4, CLICKS, Metric.BATCH_DURATION_S, 3.0, 2),
            SeriesPoint(BEGAN_S + 4, CLICKS, Metric.BATCH_DURATION_S, 1.5, 2, "addBatch"),
            SeriesPoint(BEGAN_S + 4, VIEWS, Metric.LAG_ROWS, 70.0, 0),
        ])  # fmt: skip
    return path
