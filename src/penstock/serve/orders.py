"""Wishes that the leader carries out: written down first, forwarded to the engine until it has answered."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import PenstockError
from penstock.http import token_at
from penstock.serve.lease import Lease, shared_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.serve.engine import EngineAddress

logger = logging.getLogger("penstock")

KEY_HEADER, FENCE_HEADER = "idempotency-key", "x-penstock-fence"
GIVEN_UP_S = 60.0
"""A wish that its engine did not take for so long is given up: whoever asked has seen that it did not happen."""

_ANSWER_WITHIN_S = 2.0
_ENDS_WITHIN_S = 5.0
_CLIENT_ERROR, _SERVER_ERROR = 400, 500


@dataclass(frozen=True, slots=True)
class Order:
    """One wish, as it stands in the state file."""

    order_id: int
    engine: str
    path: str
    body: dict[str, Any]
    asked_s: float
    outcome: str | None = None


class Orders:
    """The wishes in the state file that all instances share."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path, self._clock = path, clock

    def ask(self, engine: str, path: str, body: Mapping[str, Any]) -> Order:
        """Write a wish down durably."""
        now_s = self._clock()
        with shared_state(self.path) as connection:
            placed = connection.execute(
                "INSERT INTO orders (engine, path, body, asked_s) VALUES (?, ?, ?, ?)",
                (engine, path, json.dumps(dict(body)), now_s),
            )
            order_id = int(placed.lastrowid or 0)
        return Order(order_id, engine, path, dict(body), now_s)

    def waiting(self) -> list[Order]:
        """Wishes that nobody has carried out yet, oldest first."""
        return self._read("WHERE done_s IS NULL ORDER BY order_id", ())

    def find(self, order_id: int) -> Order | None:
        """One wish."""
        return next(iter(self._read("WHERE order_id = ?", (order_id,))), None)

    def close(self, order: Order, outcome: str, fence: int) -> None:
        """Write down what came of it."""
        with shared_state(self.path) as connection:
            connection.execute(
                "UPDATE orders SET done_s = ?, outcome = ?, fence = ? WHERE order_id = ? AND done_s IS NULL",
                (self._clock(), outcome, fence, order.order_id),
            )

    def _read(self, where: str, values: tuple[object, ...]) -> list[Order]:
        with shared_state(self.path) as connection:
            statement = f"SELECT order_id, engine, path, body, asked_s, outcome FROM orders {where}"  # noqa: S608 - from above
            rows = connection.execute(statement, values).fetchall()
        return [Order(row[0], row[1], row[2], json.loads(row[3]), row[4], row[5]) for row in rows]


class Duty(Protocol):
    """What the leader does again and again; other tiers of a fleet are duties too."""

    def run(self, fence: int) -> None:
        """Do what there is to do now. ``fence`` goes with everything that is asked of others."""
        ...


class Forwarding:
    """Carries wishes to the engines that they are for."""

    def __init__(self, orders: Orders, addresses: Callable[[], Mapping[str, EngineAddress]]) -> None:
        self._orders, self._addresses = orders, addresses

    def run(self, fence: int) -> None:
        """Forward every wish; the engine knows one that it has had before by its key."""
        for order in self._orders.waiting():
            outcome = self._forward(order, fence)
            if outcome is None and time.time() - order.asked_s > GIVEN_UP_S:
                outcome = "given up: the engine does not answer"
            if outcome is not None:
                self._orders.close(order, outcome, fence)

    def _forward(self, order: Order, fence: int) -> str | None:
        """Forward one wish: what came of it, None where it is to be tried again."""
        import httpx  # noqa: PLC0415 - the extra may be absent

        address = self._addresses().get(order.engine)
        if address is None:
            return None
        headers = {
            "authorization": f"Bearer {token_at(Path(address.token_file))}",
            KEY_HEADER: f"order {order.order_id}",
            FENCE_HEADER: str(fence),
        }
        try:
            answer = httpx.put(
                f"{address.url}{order.path}",
                json=order.body,
                headers=headers,
                timeout=_ANSWER_WITHIN_S,
                trust_env=False,
            )
        except httpx.HTTPError as error:
            logger.info("order %s: %s does not answer (%s)", order.order_id, address.url, error)
            return None
        if answer.status_code >= _SERVER_ERROR:
            return None
        if answer.status_code >= _CLIENT_ERROR:
            return f"refused: {answer.json().get('error', answer.status_code)}"
        return "applied"


class Leader:
    """One instance of the service: leads while it has the lease, and watches for it otherwise."""

    def __init__(self, lease: Lease, *duties: Duty) -> None:
        self._lease, self._duties = lease, duties
        self._ended, self._woken = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.fence: int | None = None

    @property
    def is_leading(self) -> bool:
        """Whether this instance has the lease."""
        return self.fence is not None

    def start(self) -> None:
        """Ask for the lease now, and then three times within it."""
        self._thread = threading.Thread(target=self._run, name="penstock-leader", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look at once: there is something to do."""
        self._woken.set()

    def stop(self) -> None:
        """Do no more, and let another instance lead."""
        self._ended.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(_ENDS_WITHIN_S)
        if self.is_leading:
            try:
                self._lease.release()
            except PenstockError as error:
                logger.warning("%s", error)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.fence = self._lease.take()
                if self.fence is not None:
                    for duty in self._duties:
                        duty.run(self.fence)
            except Exception as error:  # noqa: BLE001 - the next turn tries again
                logger.warning("the leader's turn failed: %s", error)
            self._woken.wait(self._lease.lasts_s / 3 if self.fence is None else min(1.0, self._lease.lasts_s / 3))
            self._woken.clear()


def instance_name() -> str:
    """A name that no other instance has."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
