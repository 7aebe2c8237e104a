"""The operator's side inside a worker: which rows it runs, what it learns, and what it says when a row fails."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.control.shedding import Rows
from penstock.estimate.sketch import CostSketch
from penstock.model.directive import Directive
from penstock.spark import directive_task, operator_worker
from penstock.spark.directive_task import TaskDirective, TaskPlace, directive_of_task, place_of_task
from penstock.spark.directives import FALLBACK_PROPERTY, Answer, DirectiveServer, Question, directive_properties
from penstock.spark.operator_report import REPORT_FIELDS, ReportSum, TaskReports
from penstock.spark.operator_shares import STRATEGIES, decide, economic_probabilities, empty_sketch
from penstock.spark.operator_worker import (
    DRAW,
    KEY,
    UTILITY,
    Chance,
    OperatorError,
    OperatorTask,
    SketchSum,
    costs_from_bytes,
    costs_to_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 4000
ARRIVAL = "at"


class FakeContext:
    """A task with the properties that a driver has set."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._properties = properties

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        """The value of a property."""
        return self._properties.get(name)

    def stageId(self) -> int:  # noqa: N802 - Spark's name
        """The stage that it belongs to."""
        return 3

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        """Its partition."""
        return 1

    def taskAttemptId(self) -> int:  # noqa: N802 - Spark's name
        """Which attempt it is."""
        return 8


class Sums:
    """Stands in for an accumulator."""

    def __init__(self) -> None:
        self.value = empty_sketch().cells

    def add(self, cells: np.ndarray[Any, Any]) -> None:
        """Take what a task has learned."""
        self.value = SketchSum().addInPlace(self.value, cells)


class Reports:
    """Stands in for the accumulator of reports."""

    def __init__(self) -> None:
        self.value: TaskReports = {}

    def add(self, found: TaskReports) -> None:
        """Take what a task reports."""
        self.value = ReportSum().addInPlace(self.value, found)


def double(row: dict[str, Any]) -> dict[str, Any]:
    """Twice the value."""
    return {"id": row["id"], "double": row["value"] * 2}


def task(function: Callable[[dict[str, Any]], Any] = double, strategy: str = "uniform", **changes: Any) -> OperatorTask:
    """An operator over the columns id, kind and value."""
    fields = pa.schema([("id", pa.int64()), ("double", pa.int64())])
    arguments: dict[str, Any] = {
        "function": function,
        "name": function.__name__,
        "key": "kind",
        "columns": ("id", "kind", "value"),
        "fields": fields,
        "strategy": strategy,
        "costs_name": "costs",
        "arrival": ARRIVAL,
    }
    return OperatorTask(**{**arguments, **changes})


def batch(rows: int = ROWS, *, utility: np.ndarray[Any, Any] | None = None) -> pa.RecordBatch:
    """Rows of two kinds in turn, with the columns that the JVM adds."""
    ids = np.arange(rows)
    columns = {
        "id": ids,
        "kind": ids % 2,
        "value": ids * 10,
        ARRIVAL: pa.array((1000 + ids) * 1_000_000, pa.timestamp("us", tz="UTC")),
        KEY: (ids % 2).astype(np.int64) - 1,
        DRAW: np.random.default_rng(11).random(rows),
    }
    if utility is not None:
        columns[UTILITY] = utility
    return pa.record_batch(columns)


def tell(monkeypatch: pytest.MonkeyPatch, keep_ratio: float, *, costs: CostSketch | None = None, **more: Any) -> None:
    """Let tasks find this directive, and these costs."""
    content = None if costs is None else costs_to_bytes(costs.cells)
    found = TaskDirective(Directive(5, keep_ratio, **more), content, answered=True)
    monkeypatch.setattr(operator_worker, "directive_of_task", lambda _: found)


