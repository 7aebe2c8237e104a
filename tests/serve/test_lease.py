"""One leader by lease, and wishes that are carried out once whoever leads."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from patience import PATIENCE_S, wait_for
from penstock.bench.serve_load import begin, query_names
from penstock.errors import ServiceError
from penstock.serve import lease as lease_module
from penstock.serve.engine import EngineAddress
from penstock.serve.lease import Lease, shared_state
from penstock.serve.orders import Forwarding, Leader, Orders
from penstock.serve.service import Service, address_file, announce, beside, open_engines
from penstock.store import SqliteStore
from serve_helpers import Served, store_with_queries

NAMES = ("clicks-0000", "orders-0001")


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


class CountedLease(Lease):
    """A lease that counts how often another instance had it."""

    refused = 0

    def take(self) -> int | None:
        """Take it or renew it."""
        fence = super().take()
        self.refused += fence is None
        return fence


def test_one_of_many_that_ask_at_once_has_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty instances that start together have one leader."""
    monkeypatch.setattr(lease_module, "_BUSY_S", PATIENCE_S)
    fences: list[int | None] = []
    clock = Clock()
    leases = [Lease(tmp_path / "state", f"instance {number}", lasts_s=5.0, clock=clock) for number in range(20)]
    threads = [threading.Thread(target=lambda lease=lease: fences.append(lease.take())) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [fence for fence in fences if fence is not None] == [1]


def test_a_leader_that_renews_stays_and_one_that_does_not_is_succeeded(tmp_path: Path) -> None:
    """The fence stays the same while one leads, and is higher for its successor and for itself when it comes back."""
    clock = Clock()
    first, second = (Lease(tmp_path / "state", name, lasts_s=6.0, clock=clock) for name in ("first", "second"))
    for _ in range(5):
        assert first.take() == 1
        assert second.take() is None
        clock.now_s += 4.0
    clock.now_s += 6.0
    assert second.take() == 2
    assert first.take() is None
    second.release()
    assert first.take() == 3


def test_a_clock_that_jumps_back_does_not_leave_everybody_waiting(tmp_path: Path) -> None:
    """A lease that ends in a far future was written under another clock, and is over."""
    clock = Clock()
    clock.now_s = 1e9
    assert Lease(tmp_path / "state", "first", lasts_s=6.0, clock=clock).take() == 1
    clock.now_s = 1000.0
    assert Lease(tmp_path / "state", "second", lasts_s=6.0, clock=clock).take() == 2


def test_a_state_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """The error names the file and what to do."""
    (tmp_path / "state").write_text(
        "this is no database, and is longer than a header of one would be", encoding="utf-8"
    )
    with pytest.raises(ServiceError, match="use a path on a local disk"):
        Lease(tmp_path / "state", "first", lasts_s=6.0).take()


def test_wishes_are_written_down_before_anybody_acts(tmp_path: Path) -> None:
    """What was asked is there for whoever leads next, in order, until it is closed."""
    orders = Orders(tmp_path / "state")
    first = orders.ask("app", "/api/goal", {"query": "clicks", "latency_s": 4.0})
    orders.ask("app", "/api/mode", {"observe_only": True})
    again = Orders(tmp_path / "state")
    assert [order.path for order in again.waiting()] == ["/api/goal", "/api/mode"]
    again.close(first, "applied", 3)
    again.close(first, "applied twice", 4)
    found = orders.find(first.order_id)
    assert found is not None
    assert found.outcome == "applied"
    assert [order.path for order in orders.waiting()] == ["/api/mode"]


def test_a_wish_reaches_the_engine_once_although_two_leaders_forward_it(
    serving: Callable[..., Served], tmp_path: Path
) -> None:
    """The first leader dies after the engine has acted and before that is written down; its successor repeats it."""
    engine = serving(store_with_queries())
    address = EngineAddress(engine.service.url, str(engine.service.token_file))
    orders = Orders(tmp_path / "state")
    order = orders.ask("app", "/api/goal", {"engine": "app", "query": NAMES[0], "latency_s": 4.0})
    assert Forwarding(orders, lambda: {"app": address})._forward(order, 1) == "applied"
    Forwarding(orders, lambda: {"app": address}).run(2)
    assert len(engine.controls.goals) == 1
    assert orders.waiting() == []


def test_what_an_engine_refuses_is_closed_with_its_reason(serving: Callable[..., Served], tmp_path: Path) -> None:
    """A wish that cannot be meant is not tried for ever."""
    engine = serving(store_with_queries())
    address = EngineAddress(engine.service.url, str(engine.service.token_file))
    orders = Orders(tmp_path / "state")
    order = orders.ask("app", "/api/goal", {"engine": "app", "query": "nobody", "latency_s": 4.0})
    Forwarding(orders, lambda: {"app": address}).run(1)
    found = orders.find(order.order_id)
    assert found is not None
    assert found.outcome is not None
    assert found.outcome.startswith("refused: no streaming query named 'nobody'")


def test_an_engine_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    """The wish waits, and is given up only after a minute."""
    orders = Orders(tmp_path / "state")
    forwarding = Forwarding(orders, dict)
    order = orders.ask("app", "/api/goal", {})
    forwarding.run(1)
    assert [waiting.order_id for waiting in orders.waiting()] == [order.order_id]
    with shared_state(tmp_path / "state") as connection:
        connection.execute("UPDATE orders SET asked_s = asked_s - 61")
    forwarding.run(1)
    found = orders.find(order.order_id)
    assert found is not None
    assert found.outcome == "given up: the engine does not answer"


def test_a_standby_leads_when_the_leader_stops(tmp_path: Path) -> None:
    """A leader that ends in order lets go at once, and the duty is done by the other."""
    done: list[tuple[str, int]] = []

    class Duty:
        def __init__(self, name: str) -> None:
            self.name = name

        def run(self, fence: int) -> None:
            """Note who did it."""
            done.append((self.name, fence))

    # The clock stands still, so that no lease ends before its holder lets go of it.
    leases = {name: CountedLease(tmp_path / "state", name, lasts_s=0.6, clock=Clock()) for name in ("first", "second")}
    leaders = {name: Leader(lease, Duty(name)) for name, lease in leases.items()}
    leaders["first"].start()
    assert wait_for(lambda: leaders["first"].is_leading)
    leaders["second"].start()
    assert wait_for(lambda: leases["second"].refused >= 2)
    assert not leaders["second"].is_leading
    leaders["first"].stop()
    assert wait_for(lambda: leaders["second"].is_leading)
    leaders["second"].stop()
    assert [fence for _, fence in done] == sorted(fence for _, fence in done)
    assert {fence: name for name, fence in done} == {1: "first", 2: "second"}


def test_a_service_over_a_store_forwards_to_the_application_that_serves_beside_it(
    serving: Callable[..., Served], tmp_path: Path
) -> None:
    """A goal asked of the fleet's service reaches the engine, and the order tells so."""
    with SqliteStore(tmp_path / "app.db") as store:
        begin(store, query_names(2), time.time())
        engine = serving(store)
        engines = open_engines([tmp_path])
        assert not engines[0].can_change
        announce(store.path, engine.service)
        assert engines[0].can_change
        with Service(engines, token_file=tmp_path / "fleet.token", state_file=tmp_path / "state") as fleet:
            assert wait_for(lambda: fleet.leader is not None and fleet.leader.is_leading)
            headers = {"authorization": f"Bearer {fleet.token}"}
            owner = httpx.Client(base_url=fleet.url, headers=headers, timeout=PATIENCE_S)
            wish = {"engine": "app", "query": NAMES[1], "minimum_accuracy": 0.25}
            answer = owner.put("/api/goal", json=wish).json()
            assert answer["outcome"] == "accepted"
            path = f"/api/orders/{answer['order_id']}"
            assert wait_for(lambda: owner.get(path).json()["outcome"] == "applied")
        engines[0].store.close()
        ((query, goal, asked_by),) = engine.controls.goals
        assert (query, goal.minimum_accuracy, asked_by) == (NAMES[1], 0.25, f"order {answer['order_id']}")


def test_what_instances_share_is_their_users_own(tmp_path: Path) -> None:
    """Who asked for what is nobody else's to read, also in a file that an earlier version left open to all."""
    path = tmp_path / "state"
    Orders(path).ask("app", "/api/goal", {"asked_by": "alice"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert len(Orders(path).waiting()) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_where_an_application_serves_is_written_through_no_link(tmp_path: Path) -> None:
    """A link that was planted under a name which can be guessed has nobody's file emptied, and nothing is left over."""
    letter, store = tmp_path / "letter", tmp_path / "app.db"
    letter.write_text("dear", encoding="utf-8")
    planted = [tmp_path / "app.db.serve", tmp_path / f"app.db.serve.{os.getpid()}"]
    for link in planted:
        link.symlink_to(letter)
    service = SimpleNamespace(url="http://127.0.0.1:1", token_file=tmp_path / "token")
    announce(store, cast("Service", service))
    assert letter.read_text(encoding="utf-8") == "dear"
    found = address_file(store)
    assert not found.is_symlink()
    assert stat.S_IMODE(found.stat().st_mode) == 0o600
    assert beside(store) == EngineAddress("http://127.0.0.1:1", str(tmp_path / "token"))
    assert set(tmp_path.iterdir()) == {letter, *planted}


def test_an_address_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    """Where the name is taken by a directory, half a file does not stay beside it."""
    address_file(tmp_path / "app.db").mkdir()
    service = SimpleNamespace(url="http://127.0.0.1:1", token_file=tmp_path / "token")
    with pytest.raises(OSError, match="directory"):
        announce(tmp_path / "app.db", cast("Service", service))
    assert [each.name for each in tmp_path.iterdir()] == ["app.db.serve"]


def test_stores_of_a_directory_go_by_names_that_differ(tmp_path: Path) -> None:
    """By their files, by their directories where files are called the same, and never two by one name."""

    def names(*paths: str) -> list[str]:
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        for path in paths:
            with SqliteStore(root / path):
                pass
        engines = open_engines([root])
        for engine in engines:
            engine.store.close()
        return [engine.name for engine in engines]

    assert names("a.db", "b.db") == ["a", "b"]
    assert names("east/penstock.db", "west/penstock.db") == ["east", "west"]
    assert len(set(names("x/a/p.db", "y/a/p.db"))) == 2
