"""The demo over and over, each time in its own process, alone or beside a neighbour that takes a core in spells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.bench.spells import spells

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LEAST_GAIN = 1.5
_LONGEST_S = 600.0
_CALL = "from penstock.cli import main; main()"


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of the demo.

    Examples
    --------
    >>> DemoRun(1, "alone", 5.0, 4.6, 14.9, 60_000.0, 12_000.0, 0.4, 1, 150.0, 0.3).gain
    5.0
    """

    number: int
    beside: str
    goal_s: float
    p95_s: float
    plain_p95_s: float
    useful_rows_per_s: float
    plain_useful_rows_per_s: float
    kept: float
    batches_to_control: int
    took_s: float
    load_average: float

    @property
    def is_within_goal(self) -> bool:
        """Whether 95 % of the kept rows were out in time."""
        return self.p95_s <= self.goal_s

    @property
    def gain(self) -> float:
        """Rows out in time each second, over those of plain Spark in the same run."""
        return self.useful_rows_per_s / self.plain_useful_rows_per_s if self.plain_useful_rows_per_s else float("inf")

    def row(self) -> dict[str, object]:
        """The figures, units in the keys."""
        return {
            "run": self.number,
            "beside": self.beside,
            "p95_s": round(self.p95_s, 2),
            "plain_p95_s": round(self.plain_p95_s, 2),
            "is_within_goal": self.is_within_goal,
            "useful_rows_per_s": round(self.useful_rows_per_s),
            "plain_useful_rows_per_s": round(self.plain_useful_rows_per_s),
            "gain": round(self.gain, 2),
            "kept_ratio": round(self.kept, 3),
            "batches_to_control": self.batches_to_control,
            "took_s": round(self.took_s, 1),
            "load_average": round(self.load_average, 2),
        }


def bench_demo(runs: int, *, beside_spells: bool, say: Callable[[str], None], out: Path | None = None) -> list[DemoRun]:
    """Run the demo so many times; what each of them leaves is kept in a folder of ``out``, where that is given."""
    beside = "spells of a busy core" if beside_spells else "nothing"
    found = []
    for number in range(1, runs + 1):
        with spells(seed=number) if beside_spells else nullcontext():
            run = _one_run(number, beside, None if out is None else out / f"run-{number}")
        found.append(run)
        say(
            f"run {number} of {runs} beside {beside}: p95 {run.p95_s:.2f} s of {run.goal_s:g} s, useful rows "
            f"{run.gain:.1f} times plain Spark's, {run.took_s:.0f} s"
        )
    return found


def _one_run(number: int, beside: str, out: Path | None) -> DemoRun:
    load_average, began_s = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") if out is None else nullcontext(out) as folder:
        done = subprocess.run(
            [sys.executable, "-c", _CALL, "demo", "--json", "--out", str(folder)],
            check=True, capture_output=True, text=True, timeout=_LONGEST_S,
        )  # fmt: skip
    return read_run(json.loads(done.stdout), number, beside, time.monotonic() - began_s, load_average)


def read_run(found: Mapping[str, Any], number: int, beside: str, took_s: float, load_average: float) -> DemoRun:
    """A run from what the demo printed."""
    plain, governed = found["rows"]
    return DemoRun(
        number=number,
        beside=beside,
        goal_s=found["goal_s"],
        p95_s=governed["latency_p95_s"],
        plain_p95_s=plain["latency_p95_s"],
        useful_rows_per_s=governed["useful_rows_per_s"],
        plain_useful_rows_per_s=plain["useful_rows_per_s"],
        kept=governed["kept_fraction"],
        batches_to_control=governed["batches_to_control"],
        took_s=took_s,
        load_average=load_average,
    )