def in_task(monkeypatch: pytest.MonkeyPatch, batch_id: int, properties: dict[str, str]) -> None:
    """Be in a task of a streaming query, with these properties beside those that Spark sets."""
    own = {"sql.streaming.queryId": "q", "spark.jobGroup.id": "r", "streaming.sql.batchId": str(batch_id)}
    context = FakeContext({**own, **properties})
    monkeypatch.setattr(directive_task.TaskContext, "get", lambda: context)
    directive_task._remembered.clear()


def run(operator: OperatorTask, *batches: pa.RecordBatch) -> tuple[pa.Table, dict[str, float]]:
    """The rows that come out, and the report of the partition."""
    reported = Reports()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator_worker, "place_of_task", lambda: TaskPlace("r", 5, stage=3, partition=1, attempt=8))
        found = list(replace(operator, reported=reported).run(iter(batches)))
    rows = pa.Table.from_batches(found) if found else pa.table({})
    return rows, dict(zip(REPORT_FIELDS, reported.value["r"][5][3][1][1][0], strict=True))


def learned_costs(*costs_s: float) -> CostSketch:
    """A sketch of the two kinds of :func:`batch`."""
    sketch = empty_sketch()
    keys = (np.arange(2).astype(np.int64) - 1).view(np.uint64)
    sketch.update(np.repeat(keys, 100), np.repeat(np.array(costs_s), 100))
    return sketch


def test_without_orders_every_row_is_run_with_weight_one() -> None:
    """A batch frame or an ungoverned query loses nothing."""
    rows, report = run(task(), batch())
    assert rows.column("double").to_pylist() == [20 * number for number in range(ROWS)]
    assert set(rows.column("weight").to_pylist()) == {1.0}
    assert (report["offered_rows"], report["kept_rows"], report["keep_ratio"]) == (ROWS, ROWS, 1.0)
    assert (report["oldest_s"], report["newest_s"]) == (1000.0, 1000.0 + ROWS - 1)


def test_an_empty_partition_reports_nothing_offered() -> None:
    """Spark may run a task without rows; its report has no arrival."""
    rows, report = run(task())
    assert rows.num_rows == 0
    assert (report["offered_rows"], report["oldest_s"]) == (0.0, None)


