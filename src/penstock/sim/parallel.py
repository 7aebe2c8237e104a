"""Independent runs over several processes, with results in the order of the runs whatever their number."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")


def run_all(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Call a function for every job; ``progress`` is told how many of how many are done.

    Processes are spawned, not forked: a fork of a process with running threads, such as a Spark driver, can hang.

    Examples
    --------
    >>> run_all(abs, [-3, 2, -1], progress=lambda done, total: print(done, "of", total))
    1 of 3
    2 of 3
    3 of 3
    [3, 2, 1]
    """
    results: list[Result] = []
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            results.append(function(job))
            _tell(progress, len(results), len(jobs))
        return results
    chunk = max(1, min(16, len(jobs) // (4 * processes)))
    with multiprocessing.get_context("spawn").Pool(min(processes, len(jobs))) as pool:
        for result in pool.imap(function, jobs, chunksize=chunk):
            results.append(result)
            _tell(progress, len(results), len(jobs))
    return results


def _tell(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)
