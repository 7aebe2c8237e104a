"""What is found behind guards, on plans written by hand as Spark writes them."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidGuardError
from penstock.spark.internals import PlanNode
from penstock.spark.plan_check import PlanReport, check_plan

SOURCE = PlanNode("StreamingRelation", "StreamingRelation", "offset#1L, key#2L, value#3")


def guarded(number: int = 1, *, first: int = 1) -> PlanNode:
    """A guard with its weight, whose columns are numbered from ``first``."""
    columns = f"offset#{first}L, key#{first + 1}L, value#{first + 2}"
    metrics = PlanNode("CollectMetrics", f"CollectMetrics penstock.guard.{number}, [count(1) AS n#90]", columns,
                       (PlanNode("StreamingRelation", "StreamingRelation", columns),))  # fmt: skip
    kept = PlanNode("Filter", "Filter (draw < 1.0)", columns, (metrics,))
    weight = f"(1.0 / ratio) AS weight#{first + 3}"
    return PlanNode("Project", f"Project [{columns}, {weight}]", f"{columns}, weight#{first + 3}", (kept,))


def found(node: PlanNode, **keys: str | None) -> PlanReport:
    return check_plan(node, {f"penstock.guard.{name[1:]}": key for name, key in keys.items()})


def over(name: str, text: str, *children: PlanNode, output: str = "") -> PlanNode:
    return PlanNode(name, f"{name} {text}", output or children[0].output, children)


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("[key#2L], [key#2L, sum(weight#4) AS count#10]", []),
        ("[key#2L], [key#2L, count(1) AS count#10L]", ["count()"]),
        ("[key#2L], [key#2L, sum(weight#4) AS n#10, max(value#3) AS m#11]", ["max()"]),
        ("[key#2L], [key#2L, avg(value#3) AS a#10]", ["avg()"]),
    ],
)
def test_aggregates_without_weights_are_warned_of(text: str, operators: list[str]) -> None:
    """Those that use the weight are right; the others are of the kept rows only."""
    report = found(over("Aggregate", text, guarded(), output="key#2L, count#10"), g1=None)
    assert [each.operator for each in report.warnings] == operators
    assert not report.refusals


ERROR_OF_ROWS = "sqrt(sum((weight#4 * (weight#4 - 1.0)))) AS count_error#11"
ERROR_OF_VALUES = "sqrt(sum((CASE WHEN a THEN weight#4 END * (CASE WHEN a THEN weight#4 END - 1.0)))) AS sum_error#11"


@pytest.mark.parametrize("error", [ERROR_OF_ROWS, ERROR_OF_VALUES])
def test_intervals_over_rows_behind_a_guard_with_a_key_are_warned_of(error: str) -> None:
    """Rows of a key were drawn together; also where only one of two sides, or of two joined ones, has a key."""
    text = f"[], [sum(weight#4) AS count#10, {error}]"
    assert found(over("Aggregate", text, guarded(), output="count#10"), g1=None).findings == ()
    assert found(over("Aggregate", "[], [sum(weight#4) AS n#10]", guarded(), output="n#10"), g1="key").findings == ()
    union = over("Union", "false, false", guarded(), guarded(2, first=21))
    join = over("Join", "Inner, (key#2L = key#22L)", guarded(), guarded(2, first=21), output="key#2L, weight#4")
    for below, keys in ((guarded(), ("key",)), (union, (None, "key")), (join, ("key", "key"))):
        named = {f"g{number}": key for number, key in enumerate(keys, 1)}
        report = found(over("Aggregate", text, below, output="count#10"), **named)
        assert [each.operator for each in report.warnings] == ["count, sum or avg of rows"]
        assert "count_by_key or sum_by_key" in report.warnings[0].remedy
        assert not report.refusals


def test_weights_are_followed_through_other_names() -> None:
    """A weight that was renamed, and a result made of it, are still weights."""
    renamed = over("Project", "[key#2L, weight#4 AS w#7]", guarded(), output="key#2L, w#7")
    by_key = over("Aggregate", "[key#2L], [key#2L, sum(w#7) AS n#8]", renamed, output="key#2L, n#8")
    assert found(over("Aggregate", "[], [sum(n#8) AS total#9]", by_key, output="total#9"), g1=None).findings == ()
    lost = over("Aggregate", "[], [count(1) AS total#9L]", by_key, output="total#9L")
    assert [each.operator for each in found(lost, g1=None).findings] == ["count()"]


@pytest.mark.parametrize("name", ["Deduplicate", "DeduplicateWithinWatermark"])
def test_duplicates_behind_a_plain_guard_are_refused(name: str) -> None:
    """One kept row of several stands for the value with the weight of a row; with the guard's key it is only warned."""
    node = over(name, "[key#2L]", guarded())
    refused = found(node, g1=None)
    assert [each.operator for each in refused.refusals] == ["dropDuplicates"]
    with pytest.raises(InvalidGuardError, match=r"dropDuplicates behind a guard.*give the guard the key"):
        refused.require()
    keyed = found(node, g1="key")
    assert (len(keyed.refusals), len(keyed.warnings)) == (0, 1)
    assert len(found(node, g1="value").refusals) == 1