def test_rows_for_which_the_function_gives_none_are_left_out_with_their_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights stay with their rows; a row left out counts as kept, because it was run."""

    def odd_only(row: dict[str, Any]) -> dict[str, Any] | None:
        return double(row) if row["kind"] else None

    tell(monkeypatch, 0.5, costs=learned_costs(1e-5, 1e-3))
    rows, report = run(task(odd_only, "economic"), batch())
    assert {number % 2 for number in rows.column("id").to_pylist()} == {1}
    assert rows.num_rows < report["kept_rows"]
    assert rows.column("weight").to_pylist() == pytest.approx([1.01 / 0.5] * rows.num_rows, rel=0.01)


def test_uniform_keeps_the_requested_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without costs every row stays with the keep ratio, and the report says what was asked for."""
    tell(monkeypatch, 0.25)
    rows, report = run(task(), batch())
    assert (report["keep_ratio"], report["answered"]) == (0.25, 1.0)
    assert rows.num_rows == report["kept_rows"] == int((batch().column(DRAW).to_numpy() < 0.25).sum())
    assert set(rows.column("weight").to_pylist()) == {4.0}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_keeps_the_requested_part_of_the_work(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever pays, the learned work that is kept is what was asked for, and weights add up to the rows offered."""
    tell(monkeypatch, 0.5, costs=learned_costs(1e-5, 9e-5))
    utility = np.ones(ROWS) if strategy == "semantic" else None
    rows, report = run(task(strategy=strategy), batch(utility=utility))
    assert report["kept_work"] / report["offered_work"] == pytest.approx(0.5, abs=0.03)
    assert sum(rows.column("weight").to_pylist()) == pytest.approx(ROWS, rel=0.05)


def test_economic_runs_more_rows_than_uniform_for_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dear rows go first: of rows of 1 and 9 units 72 per cent fit into half of the work."""
    tell(monkeypatch, 0.5, costs=learned_costs(1e-5, 9e-5))
    _, economic = run(task(strategy="economic"), batch())
    _, uniform = run(task(strategy="uniform"), batch())
    assert economic["kept_rows"] / ROWS == pytest.approx(0.72, abs=0.03)
    assert uniform["kept_rows"] / ROWS == pytest.approx(0.5, abs=0.03)


def test_a_task_knows_which_batch_it_reports_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run and batch, stage and partition; a task of a batch frame, which nobody reads reports of, has no place."""
    in_task(monkeypatch, 7, {})
    assert place_of_task() == TaskPlace("r", 7, stage=3, partition=1, attempt=8)
    monkeypatch.setattr(directive_task.TaskContext, "get", lambda: FakeContext({}))
    assert place_of_task() is None
    reported = Reports()
    rows = list(task(reported=reported).run(iter([batch(10)])))
    assert sum(each.num_rows for each in rows) == 10
    assert reported.value == {}


def test_rows_drawn_by_chance_are_the_same_again_and_others_in_other_places() -> None:
    """A task that runs again keeps the same rows; other batches, partitions and parts of a task are drawn apart."""
    place = TaskPlace("r", 7, stage=3, partition=1, attempt=8)
    rows, others = batch(100), batch(200).slice(100)
    drawn = Chance(place, "f").draws(rows)
    assert np.array_equal(drawn, Chance(replace(place, stage=5, attempt=9), "f").draws(rows))
    elsewhere = [
        Chance(replace(place, partition=2), "f").draws(rows),
        Chance(replace(place, batch_id=8), "f").draws(rows),
        Chance(replace(place, run_id="s"), "f").draws(rows),
        Chance(place, "g").draws(rows),
        Chance(place, "f").draws(others),
    ]
    assert all(not np.isclose(drawn, other).any() for other in elsewhere)


def test_all_partitions_in_a_worker_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directive and costs of a batch are asked for once a worker and operator, and another batch asks again."""
    asked: list[Question] = []
    costs = costs_to_bytes(learned_costs(1e-5, 9e-5).cells)

    def answer(question: Question) -> Answer:
        asked.append(question)
        return Answer(Directive(question.batch_id, 0.5 if question.batch_id == 5 else 0.25), costs)

    with DirectiveServer(answer, host="127.0.0.1") as server:
        properties = dict(directive_properties(server.endpoint, server.token, None))
        in_task(monkeypatch, 5, properties)
        reports = [run(task(strategy="economic"), batch())[1] for _ in range(3)]
        in_task(monkeypatch, 6, properties)
        reports.append(run(task(strategy="economic"), batch())[1])
    assert asked == [Question("q", "r", 5, "costs"), Question("q", "r", 6, "costs")]
    assert [report["keep_ratio"] for report in reports] == [0.5, 0.5, 0.5, 0.25]
    assert all(report["answered"] for report in reports)
    assert reports[0]["kept_rows"] / ROWS == pytest.approx(0.72, abs=0.03)


@pytest.mark.parametrize(
    ("fallback", "kept"),
    [(Directive(2, 0.25, 0.1, late_before_s=5e9).to_json(), 0.25), ("", 1.0), ("{", 1.0), ('{"batch_id": 1}', 1.0)],
)
def test_without_an_answer_the_fallback_holds(fallback: str, kept: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keep ratio holds, none of its moments does, and what cannot be read keeps everything; no costs, no error."""
    with DirectiveServer(lambda _: None, host="127.0.0.1") as server:
        properties = dict(directive_properties(server.endpoint, server.token, None))
        in_task(monkeypatch, 5, {**properties, FALLBACK_PROPERTY: fallback})
        found = directive_of_task("costs")
        _, report = run(task(), batch())
    assert (found.directive.late_before_s, found.costs, found.answered) == (None, None, False)
    assert (report["keep_ratio"], report["late_rows"], report["answered"]) == (kept, 0, 0.0)


@pytest.mark.parametrize("damage", [lambda c: c[:-4], lambda c: c + b"0000", lambda c: b"X" + c[1:], lambda c: c[::-1]])
def test_damaged_costs_are_no_costs(damage: Callable[[bytes], bytes]) -> None:
    """Costs of another length, format or check sum are left alone; whole ones are read as they were written."""
    sketch = learned_costs(1e-5, 9e-5)
    content = costs_to_bytes(sketch.cells)
    assert costs_from_bytes(damage(content)) is None
    found = costs_from_bytes(content)
    assert found is not None
    assert found.cells == pytest.approx(sketch.cells, rel=1e-6)


def test_costs_that_are_no_numbers_are_no_costs() -> None:
    """A sketch that went wrong in the driver must not decide in a task."""
    sketch = learned_costs(1e-5, 9e-5)
    sketch.cells[0, 0, 1] = np.nan
    assert costs_from_bytes(costs_to_bytes(sketch.cells)) is None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_rows_stay_when_a_task_runs_again(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried task draws nothing anew."""
    tell(monkeypatch, 0.3, costs=learned_costs(1e-5, 9e-5))
    utility = np.linspace(0, 1, ROWS) if strategy == "semantic" else None
    first, _ = run(task(strategy=strategy), batch(utility=utility))
    again, _ = run(task(strategy=strategy), batch(utility=utility))
    assert first.equals(again)
    assert 0 < first.num_rows < ROWS


def test_las_keeps_rows_from_all_of_the_batch() -> None:
    """Rows are taken to arrive over the whole time there is, so that the tail is not dropped in one piece."""
    keys = np.zeros(1000, np.uint64)
    sketch = empty_sketch()
    sketch.update(keys, np.full(1000, 1e-3))
    rows = Rows(keys, np.zeros(1000), np.zeros(1000), costs_s=np.full(1000, 1e-3))
    keep = decide("las", rows, sketch, keep_ratio=0.3).keep
    assert keep[:500].sum() == pytest.approx(150, abs=10)
    assert keep[500:].sum() == pytest.approx(150, abs=10)


@pytest.mark.parametrize("keep_ratio", [0.05, 0.3])
def test_las_keeps_rows_of_all_regions_that_come_in_turn(keep_ratio: float) -> None:
    """At a floor of a twentieth every twentieth row stayed, all of one region of twenty: its count was twenty times."""
    count, regions = 40_000, 20
    keys = np.random.default_rng(1).integers(0, 64, count).astype(np.uint64)
    costs_s = (1.0 + keys) * 1e-5
    sketch = empty_sketch()
    sketch.update(keys, costs_s)
    rows = Rows(keys, np.zeros(count), np.random.default_rng(2).random(count), costs_s=costs_s)
    decision = decide("las", rows, sketch, keep_ratio=keep_ratio, keep_floor=0.05)
    of_region = np.bincount(np.arange(count)[decision.keep] % regions, weights=decision.weights, minlength=regions)
    error = of_region * np.sqrt((1.0 - keep_ratio) / (keep_ratio * count / regions))
    assert np.all(np.abs(of_region - count / regions) <= 4.0 * error)


def test_las_keeps_the_same_rows_in_any_order() -> None:
    """A source that gives the rows of a batch in another order, when it runs again, changes nothing."""
    count = 5_000
    keys = np.random.default_rng(1).integers(0, 64, count).astype(np.uint64)
    costs_s, draws = (1.0 + keys) * 1e-5, np.random.default_rng(2).random(count)
    sketch = empty_sketch()
    sketch.update(keys, costs_s)
    order = np.random.default_rng(3).permutation(count)
    first = decide("las", Rows(keys, np.zeros(count), draws, costs_s=costs_s), sketch, keep_ratio=0.4).keep
    rows = Rows(keys[order], np.zeros(count), draws[order], costs_s=costs_s[order])
    assert np.array_equal(decide("las", rows, sketch, keep_ratio=0.4).keep, first[order])


def test_minimum_accuracy_is_held_where_useful_rows_are_dear() -> None:
    """Half the work would be a tenth of the rows; the minimum accuracy asks for more of them."""
    costs_s = np.tile([1e-5, 1e-5, 1e-5, 1e-2], 100)
    utility = np.tile([0.0, 0.0, 0.0, 1.0], 100)
    free = economic_probabilities(costs_s, utility, keep_ratio=0.5)
    bound = economic_probabilities(costs_s, utility, keep_ratio=0.5, keep_floor=0.2)
    assert free.mean() < 0.15
    assert bound.mean() == pytest.approx(0.2, abs=1e-6)


def test_no_row_is_without_a_chance() -> None:
    """A utility of zero leaves one per cent: a weight without bound would ruin every sum."""
    probability = economic_probabilities(np.ones(4), np.array([0.0, 1.0, 1.0, 1.0]), keep_ratio=0.5)
    assert probability.min() == 0.01
    assert economic_probabilities(np.ones(3), np.zeros(3), keep_ratio=0.5).tolist() == pytest.approx([0.5] * 3)


class SlowKind:
    """A function whose rows move the clock, and nothing else does: those of kind 1 ten times as far."""

    now_ns = 0

    def run(self, row: dict[str, Any]) -> dict[str, Any]:
        """Run one row."""
        self.now_ns += 400_000 if row["kind"] else 40_000
        return double(row)


def with_clock(monkeypatch: pytest.MonkeyPatch) -> SlowKind:
    """The function, and its clock in place of the worker's."""
    slow = SlowKind()
    monkeypatch.setattr(operator_worker, "perf_counter_ns", lambda: slow.now_ns)
    return slow


def test_costs_are_learned_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that take longer are found to, by the key that says so."""
    slow_kind = with_clock(monkeypatch)
    sums = Sums()
    run(task(slow_kind.run, learned=sums), batch(600))
    sketch = empty_sketch()
    sketch.cells = sums.value
    costs_s = sketch.costs_s((np.arange(2).astype(np.int64) - 1).view(np.uint64))
    assert costs_s.tolist() == pytest.approx([4e-5, 4e-4])
    assert sketch.cells[0, :, 0].sum() == 599, "all but the first row, which pays for imports"


def test_once_costs_are_known_one_arrow_batch_of_four_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is read for a quarter of the rows, and costs are those of their keys; the work of all is counted."""
    slow_kind = with_clock(monkeypatch)
    tell(monkeypatch, 1.0, costs=learned_costs(4e-5, 4e-4))
    sums = Sums()
    _, report = run(task(slow_kind.run, learned=sums), *[batch(100) for _ in range(8)])
    sketch = empty_sketch()
    sketch.cells = sums.value
    assert sketch.cells[0, :, 0].sum() == 2 * 100 - 1, "without the first row of the task"
    assert sketch.costs_s((np.arange(2).astype(np.int64) - 1).view(np.uint64)).tolist() == pytest.approx([4e-5, 4e-4])
    assert report["function_s"] == pytest.approx(slow_kind.now_ns * 1e-9)
    assert (report["offered_rows"], report["kept_rows"]) == (800, 800)


@pytest.mark.parametrize("place", [0, 1])
def test_a_row_that_fails_is_named_whether_or_not_it_is_timed(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two Arrow batches with known costs the first is timed and the second is not."""
    calls = itertools.count()

    def brittle(row: dict[str, Any]) -> dict[str, Any]:
        if next(calls) == 10 * place + 4:
            raise ValueError("no more")
        return double(row)

    tell(monkeypatch, 1.0, costs=learned_costs(1e-5, 1e-5))
    with pytest.raises(OperatorError, match=r"failed on a row with kind = 0: ValueError: no more"):
        run(task(brittle), batch(10), batch(10))


def test_an_interruption_counts_as_ten_times_the_estimate_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is stopped for a while must not make its row's key look dear."""

    def interrupted(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 3:
            time.sleep(0.2)
        return double(row)

    tell(monkeypatch, 1.0, costs=learned_costs(1e-5, 1e-5))
    sums = Sums()
    _, report = run(task(interrupted, learned=sums), batch(100))
    assert report["function_s"] > 0.2
    assert sums.value[0, :, 1].sum() < 0.05


def test_a_failing_function_names_itself_and_the_row() -> None:
    """Whoever reads the query's exception knows which function, which key, and what went wrong."""

    def brittle(row: dict[str, Any]) -> dict[str, Any]:
        return {"id": row["id"], "double": 1 // (row["id"] - 7)}

    message = "operator brittle: the function failed on a row with kind = 1: ZeroDivisionError"
    with pytest.raises(OperatorError, match=message):
        run(task(brittle), batch())


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"id": 1}, "a row without 'double'; it must give None or a dict with id, double"),
        (5, "gave a int; it must give None or a dict"),
        ({"id": 1, "double": "many"}, "column 'double' of the result does not fit its type int64"),
        ({"id": 2**70, "double": 1}, "column 'id' of the result does not fit its type int64"),
    ],
)
def test_a_result_that_does_not_fit_is_named(result: Any, message: str) -> None:
    """The text says what came, in which column, and what is asked for."""
    with pytest.raises(OperatorError, match=message):
        run(task(lambda row: result if row["id"] == 5 else double(row)), batch(10))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_late_rows_go_first(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows too old for their goal stay with the keep floor, all others with theirs; weights tell which is which."""
    rows = batch(utility=np.ones(ROWS))
    tell(monkeypatch, 0.5, costs=learned_costs(1e-4, 1e-4), keep_floor=0.1, late_before_s=1000.0 + ROWS // 2)
    kept, report = run(task(strategy=strategy), rows)
    late = kept.column("id").to_numpy() < ROWS // 2
    weights = kept.column("weight").to_numpy()
    assert report["late_rows"] == ROWS // 2
    assert report["kept_late_rows"] == late.sum() == pytest.approx(0.1 * ROWS / 2, rel=0.3)
    assert (~late).sum() == pytest.approx(0.5 * ROWS / 2, rel=0.1)
    assert weights[late] == pytest.approx(10.0)
    assert weights[~late].sum() == pytest.approx(ROWS / 2, rel=0.1)
    assert report["kept_late_work"] / report["late_work"] == pytest.approx(late.sum() / (ROWS / 2))


def test_no_row_is_late_while_everything_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment counts only while rows must go; a row without an arrival is never late."""
    tell(monkeypatch, 1.0, late_before_s=5000.0, everything=True)
    assert run(task(), batch(10))[1]["late_rows"] == 0
    rows = batch(10)
    holes = pa.array([None, *rows.column(ARRIVAL).to_pylist()[1:]], pa.timestamp("us", tz="UTC"))
    rows = rows.set_column(rows.schema.get_field_index(ARRIVAL), ARRIVAL, holes)
    tell(monkeypatch, 0.5, late_before_s=1005.0)
    assert run(task(), rows)[1]["late_rows"] == 4


def ends_early(row: dict[str, Any]) -> dict[str, Any]:
    """A function that leaks the end of an iterator."""
    if row["id"] == 3:
        return next(iter(()))
    return {"id": row["id"]}


def test_a_function_that_leaks_the_end_of_an_iterator_is_named() -> None:
    """StopIteration must not pass for the end of the rows: rows behind it would be lost without a word."""
    with pytest.raises(OperatorError, match="kind = 1: StopIteration"):
        run(task(ends_early), batch(10))
