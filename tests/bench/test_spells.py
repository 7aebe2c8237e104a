"""The neighbour that benchmarks run beside."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from patience import wait_for

_PARENT = """
import multiprocessing, time
from penstock.bench.spells import spells

if __name__ == "__main__":
    with spells(seed=1, shortest_s=0.01, longest_s=0.02):
        print(multiprocessing.active_children()[0].pid, flush=True)
        time.sleep(600)
"""


def test_a_benchmark_that_is_killed_leaves_no_neighbour_behind(tmp_path: Path) -> None:
    """Nobody is left who would end it, so it ends by itself."""
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        neighbour = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert wait_for(lambda: not _is_alive(neighbour))


def _is_alive(pid: int) -> bool:
    """Whether a process is there and is no zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
