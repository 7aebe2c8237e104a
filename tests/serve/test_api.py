"""The HTTP API over a finished run and over one that goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import httpx
import pytest

from patience import PATIENCE_S, wait_for
from penstock.bench.serve_load import begin, grow, query_names
from penstock.model import Metric, Mode, QueryName
from penstock.store import MemoryStore
from serve_helpers import Served

NAMES = query_names(2)


@pytest.fixture
def running(serving: Callable[..., Served]) -> Served:
    """Two queries that ran for a minute, governed in this process."""
    store = MemoryStore()
    now_s = time.time()
    begin(store, NAMES, now_s - 60.0)
    for step in range(13):
        grow(store, NAMES, now_s - 60.0 + 5.0 * step, step)
    return serving(store)


def test_the_fleet_has_every_query_with_its_figures(recorded: Served) -> None:
    """State in words, latency and goal, what is kept, backlog, priority and a small curve, for each query."""
    fleet = recorded.client.get("/api/fleet").json()
    assert len(fleet["queries"]) == 12
    assert [engine["engine"] for engine in fleet["engines"]] == ["app"]
    row = next(row for row in fleet["queries"] if row["query"] == "clicks-0000")
    assert row["sentence"]
    assert row["goal_latency_s"] == 10.0
    assert row["minimum_accuracy"] == 0.5
    assert len(row["curve"]) > 5
    assert all(row[name] is not None for name in ("latency_s", "keep_ratio", "backlog_rows", "executors_serving"))


def test_a_query_is_explained(recorded: Served) -> None:
    """Its page has the sentences of penstock explain, and the goal that stands."""
    told = recorded.client.get("/api/query", params={"engine": "app", "query": "clicks-0000"}).json()
    assert any("goal since" in sentence for sentence in told["sentences"])
    assert told["goal"] == {"latency_s": 10.0, "minimum_accuracy": 0.5, "priority": 1, "weight": 1.0}


def test_series_are_thinned_and_forecast(recorded: Served) -> None:
    """However many points there are, a chart gets as many stretches as it asks for, and the load to come."""
    newest_s = recorded.client.get("/api/fleet").json()["engines"][0]["seen_s"]
    asked = {"engine": "app", "query": "clicks-0000", "bins": 40, "since_s": newest_s - 590.0}
    told = recorded.client.get("/api/series", params=asked).json()
    assert len(told["times_s"]) == 40
    means, lows, highs = (told[name]["arrival_rows_per_s"] for name in ("mean", "low", "high"))
    known = [place for place, value in enumerate(means) if value is not None]
    assert known
    assert all(lows[place] <= means[place] <= highs[place] for place in known)
    assert told["forecast"]["times_s"][0] > told["times_s"][known[-1]]
    assert all(upper >= mean for upper, mean in zip(told["forecast"]["upper"], told["forecast"]["mean"], strict=True))
    assert any(value is not None for value in told["mean"]["executor_busy_fraction"])


def test_actions_come_newest_first_with_what_was_expected_and_seen(recorded: Served) -> None:
    """A line of the log says why, what it should bring about, and what was seen of that."""
    asked = {"engine": "app", "query": "clicks-0000", "kind": "read_limit", "last": 3}
    told = recorded.client.get("/api/actions", params=asked).json()
    assert told["older_exist"]
    assert [row["time_s"] for row in told["rows"]] == sorted((row["time_s"] for row in told["rows"]), reverse=True)
    row = told["rows"][1]
    assert row["reason"]
    assert row["change"].startswith("source 0: ")
    assert row["expected"] == {"batch_duration_s": 4.2}
    assert 0.5 < row["seen"]["batch_duration_s"] < 4.2


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/query?engine=app&query=nobody", 404, "known queries: clicks-0000"),
        ("/api/query?engine=elsewhere&query=clicks-0000", 404, "known engines: app"),
        ("/api/series?engine=app&query=clicks-0000&since_s=10&until_s=5", 422, "since_s before until_s"),
        ("/api/series?engine=app&query=clicks-0000&bins=1", 422, "bins"),
        ("/api/what-if?engine=app&query=clicks-0000&policy=magic", 422, "proactive"),
        ("/api/orders/7", 404, "no order 7"),
        ("/nowhere", 404, "/nowhere"),
        ("/static/nothing.js", 404, "nothing.js"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(recorded: Served, path: str, status: int, words: str) -> None:
    """The status fits, and the sentence names the thing and the remedy."""
    answer = recorded.client.get(path)
    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_a_goal_is_changed_with_the_token_alone(running: Served) -> None:
    """Without it nothing changes; with it the wish reaches whoever governs, the rest of the goal as it was."""
    wish = {"engine": "app", "query": NAMES[0], "latency_s": 4.0}
    assert running.client.put("/api/goal", json=wish).status_code == 401
    wrong = running.client.put("/api/goal", json=wish, headers={"authorization": "Bearer wrong"})
    assert wrong.status_code == 401
    assert running.controls.goals == []
    answer = running.owner.put("/api/goal", json=wish)
    assert answer.json() == {"outcome": "applied", "order_id": None}
    ((query, goal, asked_by),) = running.controls.goals
    assert (query, goal.latency_s, goal.minimum_accuracy, goal.priority, asked_by) == (NAMES[0], 4.0, 0.5, 1, "page")


@pytest.mark.parametrize(
    "wish",
    [
        {"latency_s": -1.0}, {"latency_s": "fast"}, {"minimum_accuracy": 1.5}, {"priority": 0}, {"priority": 1.5},
        {"weight": 0}, {"colour": "red"},
    ],
)  # fmt: skip
def test_a_goal_that_means_nothing_is_refused(running: Served, wish: dict[str, object]) -> None:
    """It is told which part is wrong, and whoever governs hears nothing of it."""
    answer = running.owner.put("/api/goal", json={"engine": "app", "query": NAMES[0], **wish})
    assert answer.status_code == 422
    assert next(iter(wish)) in answer.json()["error"]
    assert running.controls.goals == []


def test_a_wish_with_the_same_key_is_carried_out_once(running: Served) -> None:
    """A leader that repeats what its predecessor may have done changes nothing."""
    wish = {"engine": "app", "query": NAMES[0], "latency_s": 4.0}
    outcomes = [
        running.owner.put("/api/goal", json=wish, headers={"idempotency-key": "order 7"}).json()["outcome"]
        for _ in range(3)
    ]
    assert outcomes == ["applied", "known", "known"]
    assert len(running.controls.goals) == 1


def test_a_key_is_known_after_the_application_was_started_again(
    running: Served, serving: Callable[..., Served]
) -> None:
    """Keys in memory are gone then; the log has them."""
    wish = {"engine": "app", "query": NAMES[0], "latency_s": 4.0}
    key = {"idempotency-key": "order 8"}
    assert running.owner.put("/api/goal", json=wish, headers=key).json()["outcome"] == "applied"
    again = serving(running.store)
    assert again.owner.put("/api/goal", json=wish, headers=key).json()["outcome"] == "known"
    assert again.controls.goals == []


def test_an_earlier_leader_is_refused(running: Served) -> None:
    """Once a newer leader has spoken, one that was only asleep changes nothing."""
    wish = {"engine": "app", "query": NAMES[0], "latency_s": 4.0}
    assert running.owner.put("/api/goal", json=wish, headers={"x-penstock-fence": "5"}).status_code == 200
    late = running.owner.put("/api/goal", json=wish, headers={"x-penstock-fence": "4"})
    assert (late.status_code, late.json()["kind"]) == (409, "Fenced")
    assert len(running.controls.goals) == 1


def test_the_mode_is_switched(running: Served) -> None:
    """Observe only is set and unset from the page, and the fleet shows it."""
    for observe_only in (True, False):
        answer = running.owner.put("/api/mode", json={"engine": "app", "observe_only": observe_only})
        assert answer.json()["outcome"] == "applied"
        assert running.controls.observe_only is observe_only
        running.service.fleet.look()
        assert running.client.get("/api/fleet").json()["engines"][0]["observe_only"] is observe_only


def test_a_finished_run_takes_no_goals(recorded: Served) -> None:
    """It says that nobody governs it, and what would."""
    wish = {"engine": "app", "query": "clicks-0000", "latency_s": 4.0}
    answer = recorded.owner.put("/api/goal", json=wish)
    assert answer.status_code == 409
    assert "pen.serve()" in answer.json()["error"]


def test_events_tell_what_changes(running: Served) -> None:
    """The first event has everything, a later one the queries with something new and the actions."""
    with httpx.stream("GET", f"{running.service.url}/api/events", timeout=PATIENCE_S) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
        assert len(next(events)["queries"]) == 2
        running.owner.put("/api/goal", json={"engine": "app", "query": NAMES[1], "latency_s": 3.0})
        event = next(found for found in events if found["actions"])
    assert [row["query"] for row in event["queries"]] == [NAMES[1]]
    assert event["queries"][0]["goal_latency_s"] == 3.0
    assert event["actions"][0]["cause"] == "asked by page"


def test_new_queries_appear(serving: Callable[..., Served]) -> None:
    """An empty store shows nothing, and a query appears with its first batch, governed or not."""
    served = serving(MemoryStore())
    assert served.client.get("/api/fleet").json()["queries"] == []
    grow(served.store, [QueryName("new")], time.time(), 1)
    served.service.fleet.look()
    (row,) = served.client.get("/api/fleet").json()["queries"]
    assert (row["query"], row["state"]) == ("new", "observed")


def test_a_store_that_cannot_be_read_is_told_and_the_rest_goes_on(serving: Callable[..., Served]) -> None:
    """What was seen stays, and the engine's problem says why there is nothing newer."""
    store = MemoryStore()
    begin(store, NAMES, time.time())
    served = serving(store)
    store.close()
    served.service.fleet.look()
    fleet = served.client.get("/api/fleet").json()
    assert len(fleet["queries"]) == 2
    assert "closed" in fleet["engines"][0]["problem"]
    assert served.client.get("/api/series", params={"engine": "app", "query": NAMES[0]}).status_code == 503


