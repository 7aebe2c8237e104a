"""A query moves from a local engine to one whose executors a Standalone cluster gives."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from live.helpers import wait_until
from penstock.bench.committed import committed_offsets
from penstock.cluster.standalone import running_cluster
from penstock.cluster.standalone_config import StandaloneSpec
from penstock.fleet.by_hand import ByHand
from penstock.fleet.control import FleetControl
from penstock.fleet_declaration import read_fleet
from penstock.model import QueryName

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(1050)]

ROWS = QueryName("rows")
DECLARATION = """\
[engines.here]

[engines.cluster]
kind = "standalone"
master = "{master}"
page = "{page}"
conf = "{conf}"
executor_memory = "512m"

[applications.counting]
modules = ["{modules}"]
checkpoints = "checkpoints"

[applications.counting.queries.rows]
run = "counting.queries:offsets"
options = {{ profile = "constant:rate=200", epoch = {epoch}, out = "{out}" }}
latency = "20 seconds"
"""


def test_a_query_moves_to_a_cluster(tmp_path: Path) -> None:
    """The same module, checkpoint and goal serve on an engine of another kind, and every row is written once."""
    before = list(sys.path)
    logic = ByHand(engines=["here"])
    with running_cluster(StandaloneSpec(tmp_path / "cluster", workers=1, cores=1, memory="1g")) as cluster:
        file, out = tmp_path / "fleet.toml", tmp_path / "out"
        told = {"master": cluster.master_url, "page": cluster.ui_url, "conf": cluster.place.conf}
        modules = Path(__file__).parent / "fleet_modules"
        file.write_text(DECLARATION.format(**told, modules=modules, epoch=int(time.time()), out=out))
        control = FleetControl(read_fleet(file), tmp_path / "state", logic=logic)
        try:
            control.start_engines()
            control.open()
            for count, engine in enumerate(("cluster", "here"), start=1):
                wait_until(lambda count=count: len(logic.finished) >= count, "placement", within_s=120)
                assert logic.failed == []
                logic.move(ROWS, engine)
            wait_until(lambda: len(logic.finished) >= 3, "return", within_s=120)
            assert [each.engine for each in logic.finished] == ["here", "cluster", "here"]
        finally:
            control.close(engines_too=True)
            sys.path[:] = before
    offsets = committed_offsets(out)
    assert len(offsets) > 0
    assert offsets == list(range(len(offsets)))
