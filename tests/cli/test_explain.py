"""The explanation of a query."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.explanation import _PHRASES, explain_query
from penstock.errors import UnknownQueryError
from penstock.model import Action, ActionKind, Metric, Mode, QueryName, SeriesPoint
from penstock.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLICKS = QueryName("clicks")


def act(kind: ActionKind, reason: str = "because", **fields: Any) -> Action:
    return Action(kind, CLICKS, "batch 7", reason, **fields)


def recorded(*actions: Action, mode: Mode = Mode.ACT) -> MemoryStore:
    store = MemoryStore()
    for second, action in enumerate(actions):
        store.append(action, time_s=100.0 + second, mode=mode)
    return store


def kinds(store: MemoryStore) -> list[ActionKind]:
    return [entry.action.kind for entry in explain_query(store, CLICKS).actions]


def test_tells_goal_limit_decision_and_effect(run: Callable[..., Any], store_path: Path) -> None:
    """The sentences name the goal, the limit in force and not the older one, the last decision, and what came of it."""
    text = run("explain", "clicks", "--store", str(store_path)).out
    assert "latency goal 5 s" in text
    assert "source 0, reads at most 2,500 rows a batch" in text
    assert "at most 1,000" not in text
    assert "within the dead band" in text
    assert "bring batch_duration_s to 2; it is 2.5 on average over 2 points since" in text


def test_summarises_series_by_part(run: Callable[..., Any], store_path: Path) -> None:
    """Each part of a metric has a row of its own, with the newest value and the range."""
    document = json.loads(run("explain", "clicks", "--json", "--store", str(store_path)).out)
    rows = {(row["metric"], row["subject"]): row for row in document["rows"]}
    whole = rows["batch_duration_s", ""]
    assert (whole["latest"], whole["low"], whole["high"], whole["count"]) == (3.0, 2.0, 9.0, 3)
    assert rows["batch_duration_s", "addBatch"]["latest"] == 1.5
    assert [entry["kind"] for entry in document["actions"]] == ["govern", "read_limit", "hold"]


def test_observed_query_without_decisions(run: Callable[..., Any], store_path: Path) -> None:
    """A query of which only observations exist is told so."""
    assert "nothing was decided about it yet" in run("explain", "views", "--store", str(store_path)).out


def test_released_query_has_no_limits_in_force() -> None:
    """After a release the limits of before are not told as if they held."""
    limit = act(ActionKind.READ_LIMIT, target="source 0", value=10.0, unit="rows")
    assert kinds(recorded(act(ActionKind.GOVERN), limit, act(ActionKind.RELEASE))) == [ActionKind.RELEASE]


def test_governed_again_after_release() -> None:
    """Limits of an earlier life of the query are not told, those of this one are, set before the start or after."""
    old, new = (act(ActionKind.READ_LIMIT, target=f"source {index}", value=10.0) for index in (0, 1))
    store = recorded(act(ActionKind.GOVERN), old, act(ActionKind.RELEASE), new, act(ActionKind.GOVERN))
    entries = explain_query(store, CLICKS).actions
    assert [(entry.action.kind, entry.action.target) for entry in entries] == [
        (ActionKind.GOVERN, ""),
        (ActionKind.READ_LIMIT, "source 1"),
    ]


def test_answered_hold_is_not_told() -> None:
    """A hold that a newer limit has answered is history; a fault stays worth telling."""
    limit = act(ActionKind.READ_LIMIT, target="source 0", value=10.0)
    store = recorded(act(ActionKind.GOVERN), act(ActionKind.HOLD), act(ActionKind.FAULT), limit)
    assert kinds(store) == [ActionKind.GOVERN, ActionKind.READ_LIMIT, ActionKind.FAULT]


@pytest.mark.parametrize("kind", ActionKind)
def test_every_kind_has_a_sentence(kind: ActionKind) -> None:
    """Whatever is decided can be explained, and the sentence has the reason and no unfilled place."""
    sentences = explain_query(recorded(act(kind, value=0.5, previous=1.0)), CLICKS).sentences
    assert kind in _PHRASES
    assert len(sentences) == 1
    assert sentences[0].endswith(", batch 7: because")
    assert "{" not in sentences[0]


def test_observe_only_is_said() -> None:
    """Decisions that were not carried out are told as such."""
    store = recorded(act(ActionKind.READ_LIMIT, value=10.0), mode=Mode.OBSERVE)
    assert "observed only, not carried out" in explain_query(store, CLICKS).sentences[0]


def test_expectation_without_series_is_skipped() -> None:
    """An expectation that no series can confirm gives no sentence about its effect."""
    store = recorded(act(ActionKind.READ_LIMIT, value=10.0, expected={"mood": 1.0, "lag_rows": 5.0}))
    assert len(explain_query(store, CLICKS).sentences) == 1
    store.append_points([SeriesPoint(101.0, CLICKS, Metric.LAG_ROWS, 8.0)])
    assert "lag_rows to 5; it is 8 on average over 1 points" in explain_query(store, CLICKS).sentences[1]


def test_unknown_query_lists_the_known_ones() -> None:
    """The error carries the names that would have worked."""
    with pytest.raises(UnknownQueryError) as caught:
        explain_query(recorded(act(ActionKind.GOVERN)), QueryName("clocks"))
    assert caught.value.known == ["clicks"]
