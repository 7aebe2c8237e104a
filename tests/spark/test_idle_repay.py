"""When there is room to repay, and that one batch at a time is."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.model import QueryName
from penstock.spark.idle_repay import IdleRepayer, has_room


def query(*, arrival: float | None = 1000.0, cost_s: float = 1e-4, is_short: bool = False, batches: int = 9) -> Any:
    model = SimpleNamespace(read_cost_s=cost_s / 4, work_cost_s=cost_s * 3 / 4, batches=batches)
    return SimpleNamespace(arrival_rows_per_s=arrival, batch_time=model, is_short=is_short)


def test_room_is_what_all_queries_leave_together() -> None:
    """A tenth and four tenths of the time leave half; more than that, or one query that is short, leaves none."""
    assert has_room([], 0.5)
    assert has_room([query(), query(arrival=3999.0)], 0.5)
    assert not has_room([query(), query(arrival=4500.0)], 0.5)
    assert not has_room([query(is_short=True)], 0.5)


def test_nothing_known_is_no_room() -> None:
    """A query whose arrivals or costs are not known may need everything."""
    assert not has_room([query(arrival=None)], 0.5)
    assert not has_room([query(batches=0)], 0.5)


class Owing:
    """What a query owes, in batches; a batch waits until it may end."""

    def __init__(self, batches: int, may_end: threading.Event, *, fails: bool = False) -> None:
        self.left, self.may_end, self.fails = batches, may_end, fails
        self.asked = 0

    def run(self, _: object, *, most: int) -> int:
        """Repay no more than so many."""
        self.asked += 1
        if self.fails:
            raise RuntimeError("cannot be repaid")
        self.may_end.wait(10.0)
        done = min(self.left, most)
        self.left -= done
        return done


def repayer() -> IdleRepayer:
    context = SimpleNamespace(setLocalProperty=lambda *_: None)
    return IdleRepayer(cast("Any", SimpleNamespace(sparkContext=context)))


def finish(work: IdleRepayer) -> None:
    thread = work._thread
    assert thread is not None
    thread.join(10.0)
    assert not thread.is_alive()


def test_one_batch_at_a_time() -> None:
    """A look while a batch is being repaid begins no other; the next look after it does."""
    may_end = threading.Event()
    owing, work = Owing(2, may_end), repayer()
    work.take_on(QueryName("clicks"), lambda: cast("Any", owing), lambda *_: None)
    for _ in range(3):
        work.look()
    may_end.set()
    finish(work)
    assert (owing.asked, owing.left) == (1, 1)
    work.look()
    finish(work)
    assert (owing.asked, owing.left) == (2, 0)


def test_what_cannot_be_repaid_is_tried_once_and_hinders_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A query whose rows were drawn by chance is left alone after one word; the next one is repaid."""
    may_end = threading.Event()
    may_end.set()
    bad, good, work = Owing(1, may_end, fails=True), Owing(1, may_end), repayer()
    work.take_on(QueryName("bad"), lambda: cast("Any", bad), lambda *_: None)
    work.take_on(QueryName("good"), lambda: cast("Any", good), lambda *_: None)
    for _ in range(2):
        work.look()
        finish(work)
    assert (bad.asked, good.left) == (1, 0)
    assert "what query bad dropped cannot be repaid" in caplog.text
    work.close()
