"""How long a query does not run while it moves, and until it runs again when its engine is killed; no row amiss."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.bench.committed import committed_offsets
from penstock.errors import FleetError
from penstock.fleet.by_hand import ByHand
from penstock.fleet.control import FleetControl
from penstock.fleet.engines import OwnEngine
from penstock.fleet_declaration import read_fleet
from penstock.model import QueryName

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = QueryName("rows")
DOWNTIME_BOUND_S, RECOVERY_BOUND_S = 10.0, 30.0
_PATIENCE_S = 180.0
_MODULES = Path(__file__).parent / "fleet_modules"
_DECLARATION = """\
[engines.left]
pin = [{left}]
[engines.right]
pin = [{right}]

[applications.moving]
modules = ["{modules}"]
checkpoints = "checkpoints"

[applications.moving.queries.rows]
run = "moving:offsets"
options = {{ profile = "constant:rate={rate}", epoch = {epoch}, out = "{out}", trigger = "{trigger}" }}
latency = "10 seconds"
"""


@dataclass(frozen=True, slots=True)
class MovesResult:
    """What was measured; times in seconds.

    ``downtimes_s`` are of moves, from the end of the last batch on the old engine to the end of the first on the new
    one; ``recoveries_s`` from a kill to the end of the first batch elsewhere.
    """

    downtimes_s: tuple[float, ...]
    recoveries_s: tuple[float, ...]
    rows: int
    lost: int
    doubled: int
    load_average: float

    @property
    def is_met(self) -> bool:
        """Every row written once, and everything in time."""
        slow = [each for each in self.downtimes_s if each >= DOWNTIME_BOUND_S]
        slow += [each for each in self.recoveries_s if each >= RECOVERY_BOUND_S]
        return not slow and not self.lost and not self.doubled and bool(self.rows)

    def to_dict(self) -> dict[str, object]:
        """The figures, units in the keys."""
        return {
            "bench": "moves",
            "is_met": self.is_met,
            "moves": len(self.downtimes_s),
            "largest_downtime_s": max(self.downtimes_s, default=None),
            "largest_recovery_s": max(self.recoveries_s, default=None),
            "downtime_bound_s": DOWNTIME_BOUND_S,
            "recovery_bound_s": RECOVERY_BOUND_S,
            "written_rows": self.rows,
            "lost_rows": self.lost,
            "doubled_rows": self.doubled,
            "load_average": round(self.load_average, 2),
            "rows": [
                *({"what": "move", "seconds": round(each, 3)} for each in self.downtimes_s),
                *({"what": "kill", "seconds": round(each, 3)} for each in self.recoveries_s),
            ],
        }


def bench_moves(*, moves: int, kills: int, rate_rows_per_s: float, say: Callable[[str], None]) -> MovesResult:
    """Move a query forth and back between two engines of one core each, then kill the engine that runs it."""
    with tempfile.TemporaryDirectory(prefix="penstock-moves-") as scratch:
        bench = _Bench(Path(scratch), rate_rows_per_s)
        try:
            say("starting two engines")
            bench.start()
            downtimes_s = []
            for number in range(1, moves + 1):
                downtimes_s.append(bench.move())
                say(f"move {number} of {moves}: {downtimes_s[-1]:.2f} s")
            recoveries_s = []
            for number in range(1, kills + 1):
                recoveries_s.append(bench.kill())
                say(f"kill {number} of {kills}: running again after {recoveries_s[-1]:.2f} s")
            return bench.result(downtimes_s, recoveries_s)
        finally:
            bench.end()


class _Bench:
    """Two engines that are led by hand, and one query."""

    def __init__(self, place: Path, rate_rows_per_s: float) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self.out = place / "out"
        file = place / "fleet.toml"
        told = {"rate": f"{rate_rows_per_s:g}", "trigger": "500 milliseconds", "epoch": int(time.time())}
        file.write_text(
            _DECLARATION.format(left=cores[0], right=cores[-1], modules=_MODULES, out=self.out, **told),
            encoding="utf-8",
        )
        self.logic = ByHand()
        self.control = FleetControl(read_fleet(file), place / "state", logic=self.logic)

    def start(self) -> None:
        self.control.start_engines()
        self.control.open()
        self._await(lambda: bool(self.logic.finished), "first batch")
        # Both engines warm: a query that runs nowhere yet is no move.
        self._settle()

    def move(self) -> float:
        count, home = len(self.logic.finished), self._home()
        self.logic.move(ROWS, "right" if home == "left" else "left")
        self._await(lambda: len(self.logic.finished) > count, "move")
        self._settle()
        return self.logic.finished[-1].downtime_s

    def kill(self) -> float:
        """Kill the engine that runs the query; gives the time until the first batch elsewhere was done."""
        home = self._home()
        self._await(lambda: all(handle.agent is not None for handle in self.control.handles.values()), "both engines")
        handle = self.control.handles[home]
        assert isinstance(handle, OwnEngine)
        assert handle.process is not None
        count, killed_s = len(self.logic.finished), time.time()
        os.kill(handle.process.pid, signal.SIGKILL)
        self._await(lambda: len(self.logic.finished) > count, "query elsewhere")
        report = self.control.fleet.reports[self._home()].query(str(ROWS))
        assert report is not None
        assert report.first_batch_s is not None
        self._settle()
        return report.first_batch_s - killed_s

    def result(self, downtimes_s: list[float], recoveries_s: list[float]) -> MovesResult:
        agent = self.control.handles[self._home()].agent
        assert agent is not None
        self.control.loop.close()
        agent.stop(str(ROWS))
        offsets = Counter(committed_offsets(self.out))
        expected = range(max(offsets, default=-1) + 1)
        return MovesResult(
            tuple(downtimes_s),
            tuple(recoveries_s),
            rows=sum(offsets.values()),
            lost=sum(offset not in offsets for offset in expected),
            doubled=sum(count - 1 for count in offsets.values()),
            load_average=os.getloadavg()[0],
        )

    def end(self) -> None:
        self.control.close(engines_too=True)

    def _home(self) -> str:
        home = self.logic.where[ROWS]
        if home is None:
            raise FleetError("the query runs nowhere: both engines are gone")
        return home

    def _settle(self) -> None:
        """Let a few batches pass, so that the next move finds a query at work."""
        before = len(committed_offsets(self.out))
        self._await(lambda: len(committed_offsets(self.out)) > before + 100, "more rows")

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not condition():
            if time.monotonic() > deadline_s:
                reasons = "; ".join(failed.reason for failed in self.logic.failed) or "nothing failed"
                raise FleetError(f"there was no {what} within {_PATIENCE_S:g} s ({reasons}): is the machine too busy?")
            time.sleep(0.1)
