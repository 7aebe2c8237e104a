"""What a Standalone master tells of its workers, and how many more executors they have room for."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PAGE_KEY = "spark.penstock.master.page"
"""Where a session's settings say what the page of its Standalone master is."""

_ANSWER_WITHIN_S = 2.0
_USUAL_PORT = 8080


@dataclass(frozen=True, slots=True)
class WorkerRoom:
    """One worker and what it has left."""

    worker_id: str
    is_alive: bool
    cores: int
    cores_free: int
    memory_mb: int
    memory_free_mb: int


@dataclass(frozen=True, slots=True)
class MasterAnswer:
    """The master's view: its workers, for each running application how many cores it has, and its own address."""

    workers: tuple[WorkerRoom, ...]
    cores_by_application: Mapping[str, int]
    master_url: str = ""


def ask_master(ui_url: str) -> MasterAnswer | None:
    """Ask a master through its page; None where nobody answers."""
    if not ui_url.startswith("http://"):
        raise ClusterError(f"{ui_url!r} is not the page of a master: write http://HOST:PORT")
    try:
        with urllib.request.urlopen(f"{ui_url}/json/", timeout=_ANSWER_WITHIN_S) as answer:  # noqa: S310 - checked above
            return parse_answer(json.load(answer))
    except (OSError, ValueError):
        return None


def parse_answer(tree: Mapping[str, Any]) -> MasterAnswer:
    """The answer as data."""
    workers = [
        WorkerRoom(
            worker_id=str(worker["id"]),
            is_alive=worker["state"] == "ALIVE",
            cores=int(worker["cores"]),
            cores_free=int(worker["coresfree"]),
            memory_mb=int(worker["memory"]),
            memory_free_mb=int(worker["memoryfree"]),
        )
        for worker in tree["workers"]
    ]
    cores = {str(app["id"]): int(app["cores"]) for app in tree.get("activeapps", [])}
    return MasterAnswer(tuple(workers), cores, str(tree.get("url", "")))


def find_master_page(master: str, *, port: int = _USUAL_PORT) -> str | None:
    """The page of the Standalone master of an application, at the usual port of its host.

    None where it is elsewhere, where another master answers there, and for other managers.

    Examples
    --------
    >>> find_master_page("yarn") is None, find_master_page("k8s://https://k8s:6443") is None
    (True, True)
    """
    if not master.startswith("spark://"):
        return None
    # Several masters, one of which leads, are written with commas.
    addresses = [f"spark://{address}" for address in master.removeprefix("spark://").split(",")]
    for address in addresses:
        page = f"http://{address.removeprefix('spark://').rpartition(':')[0]}:{port}"
        answer = ask_master(page)
        if answer is not None and answer.master_url in addresses and answer.workers:
            return page
    return None


def executors_with_room(workers: Sequence[WorkerRoom], cores: int, memory_mb: int) -> int:
    """How many more executors of that size fit: an executor lies on one worker, so leftovers do not add up.

    Examples
    --------
    >>> one = WorkerRoom("one", True, 4, 3, 4096, 1500)
    >>> two = WorkerRoom("two", True, 4, 1, 4096, 4096)
    >>> gone = WorkerRoom("gone", False, 4, 4, 4096, 4096)
    >>> executors_with_room([one, two, gone], cores=1, memory_mb=512), executors_with_room([one, two], 2, 512)
    (3, 1)
    """
    alive = [worker for worker in workers if worker.is_alive]
    return sum(min(worker.cores_free // cores, worker.memory_free_mb // memory_mb) for worker in alive)
