"""The fourth experiment of the thesis: what the autoscaler itself costs."""

from __future__ import annotations

import json
import subprocess
import sys

Row = dict[str, float | int | str | bool | None]

PAPER_TRAINING_S = 65.0
PAPER_CPU_SHARE = 0.03
PAPER_MEMORY_MB = 144.0

_STEADY = """
import json, time, math
import psutil
from penstock.control.scaling.guards import Guarded, GuardSettings
from penstock.model.scaling import ScalingSignal
from penstock.research.thesis_scaler import ThesisScaler
from penstock.research.thesis_settings import ThesisSettings

process, scaler = psutil.Process(), ThesisScaler(ThesisSettings(train_every=300))
guarded = Guarded(scaler, GuardSettings())

def seen(step):
    demand = 4000.0 + 3000.0 * math.sin(step / 300.0) + 40.0 * math.sin(step * 1.7)
    executors = 3 + int(5 * (1 + math.sin(step / 300.0)) / 2)
    load = min(demand / executors / 1000.0, 0.98)
    return ScalingSignal(15.0 * step, executors, executors, demand, demand, load, 3.0 * demand, 0.02 / (1.0 - load))

step = 0
while scaler.mode.value == "exploration" and step < 6000:
    guarded.decide(seen(step))
    step += 1
mode, steps = scaler.mode.value, 4000
before = process.cpu_times()
for _ in range(steps):
    guarded.decide(seen(step))
    step += 1
after = process.cpu_times()
per_step_s = (after.user + after.system - before.user - before.system) / steps
print(json.dumps({"mode": mode, "per_step_s": per_step_s, "memory_mb": process.memory_info().rss / 1e6}))
"""

_TRAIN = """
import json, time
import numpy as np
from penstock.research.thesis_performance import fit_performance
from penstock.research.thesis_stability import check_stability

generator = np.random.default_rng(3)
count = 5 * 3600 // 15
executors = generator.integers(1, 6, count).astype(float)
demand = executors * generator.uniform(50.0, 950.0, count)
share = 0.03 / (1.0 - demand / executors / 1050.0) + generator.normal(0.0, 0.005, count)
fit_performance(demand[:250], executors[:250], share[:250])
began = time.perf_counter()
model = fit_performance(demand, executors, share, degrees=range(1, 9))
fitted = time.perf_counter()
check = check_stability(
    model, (demand, executors, share), demand_rows_per_s=2000.0, executors=3, capacity_rows_per_s=900.0, refits=250,
    generator=generator,
)
ended = time.perf_counter()
print(json.dumps({"samples": count, "degree": model.basis.degree, "fit_s": fitted - began, "check_s": ended - fitted,
    "is_stable": check.is_stable}))
"""


def measure_training() -> Row:
    """Train on five hours of samples, degrees 1 to 8, and check with 250 refits, in a process of its own."""
    found = _measured(_TRAIN)
    total_s = found["fit_s"] + found["check_s"]
    return {"part": "training and stability check", **found, "total_s": total_s, "paper_s": PAPER_TRAINING_S}


def measure_steady(*, interval_s: float = 5.0) -> Row:
    """CPU and memory of deciding every five seconds in optimal control, in a process of its own."""
    found = _measured(_STEADY)
    share = found["per_step_s"] / interval_s
    return {
        "part": "optimal control, steady",
        **found,
        "cpu_share": share,
        "paper_cpu_share": PAPER_CPU_SHARE,
        "paper_memory_mb": PAPER_MEMORY_MB,
    }


def _measured(program: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))