def test_distinct_counts_are_warned_of() -> None:
    """Exact or a sketch, they are lower limits; with the guard's key they count the keys that stayed."""
    for function in ("count(distinct key#2L)", "approx_count_distinct(key#2L, 0.05, 0, 0)"):
        node = over("Aggregate", f"[], [{function} AS n#9L]", guarded(), output="n#9L")
        assert "lower limit" in found(node, g1=None).warnings[0].problem
        assert "keys that stayed" in found(node, g1="key").warnings[0].problem


def test_joins_of_guarded_sides_need_the_same_key() -> None:
    """Both guards with the join's column as key are right; anything else is refused."""

    def join(kind: str, on: str) -> PlanNode:
        return over("Join", f"{kind}, {on}", guarded(1), guarded(2, first=21), output="key#2L, weight#4, weight#24")

    same = "(key#2L = key#22L)"
    assert found(join("Inner", same), g1="key", g2="key").findings == ()
    assert len(found(join("Inner", same), g1="key", g2=None).refusals) == 1
    assert len(found(join("Inner", "(offset#1L = offset#21L)"), g1="key", g2="key").refusals) == 1
    assert [each.operator for each in found(join("LeftOuter", same), g1="key", g2="key").warnings] == ["LeftOuter join"]


def test_joins_with_one_guarded_side() -> None:
    """A guarded stream with a table is right; partners that were dropped must not look as if they never were."""
    table = PlanNode("Relation", "Relation", "key#42L")
    on = "(key#2L = key#42L)"
    for kind, refusals in (("Inner", 0), ("LeftOuter", 0), ("LeftAnti", 0), ("RightOuter", 1), ("FullOuter", 1)):
        assert len(found(over("Join", f"{kind}, {on}", guarded(), table), g1=None).refusals) == refusals
    assert len(found(over("Join", f"LeftOuter, {on}", table, guarded()), g1=None).refusals) == 1
    assert len(found(over("Join", f"LeftAnti, {on}", table, guarded()), g1=None).refusals) == 1


@pytest.mark.parametrize(
    ("name", "text", "verdict"),
    [
        ("FlatMapGroupsInPandas", "[value#3], f(), [out#50]", "warn"),
        ("TransformWithStateInPySpark", "f(), [value#3]", "warn"),
        ("GlobalLimit", "5", "warn"),
        ("Generate", "explode(words#5), [word#6]", "warn"),
        ("Window", "[row_number()], [key#2L]", "refuse"),
        ("Filter", "(key#2L > 3)", None),
        ("MapInArrow", "f(offset#1L), [a#50]", None),
        ("EventTimeWatermark", "timestamp#3, 5 seconds", None),
    ],
)
def test_each_operator_has_its_verdict(name: str, text: str, verdict: str | None) -> None:
    """Behind a plain guard; without any guard nothing is said."""
    report = found(over(name, text, guarded()), g1=None)
    assert [each.verdict for each in report.findings] == ([] if verdict is None else [verdict])
    assert found(over(name, text, SOURCE)).findings == ()


def test_grouped_functions_behind_the_guard_of_their_key_are_right() -> None:
    """All rows of a key are there, or none."""
    node = over("FlatMapGroupsInPandas", "[key#2L], f(), [out#50]", guarded())
    assert found(node, g1="key").findings == ()


def test_unions_need_weights_on_both_sides() -> None:
    """A side without a guard is right with weights of one, and warned of without."""
    right = PlanNode(
        "Project",
        "Project [offset#1L, key#2L, value#3, 1.0 AS weight#60]",
        "offset#1L, key#2L, value#3, weight#60",
        (SOURCE,),
    )
    other = PlanNode(
        "Project", "Project [offset#1L, key#2L, value#3, price#61]", "offset#1L, key#2L, value#3, price#61", (SOURCE,)
    )
    assert found(over("Union", "false, false", guarded(), right), g1=None).findings == ()
    assert [each.operator for each in found(over("Union", "false, false", guarded(), other), g1=None).findings] == [
        "union"
    ]


def test_a_second_guard_on_the_way_is_refused() -> None:
    """Its weights do not know of the rows that the first has dropped."""
    second = PlanNode("CollectMetrics", "CollectMetrics penstock.guard.2, [count(1) AS n#91]", "key#2L", (guarded(),))
    assert [each.operator for each in found(second, g1=None, g2=None).refusals] == ["guard"]
