"""What ``penstock bench elastic`` makes of a log: changes with their outcomes, gaps, the verdict."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.apps.run import QueryFigures
from penstock.bench.elastic import ElasticSetting
from penstock.bench.elastic_result import ElasticResult, Look
from penstock.cli.bench_elastic import print_elastic
from penstock.model import APPLICATION, Action, ActionKind, Mode
from penstock.model.decision import Executors, ExecutorsDone, to_action
from penstock.store import MemoryStore

FIGURES = QueryFigures("waiting", 3, 900, 1.0, 300.0, 1.0, 1.5, 2.0, 2.0, 5.0, 7.0, 0, 800)


def result() -> ElasticResult:
    """From 1 to 2 (overtaken) to 4 executors and back to 1, 1,000 s after the epoch."""
    store = MemoryStore()
    first = Executors(cause="start", reason="first", executors=1, number=1)
    store.append(to_action(first), time_s=990.0, mode=Mode.ACT)
    changes = ((1010.0, 1, 2, None), (1015.0, 2, 4, 9.5), (1100.0, 4, 1, 2.5))
    for number, (time_s, previous, executors, service_s) in enumerate(changes, start=2):
        decision = Executors(
            cause="proactive",
            reason="more is to come",
            executors=executors,
            previous_executors=previous,
            number=number,
        )
        store.append(to_action(decision), time_s=time_s, mode=Mode.ACT)
        done = ExecutorsDone(cause=f"decision {number}", reason="there", took_s=service_s, number=number)
        store.append(to_action(done), time_s=time_s + 10.0, mode=Mode.ACT)
    sizes = [1] * 20 + [4] * 80 + [1] * 20
    looks = tuple(Look(1000.0 + second, size, size, 100.0, 50.0) for second, size in enumerate(sizes))
    return ElasticResult(
        policy="proactive",
        goal_s=10.0,
        most=4,
        began_s=1000.0,
        figures=FIGURES,
        sent_rows=900,
        run_ids=("a",),
        batch_ids=(0, 1, 2),
        failed_tasks=0,
        actions=tuple(store.actions()),
        looks=looks,
    )


def test_every_change_has_its_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    """The first size is no change; one that was overtaken has an outcome and no time."""
    found = result()
    assert [(change.after_s, change.previous, change.executors, change.service_s) for change in found.changes] == [
        (10.0, 1, 2, None),
        (15.0, 2, 4, 9.5),
        (100.0, 4, 1, 2.5),
    ]
    assert found.sizes == [1, 4, 1]
    assert found.executor_s == pytest.approx(20 * 1 + 80 * 4 + 19)
    assert found.is_met
    tree = json.loads(json.dumps(found.to_dict()))
    assert (tree["is_met"], len(tree["rows"]), len(tree["timeline"])) == (True, 3, 12)
    print_elastic(found)
    shown = capsys.readouterr().out
    assert "overtaken" in shown
    assert shown.splitlines()[-1] == "met"


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_ids": ("a", "b")},
        {"batch_ids": (0, 2, 3)},
        {"batch_ids": ()},
        {"failed_tasks": 1},
        {"sent_rows": 901},
        {"figures": replace(FIGURES, latency_p95_s=10.1)},
        {"figures": replace(FIGURES, latency_p95_s=None)},
        {"looks": tuple(Look(1000.0 + second, 1, 1, 100.0, 50.0) for second in range(50))},
        {"looks": tuple(Look(1000.0 + second, min(4, 1 + second), 4, 100.0, 50.0) for second in range(50))},
    ],
)
def test_whatever_is_wrong_is_a_miss(wrong: dict[str, object]) -> None:
    """Another run, a gap, a failed task, a lost row, a late one, executors that never went up or never came down."""
    assert not replace(result(), **wrong).is_met  # type: ignore[arg-type]


def test_a_decision_without_its_end_is_a_miss() -> None:
    """And so is a fault on record."""
    found = result()
    assert not replace(found, actions=found.actions[:-1]).is_met
    store = MemoryStore()
    fault = store.append(Action(ActionKind.FAULT, APPLICATION, "cycle", "no"), time_s=1.0, mode=Mode.ACT)
    assert not replace(found, actions=(*found.actions, fault)).is_met


def test_the_load_goes_up_and_down() -> None:
    """What one executor does easily, then what the most are needed for, then the first again."""
    profile = ElasticSetting(most=4, seconds=200.0).profile()
    assert profile.duration_s == 200.0
    assert profile.rate_at(100.0) == pytest.approx(520.0)
    assert max(profile.rate_at(0.0), profile.rate_at(200.0)) < 60.0
    assert [profile.rate_at(100.0 - step) - profile.rate_at(100.0 + step) for step in (20.0, 60.0)] == [
        pytest.approx(0.0, abs=1e-6),
        pytest.approx(0.0, abs=1e-6),
    ]


@pytest.mark.parametrize(("new_tasks", "is_even"), [(30, True), (8, False)])
def test_state_that_stays_on_old_executors_is_a_miss(new_tasks: int, is_even: bool) -> None:  # noqa: FBT001 - by name
    """A stateful run is met only where new executors carry two thirds of an even share of the tasks in 30 s."""
    old = [(("0", 100 + second),) for second in range(20)]
    both = [(("0", 120 + second), ("1", new_tasks * second // 30)) for second in range(31)]
    looks = tuple(
        Look(1000.0 + second, len(tasks), len(tasks), 100.0, 50.0, tasks) for second, tasks in enumerate(old + both)
    )
    looks += (Look(1060.0, 1, 1, 100.0, 50.0, (("0", 200),)),)
    found = replace(result(), looks=looks, stateful=True)
    assert [(spread.new_executors, spread.tasks, spread.is_even) for spread in found.spreads] == [
        (1, 30 + new_tasks, is_even)
    ]
    assert found.is_met is is_even
    assert replace(found, stateful=False).is_met