def test_no_other_site_gets_through(running: Served) -> None:
    """A page elsewhere that knows the token by chance still reads and changes nothing; nor does a rebound name."""
    wish = {"engine": "app", "query": NAMES[0], "latency_s": 4.0}
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}):
        assert running.owner.put("/api/goal", json=wish, headers=headers).status_code == 403
        assert running.owner.get("/api/fleet", headers=headers).status_code == 403
    assert running.owner.get("/api/fleet", headers={"host": "rebound.example"}).status_code == 421
    assert running.controls.goals == []


def test_what_if_plays_both_goals(recorded: Served) -> None:
    """The load on record is played under the goal as it is and another, with a curve for each and what came of it."""
    asked = {"engine": "app", "query": "clicks-0000", "hours": 0.1, "latency_s": 3.0, "minimum_accuracy": 0.2}
    told = recorded.client.get("/api/what-if", params=asked).json()
    assert (told["goal_latency_s"], told["what_if_latency_s"]) == (10.0, 3.0)
    for run in (told["as_is"], told["what_if"]):
        assert len(run["latency_s"]) == len(told["times_s"])
        assert 0.0 <= run["kept_ratio"] <= 1.0
    known = [value for value in told["what_if"]["latency_s"] if value is not None]
    assert sorted(known)[len(known) // 2] < 3.0


def test_too_little_on_record_to_play_is_told(serving: Callable[..., Served]) -> None:
    """A query of a few seconds has no hours to play again."""
    store = MemoryStore()
    begin(store, NAMES, time.time())
    grow(store, NAMES, time.time(), 1)
    answer = serving(store).client.get("/api/what-if", params={"engine": "app", "query": NAMES[0]})
    assert (answer.status_code, answer.json()["kind"]) == (409, "TooLittleSeen")


def test_every_series_of_the_model_can_be_asked_for(recorded: Served) -> None:
    """Each metric that a store can hold has a chart, empty or not."""
    for metric in Metric:
        asked = {"engine": "app", "query": "clicks-0000", "metric": metric.value, "bins": 5}
        assert len(recorded.client.get("/api/series", params=asked).json()["mean"][metric.value]) == 5


def test_the_newest_record_tells_the_mode_of_a_run_elsewhere(serving: Callable[..., Served]) -> None:
    """A run that only observes is shown as such, although nobody governs it in this process."""
    store = MemoryStore()
    begin(store, NAMES, time.time())
    store.append(store.actions(last=1)[0].action, time_s=time.time(), mode=Mode.OBSERVE)
    served = serving(store, governed=False)
    assert wait_for(lambda: served.client.get("/api/fleet").json()["engines"][0]["observe_only"] is True)
