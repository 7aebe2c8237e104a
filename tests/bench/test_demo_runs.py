"""Many runs of the demo: what is read from one, and the neighbour that disturbs them."""

from __future__ import annotations

import psutil

from patience import wait_for
from penstock.bench.demo_runs import read_run
from penstock.bench.spells import spells

PRINTED = {
    "goal_s": 5.0,
    "rows": [
        {"latency_p95_s": 12.5, "useful_rows_per_s": 9000.0, "kept_fraction": 1.0},
        {"latency_p95_s": 5.1, "useful_rows_per_s": 27000.0, "kept_fraction": 0.31, "batches_to_control": 1},
    ],
}


def test_a_run_is_read_as_the_demo_prints_it() -> None:
    """The governed row is judged, the plain one is what it is held against."""
    run = read_run(PRINTED, 3, "nothing", 150.0, 0.2)
    assert (run.is_within_goal, run.gain, run.kept) == (False, 3.0, 0.31)
    assert (run.row()["plain_p95_s"], run.row()["batches_to_control"]) == (12.5, 1)


def test_without_useful_rows_of_plain_spark_the_gain_is_endless() -> None:
    """A plain run that puts nothing out in time divides nothing."""
    plain = {**PRINTED["rows"][0], "useful_rows_per_s": 0.0}  # type: ignore[index]
    assert read_run({**PRINTED, "rows": [plain, PRINTED["rows"][1]]}, 1, "nothing", 1.0, 0.0).gain == float("inf")  # type: ignore[index]


def test_a_neighbour_works_and_is_gone_after_the_block() -> None:
    """It takes CPU time while the block runs, and leaves no process behind."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with spells(1, shortest_s=600.0, longest_s=601.0):
        new = [each for each in psutil.Process().children(recursive=True) if each.pid not in before]
        assert wait_for(lambda: sum(each.cpu_times().user for each in new if each.is_running()) >= 0.5)
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert not [pid for pid in left if "resource_tracker" not in " ".join(psutil.Process(pid).cmdline())]
