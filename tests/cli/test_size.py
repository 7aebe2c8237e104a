"""``penstock size`` on the action log of an attached application."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from penstock.model import APPLICATION, Metric, Mode, SeriesPoint
from penstock.model.decision import Resize, ResizeDone, to_action
from penstock.model.sizing import EngineShape, UsageSignal
from penstock.spark.sizing_plant import usage_points
from penstock.store import SqliteStore
from penstock.store.size_request import take_request

SHAPE, LARGE = EngineShape(1, 512, 384, 0, 2), EngineShape(1, 1024, 384, 0, 2)


def store_with_windows(path: Path, gc_fraction: float) -> Path:
    with SqliteStore(path) as store:
        for window in range(6):
            seen = UsageSignal(
                1000.0 + 15.0 * window, gc_fraction=gc_fraction, heap_used_mb=490.0, services={"kv": 20.0}
            )
            store.append_points(usage_points(seen, SHAPE))
    return path


def test_it_says_what_it_would_do_and_why(run: Callable[..., object], tmp_path: Path) -> None:
    """The shape, the one that is wanted, every policy with its reason and the table of metrics."""
    path = str(store_with_windows(tmp_path / "a.db", 0.3))
    outcome = run("size", path)
    assert outcome.code == 0  # type: ignore[attr-defined]
    assert "wanted: 1 executor of 2 cores, heap 1,024 MB" in outcome.out  # type: ignore[attr-defined]
    assert "garbage collection took 30 % of the time" in outcome.out  # type: ignore[attr-defined]
    document = json.loads(run("size", path, "--json").out)  # type: ignore[attr-defined]
    assert document["shape"]["heap_mb"] == 512
    assert document["wanted"]["heap_mb"] == 1024
    assert document["usage"]["services"] == {"kv": 20.0}
    assert not document["is_asked_for"]


def test_apply_asks_the_application(run: Callable[..., object], tmp_path: Path) -> None:
    """``--apply`` leaves word for the application, which takes it once; without a wish there is none."""
    path = store_with_windows(tmp_path / "a.db", 0.3)
    assert "asked for" in run("size", str(path), "--apply").out  # type: ignore[attr-defined]
    assert take_request(path.resolve())
    assert not take_request(path.resolve())
    calm = store_with_windows(tmp_path / "b.db", 0.01)
    assert "nothing to apply" in run("size", str(calm), "--apply").out  # type: ignore[attr-defined]
    assert not take_request(calm.resolve())


def test_history_shows_expected_and_seen_effect(run: Callable[..., object], tmp_path: Path) -> None:
    """Each action with its policy, how it ended and what was seen."""
    path = tmp_path / "a.db"
    decided = Resize(
        cause="P1", reason="garbage", policy="P1", resource="heap", shape=LARGE.to_dict(),
        previous_shape=SHAPE.to_dict(), number=1, expected={"gc_fraction": 0.1},
    )  # fmt: skip
    done = ResizeDone(cause="number 1", reason="", number=1, is_done=True, way="reshape", took_s=12.0)
    effect = ResizeDone(
        cause="number 1", reason="as expected after P1: gc_fraction 0.02 (expected 0.1)", number=1, is_done=True,
        way="effect", seen={"gc_fraction": 0.02},
    )  # fmt: skip
    with SqliteStore(path) as store:
        for time_s, decision in enumerate((decided, done, effect)):
            store.append(to_action(decision), time_s=1000.0 + time_s, mode=Mode.ACT)
    text = run("size", str(path), "--history").out  # type: ignore[attr-defined]
    assert "reshape in 12 s" in text
    assert "as expected after P1" in text
    (row,) = json.loads(run("size", str(path), "--history", "--json").out)["rows"]  # type: ignore[attr-defined]
    assert (row["policy"], row["expected"], row["is_done"]) == ("P1", {"gc_fraction": 0.1}, True)


def test_a_store_without_windows_says_what_is_missing(run: Callable[..., object], tmp_path: Path) -> None:
    """An application that was never sized is told how to be."""
    with SqliteStore(tmp_path / "a.db"):
        pass
    assert "no window is known" in run("size", str(tmp_path / "a.db")).out  # type: ignore[attr-defined]
    assert "no change of size" in run("size", str(tmp_path / "a.db"), "--history").out  # type: ignore[attr-defined]


def test_a_change_by_hand_is_shown_and_respected(run: Callable[..., object], tmp_path: Path) -> None:
    """A heap that the operator chose thrashes: nothing is wanted, its policies say whose it is, and so does history."""
    path = store_with_windows(tmp_path / "a.db", 0.3)
    by_hand = Resize(
        cause="operator", reason="somebody changed heap", policy="operator", resource="heap", shape=SHAPE.to_dict(),
        previous_shape=LARGE.to_dict(), number=1,
    )  # fmt: skip
    with SqliteStore(path) as store:
        store.append(to_action(by_hand), time_s=1000.0, mode=Mode.ACT)
        store.append_points([SeriesPoint(1075.0, APPLICATION, Metric.SIZING, 1.0, subject="by_hand.heap")])
    text = run("size", str(path)).out  # type: ignore[attr-defined]
    assert "wanted: all stays as it is" in text
    assert "heap is sized by the operator" in text
    assert "nothing to apply" in run("size", str(path), "--apply").out  # type: ignore[attr-defined]
    (row,) = json.loads(run("size", str(path), "--history", "--json").out)["rows"]  # type: ignore[attr-defined]
    assert (row["policy"], row["reason"]) == ("operator", "somebody changed heap")
    assert "by hand" in run("size", str(path), "--history").out  # type: ignore[attr-defined]


def test_no_escape_sequence_of_an_event_log_reaches_the_terminal(run: Callable[..., object], tmp_path: Path) -> None:
    """The name of an application that somebody else ran is shown, and not obeyed."""
    began = {
        "Event": "SparkListenerApplicationStart", "App Name": "a\x1b[2J\u202eb\r\nc", "App ID": "\x9b1m",
        "Timestamp": 1_700_000_000_000,
    }  # fmt: skip
    (tmp_path / "app-1").write_text(json.dumps(began) + "\n")
    outcome = run("size", "--event-log", str(tmp_path / "app-1"))
    written: str = outcome.out  # type: ignore[attr-defined]
    assert written.startswith("a\\x1b[2J\\u202eb  c (\\x9b1m)\n")
    assert [character for character in written if not character.isprintable() and character != "\n"] == []
