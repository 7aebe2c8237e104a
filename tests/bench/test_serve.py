"""The benchmark of the service, small: what it counts, and that nothing is carried out twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.bench.serve import bench_kills
from penstock.bench.serve_load import write_large
from penstock.store import open_reader


def test_a_large_store_is_as_large_as_asked(tmp_path: Path) -> None:
    """Copies lie before what is there, under ids of their own, and the newest observation is the newest."""
    path = tmp_path / "large.db"
    now_s = time.time()
    write_large(path, actions=500, points=20_000, queries=3, until_s=now_s)
    with open_reader(path) as store:
        assert len(store.actions()) >= 500
        assert store.newest_point_id() >= 20_000
        assert len(store.queries()) == 4


@pytest.mark.slow
@pytest.mark.timeout(750)
def test_a_standby_acts_after_its_leader_was_killed_and_nothing_is_done_twice(tmp_path: Path) -> None:
    """Every goal that was asked for is in the engine's log once, through three kills."""
    figures = bench_kills(tmp_path, kills=3, lease_s=2.0)
    assert (figures.orders, figures.carried_out, figures.carried_out_twice) == (6, 6, 0)
