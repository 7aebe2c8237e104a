"""How many rows a second one core can learn from and decide on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.shedding import Economic, FullKnowledge, LoadAware, Rows
from penstock.estimate.hashing import draw_hashes
from penstock.estimate.sketch import CostSketch
from penstock.sim.streams import StreamShape, draw_stream

if TYPE_CHECKING:
    from collections.abc import Callable


def bench_sketch(*, rows: int = 200_000, repeats: int = 30) -> dict[str, float]:
    """Measure sketch updates, estimates and decisions on one core, in million rows a second, best of ``repeats``.

    A decision of ``las`` and ``economic`` includes looking up the cost of the row.
    """
    stream = draw_stream(StreamShape(rows=rows, training_rows=4096), seed=1, run=0)
    hashes = draw_hashes(np.random.default_rng(1), 4)
    sketch = CostSketch(hashes, 55)
    batch = Rows(stream.keys, stream.arrivals_s(0.25), stream.uniforms, costs_s=stream.costs_s)
    sketch.update(stream.training_keys, stream.training_costs_s)
    load_aware = LoadAware(0.0064, hashes=hashes)
    economic = Economic(0.0064, hashes=hashes)
    for shedder in (load_aware, economic):
        shedder.learn(sketch.cells)
    load_aware.decide(batch)
    return {
        "update": _best(lambda: sketch.update(batch.keys, stream.costs_s), rows, repeats),
        "estimate": _best(lambda: sketch.costs_s(batch.keys), rows, repeats),
        "decide_full_knowledge": _best(lambda: FullKnowledge(0.0064).decide(batch), rows, repeats),
        "decide_las": _best(lambda: load_aware.decide(batch), rows, repeats),
        "decide_economic": _best(lambda: economic.decide(batch), rows, repeats),
    }


def _best(work: Callable[[], object], rows: int, repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return rows / min(times) / 1e6
