"""A JVM that forgets every job and stage but the last one: nothing that a limit of the UI may evict is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

DRIVER = Path(__file__).parent / "driver_forgetful.py"
BATCHES = 24


def test_two_governed_queries_share_an_engine_that_remembers_one_job() -> None:
    """Both go on being governed over many small batches: what a batch cost is then not known, and that is no fault."""
    ended = subprocess.run(
        [sys.executable, str(DRIVER), str(BATCHES)], capture_output=True, text=True, timeout=500, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert (found["faults"], found["ungoverned"], found["complaints"]) == ([], [], [])
    assert found["governed"] == ["guarded", "plain"]
    assert found["alive"] == [True, True]
    assert min(found["batches"].values()) >= BATCHES
    assert min(found["limits"].values()) > 1, "limits go on being decided"
    # Else nothing was evicted, and nothing tested.
    assert found["remembered_jobs"] <= 2
    assert found["core_seconds"]["unknown"] > 0
