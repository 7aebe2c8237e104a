"""What the service costs and how fast it answers: many queries, a large store, leaders that are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from penstock.bench.serve_load import grow, query_names, write_history, write_large
from penstock.errors import ServiceError
from penstock.model import ActionKind
from penstock.process.ports import free_port
from penstock.store import SqliteStore, open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_EVERY_S = 5.0
_SCRAPE_EVERY_S = 15.0
_STARTS_WITHIN_S = 60.0
_ACTS_WITHIN_S = 60.0
_MEGABYTE = 1e6
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """A service over many queries, with one page open and scraped each 15 s."""

    queries: int
    seconds: float
    cpu_ratio: float
    memory_mb: float
    start_s: float
    interactive_s: float | None
    fleet_answer_s: float
    scrape_s: float


@dataclass(frozen=True, slots=True)
class KillFigures:
    """What a standby did after its leader was killed."""

    kills: int
    orders: int
    carried_out: int
    carried_out_twice: int
    acted_median_s: float
    acted_max_s: float


@contextmanager
def serving(
    store: Path, state: Path, *, token: Path, lease_s: float = 6.0
) -> Iterator[tuple[psutil.Process, httpx.Client]]:
    """One instance as a process of its own, and a client with its token."""
    port = free_port()
    words = ["serve", "--store", str(store), "--state", str(state), "--token-file", str(token)]
    words += ["--port", str(port), "--lease", str(lease_s)]
    started = subprocess.Popen(
        [sys.executable, "-c", "import sys; from penstock.cli import main; sys.exit(main())", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0, trust_env=False)
    try:
        _until(lambda: _answers(client), _STARTS_WITHIN_S, "the service did not start")
        client.headers["authorization"] = f"Bearer {token.read_text(encoding='ascii').strip()}"
        yield psutil.Process(started.pid), client
    finally:
        client.close()
        started.kill()
        started.wait()


def bench_fleet(directory: Path, *, queries: int, seconds: float) -> FleetFigures:
    """So many queries, a batch of each every 5 s, for a while."""
    store = directory / "fleet.db"
    write_history(store, queries=queries, seconds=120.0, until_s=time.time())
    ended = threading.Event()
    writer = threading.Thread(target=_write_on, args=(store, queries, ended), daemon=True)
    began_s = time.monotonic()
    with serving(store, directory / "state", token=directory / "token") as (process, client):
        start_s = time.monotonic() - began_s
        writer.start()
        interactive_s = None
        with ExitStack() as stack:
            page_url = f"{client.base_url}/#token={(directory / 'token').read_text(encoding='ascii').strip()}"
            opened = stack.enter_context(_browser(page_url))
            if opened is None:
                stack.enter_context(client.stream("GET", "/api/events"))
            else:
                interactive_s = opened
            answers, scrapes = [], []
            before, since_s = sum(process.cpu_times()[:2]), time.monotonic()
            memory = process.memory_info().rss
            while time.monotonic() - since_s < seconds:
                answers.append(_timed(lambda: client.get("/api/fleet")))
                scrapes.append(_timed(lambda: client.get("/metrics")))
                memory = max(memory, process.memory_info().rss)
                time.sleep(min(_SCRAPE_EVERY_S, seconds))
            cpu_s, passed_s = sum(process.cpu_times()[:2]) - before, time.monotonic() - since_s
        ended.set()
        writer.join()
    return FleetFigures(
        queries, round(passed_s, 1), round(cpu_s / passed_s, 4), round(memory / _MEGABYTE, 1), round(start_s, 2),
        None if interactive_s is None else round(interactive_s, 3), round(statistics.median(answers), 4),
        round(statistics.median(scrapes), 4),
    )  # fmt: skip


def bench_large(directory: Path, *, actions: int, points: int) -> list[dict[str, Any]]:
    """How long commands and pages take over a store of that size; the slowest of five."""
    store = directory / "large.db"
    write_large(store, actions=actions, points=points, queries=50, until_s=time.time())
    name = query_names(1)[0]
    with serving(store, directory / "state", token=directory / "token") as (_, client):
        where: dict[str, Any] = {"engine": "large", "query": name}
        week = {"since_s": time.time() - 7 * 86_400, "until_s": time.time()}
        asked: dict[str, Callable[[], object]] = {
            "page /api/fleet": lambda: client.get("/api/fleet"),
            "page /api/query": lambda: client.get("/api/query", params=where),
            "page /api/series, last hour": lambda: client.get("/api/series", params=where),
            "page /api/series, a week": lambda: client.get("/api/series", params=where | week),
            "page /api/actions": lambda: client.get("/api/actions", params=where),
            "page /api/actions, a week": lambda: client.get("/api/actions", params=where | week),
            "page /metrics": lambda: client.get("/metrics"),
        }
        rows = [_row(name, ask) for name, ask in asked.items()]
    of_store = ["--store", str(store)]
    # Without a store first: what starting Python and reading the commands takes is in all of them.
    commands = {"version": ["version"]} | {" ".join(words): [*words, *of_store] for words in _commands(name)}
    return [*rows, *(_row(f"penstock {shown}", partial(_command, words)) for shown, words in commands.items())]


def _commands(name: str) -> list[list[str]]:
    return [["log", "--last", "50"], ["log", "--query", name], ["explain", name], ["status"]]


def _row(name: str, ask: Callable[[], object]) -> dict[str, Any]:
    """The slowest of some times, and the CPU of processes that were started for it."""
    before = _children_cpu_s()
    slowest_s = max(_timed(ask) for _ in range(_REPEATS))
    return {
        "asked": name,
        "slowest_s": round(slowest_s, 3),
        "process_cpu_s": round((_children_cpu_s() - before) / _REPEATS, 3),
    }


def _children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def bench_kills(directory: Path, *, kills: int, lease_s: float, seed: int = 0) -> KillFigures:
    """Kill the leader again and again while wishes are asked, and count what was carried out, and how often."""
    rng = random.Random(seed)  # noqa: S311 - moments of kills
    store, state, token = directory / "app.db", directory / "state", directory / "token"
    engine = subprocess.Popen([sys.executable, "-m", "penstock.bench.serve_engine", str(store)])
    waits: list[float] = []
    orders: list[int] = []
    try:
        _until(lambda: store.with_name("app.db.serve").exists(), _STARTS_WITHIN_S, "the engine did not start")
        with ExitStack() as all_of_them:
            pairs = [_instance(store, state, token, lease_s, all_of_them) for _ in range(2)]
            for _ in range(kills):
                leader, standby = _roles(pairs)
                orders.append(_ask(standby[1], rng))
                time.sleep(rng.random() * 0.2)
                os.kill(leader[0].pid, signal.SIGKILL)
                killed_s = time.monotonic()
                orders.append(_ask(standby[1], rng))
                _until(partial(_is_done, standby[1], orders[-1]), _ACTS_WITHIN_S, "the standby did not act")
                waits.append(time.monotonic() - killed_s)
                pairs[pairs.index(leader)] = _instance(store, state, token, lease_s, all_of_them)
            _until(lambda: all(_is_done(pairs[0][1], order) for order in orders), _ACTS_WITHIN_S, "orders are left")
    finally:
        engine.kill()
        engine.wait()
    with open_reader(store) as log:
        causes = Counter(entry.action.cause for entry in log.each_action(kinds=(ActionKind.GOVERN,)))
    done = [causes[f"asked by order {order}"] for order in orders]
    return KillFigures(
        kills, len(orders), sum(count >= 1 for count in done), sum(count > 1 for count in done),
        round(statistics.median(waits), 2), round(max(waits), 2),
    )  # fmt: skip


def _instance(
    store: Path, state: Path, token: Path, lease_s: float, stack: ExitStack
) -> tuple[psutil.Process, httpx.Client]:
    return stack.enter_context(serving(store, state, token=token, lease_s=lease_s))


def _roles(
    pairs: list[tuple[psutil.Process, httpx.Client]],
) -> tuple[tuple[psutil.Process, httpx.Client], tuple[psutil.Process, httpx.Client]]:
    """Who leads, and who stands by."""

    def leads() -> list[bool]:
        return [bool(client.get("/api/service").json()["is_leading"]) for _, client in pairs]

    _until(lambda: sum(leads()) == 1, _ACTS_WITHIN_S, "there is not one leader")
    place = leads().index(True)
    return pairs[place], pairs[1 - place]


def _ask(client: httpx.Client, rng: random.Random) -> int:
    wish = {"engine": "app", "query": query_names(1)[0], "latency_s": round(5.0 + 10.0 * rng.random(), 3)}
    answer = client.put("/api/goal", json=wish)
    return int(answer.raise_for_status().json()["order_id"])


def _is_done(client: httpx.Client, order: int) -> bool:
    return bool(client.get(f"/api/orders/{order}").json()["outcome"] == "applied")


def _write_on(store: Path, queries: int, ended: threading.Event) -> None:
    names, batch_id = query_names(queries), 1000
    with SqliteStore(store) as opened:
        while not ended.wait(_EVERY_S):
            grow(opened, names, time.time(), batch_id)
            batch_id += 1


@contextmanager
def _browser(url: str) -> Iterator[float | None]:
    """A page that is open meanwhile, and how long it took until it could be used; None where there is no browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        yield None
        return
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of the extra dev

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        began_s = time.monotonic()
        page.goto(url)
        page.wait_for_selector("tbody tr th a")
        page.fill("input[type=search]", "0007")
        page.wait_for_function("document.querySelectorAll('tbody tr').length < 20")
        interactive_s = time.monotonic() - began_s
        page.fill("input[type=search]", "")
        yield interactive_s
        browser.close()


def _command(words: list[str]) -> None:
    subprocess.run(
        [sys.executable, "-c", "import sys; from penstock.cli import main; sys.exit(main())", *words],
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip


def _timed(act: Callable[[], object]) -> float:
    began_s = time.monotonic()
    answer = act()
    passed_s = time.monotonic() - began_s
    if isinstance(answer, httpx.Response):
        answer.raise_for_status()
    return passed_s


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").is_success
    except httpx.HTTPError:
        return False


def _until(condition: Callable[[], bool], within_s: float, what: str) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise ServiceError(f"{what} within {within_s:g} s: look at the machine's load, and run it again")
        time.sleep(0.02)


def plain(figures: FleetFigures | KillFigures) -> dict[str, Any]:
    """Figures as plain data, units in the keys."""
    return asdict(figures)
