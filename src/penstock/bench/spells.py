"""A neighbour that takes a core in spells, as other programs of a shared machine do."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORTEST_S, LONGEST_S = 5.0, 15.0


@contextmanager
def spells(seed: int, shortest_s: float = SHORTEST_S, longest_s: float = LONGEST_S) -> Iterator[None]:
    """Keep one core busy for a drawn time, then leave it alone for one, over and over, until the block ends."""
    context = multiprocessing.get_context("spawn")
    neighbour = context.Process(target=_take_turns, args=(seed, shortest_s, longest_s, os.getpid()), daemon=True)
    neighbour.start()
    try:
        yield
    finally:
        neighbour.terminate()
        neighbour.join()


def _take_turns(seed: int, shortest_s: float, longest_s: float, parent: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - lengths of spells, not secrets
    # A benchmark that was killed ends no other process: its neighbour would take a core in spells for ever.
    while os.getppid() == parent:
        until_s = time.monotonic() + draw.uniform(shortest_s, longest_s)
        while time.monotonic() < until_s:
            pass
        time.sleep(draw.uniform(shortest_s, longest_s))
