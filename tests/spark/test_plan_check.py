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


@pytest.mark.parametrize(
    ("condition", "refusals"),
    [
        ("((key#2L = key#22L) AND (value#3 > 1.0))", 0),
        ("((value#3 > 1.0) AND ((key#2L <=> key#22L) AND (value#3 = value#23)))", 0),
        ("((key#2L = key#22L) OR (value#3 = value#23))", 1),
        ("NOT (key#2L = key#22L)", 1),
        ("((key#2L = key#22L) = (value#3 = value#23))", 1),
        ("CASE WHEN (value#3 = 1.0) THEN (key#2L = key#22L) ELSE true END", 1),
        ("(-key#2L = key#22L)", 1),
    ],
)
def test_only_what_a_join_asks_of_every_pair_makes_its_keys_equal(condition: str, refusals: int) -> None:
    """An equality in an "or" or a "not" leaves pairs of which one side was drawn without the other."""
    columns = "key#2L, weight#4, weight#24"
    join = over("Join", f"Inner, {condition}", guarded(1), guarded(2, first=21), output=columns)
    assert len(found(join, g1="key", g2="key").refusals) == refusals


def test_joins_with_one_guarded_side() -> None:
    """A guarded stream with a table is right; partners that were dropped must not look as if they never were."""
    table = PlanNode("Relation", "Relation", "key#42L")
    on = "(key#2L = key#42L)"
    for kind, refusals in (
        ("Inner", 0),
        ("LeftOuter", 0),
        ("LeftAnti", 0),
        ("RightOuter", 1),
        ("FullOuter", 1),
        ("Cross", 0),
    ):
        assert len(found(over("Join", f"{kind}, {on}", guarded(), table), g1=None).refusals) == refusals
    assert len(found(over("Join", f"LeftOuter, {on}", table, guarded()), g1=None).refusals) == 1
    assert len(found(over("Join", f"LeftAnti, {on}", table, guarded()), g1=None).refusals) == 1


@pytest.mark.parametrize(
    ("name", "text", "verdict"),
    [
        ("FlatMapGroupsInPandas", "[value#3], f(key#2L, value#3)#49, [out#50]", "warn"),
        ("TransformWithStateInPySpark", "f(key#2L, value#3)#49, 1, [out#50], Update, NoTime", "warn"),
        ("GlobalLimit", "5", "warn"),
        ("Generate", "explode(words#5), [word#6]", "warn"),
        ("Window", "[row_number()], [key#2L]", "refuse"),
        ("Filter", "(key#2L > 3)", None),
        ("MapInArrow", "f(offset#1L), [a#50]", None),
        ("EventTimeWatermark", "timestamp#3, 5 seconds", None),
        ("LateralJoin", "lateral-subquery#58 [key#2L], Inner", "warn"),
        ("Except", "false", "refuse"),
        ("Except All", "true", "warn"),
        ("Intersect", "false", "refuse"),
        ("Intersect All", "true", "warn"),
        ("SomethingNew", "key#2L", "warn"),
        ("WriteToMicroBatchDataSource", "sink", None),
    ],
)
def test_each_operator_has_its_verdict(name: str, text: str, verdict: str | None) -> None:
    """Behind a plain guard; without any guard nothing is said."""
    report = found(over(name, text, guarded()), g1=None)
    assert [each.verdict for each in report.findings] == ([] if verdict is None else [verdict])
    assert found(over(name, text, SOURCE)).findings == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FlatMapGroupsInPandas", "[{}], f(key#2L, value#3)#49, [out#50]"),
        ("FlatMapGroupsInPandasWithState", "f(key#2L, value#3)#49, [{}], [state#50L], [StructField(n)], Update"),
    ],
)
def test_grouped_functions_behind_the_guard_of_their_key_are_right(name: str, text: str) -> None:
    """All rows of a key are there, or none; that the function reads the key is not enough."""
    assert found(over(name, text.format("key#2L"), guarded()), g1="key").findings == ()
    assert [each.operator for each in found(over(name, text.format("value#3"), guarded()), g1="key").warnings] == [name]


def test_a_function_with_state_groups_by_the_first_columns_of_its_rows() -> None:
    """Its text says only how many they are."""
    name, text = "TransformWithStateInPySpark", "f(key#2L, value#3)#49, 1, [out#50], Update, NoTime"
    for columns, operators in (("key#2L, value#3, weight#4", []), ("value#3, key#2L, weight#4", [name])):
        grouped = over("Project", f"[{columns}]", guarded(), output=columns)
        assert [each.operator for each in found(over(name, text, grouped), g1="key").findings] == operators


def by_key(column: str, grouping: str, below: PlanNode) -> PlanNode:
    """Counts by a key as penstock.functions writes them."""
    draw = f"(cast(shiftrightunsigned(xxhash64(20077, {column}, 42), 11) as double) * 1.1102230246251565E-16)"
    items = (
        "sum(CASE WHEN isnotnull(weight#4) THEN 1.0 END) AS count#10, "
        "coalesce(try_divide(sum((weight#4 * 1.0)), sum(1.0)), max(weight#4)) AS count_weight#11, "
        f"((max(CASE WHEN isnotnull(weight#4) THEN {draw} END) * told#5[(16 + 0)]) < 1.0) AS count_complete#12"
    )
    columns = "key#2L, count#10, count_weight#11, count_complete#12"
    return over("Aggregate", f"[{grouping}], [{grouping}, {items}]", below, output=columns)


def test_counts_by_the_key_of_a_guard_are_right() -> None:
    """Grouped by it alone or with others, under another name, and behind a function that gives rows back."""
    renamed = over("Project", "[key#2L AS user id#7L, weight#4]", guarded(), output="user id#7L, weight#4")
    right = over("Project", "[1.0 AS weight#60]", SOURCE, output="offset#1L, key#2L, value#3, weight#60")
    mapped = over("MapInPandas", "f(key#22L)#30, [key#2L, weight#4]", guarded(first=21), output="key#2L, weight#4")
    table = PlanNode("Relation", "Relation", "key#42L")
    joined = over("Join", "LeftOuter, (key#2L = key#42L)", guarded(), table, output="key#2L, weight#4, key#42L")
    for column, grouping, below in (
        ("key#2L", "key#2L", guarded()),
        ("key#2L", "window#8-T5000ms, key#2L", guarded()),
        ("user id#7L", "user id#7L", renamed),
        ("key#2L", "key#2L", mapped),
        ("key#2L", "key#2L", over("Union", "false, false", guarded(), right)),
        ("key#2L", "key#2L", joined),
    ):
        assert found(by_key(column, grouping, below), g1="key").findings == ()


def test_counts_by_key_of_what_two_joined_guards_have_drawn_are_right() -> None:
    """Also where the join has made one column of both keys."""
    pair = over(
        "Join", "Inner, (key#2L = key#22L)", guarded(), guarded(2, first=21), output="key#2L, weight#4, key#22L"
    )
    one = over("Project", "[coalesce(key#2L, key#22L) AS key#9L, weight#4]", pair, output="key#9L, weight#4")
    assert found(by_key("key#9L", "key#9L", one), g1="key", g2="key").findings == ()


def test_a_key_with_blanks_and_brackets_in_its_name_is_followed() -> None:
    """Spark writes names as they are."""
    columns = "offset#1L, users (all)#2L"
    metrics = PlanNode("CollectMetrics", "CollectMetrics penstock.guard.1, [count(1) AS n#90]", columns, (SOURCE,))
    guard = PlanNode("Project", f"Project [{columns}, (1.0 / ratio) AS weight#4]", f"{columns}, weight#4", (metrics,))
    assert found(by_key("users (all)#2L", "users (all)#2L", guard), g1="users (all)").findings == ()


def test_counts_by_key_behind_a_plain_guard_are_refused() -> None:
    """They would be of the kept rows, and some of them called complete; so where one guard of two has no key."""
    united = over("Union", "false, false", guarded(), guarded(2, first=21))
    for report, problem, remedy in (
        (
            found(by_key("key#2L", "key#2L", guarded()), g1=None),
            "no keys were drawn but rows",
            "give the guard the key",
        ),
        (found(by_key("key#2L", "key#2L", united), g1="key", g2=None), "every guard", "give every guard that key"),
    ):
        (refused,) = report.findings
        assert (refused.verdict, refused.operator) == ("refuse", "count_by_key or sum_by_key")
        assert problem in refused.problem
        assert remedy in refused.remedy


def test_counts_by_key_in_other_groups_are_refused() -> None:
    """A group of many keys lacks the rows of those that were dropped; totals over levels have such groups, too."""
    for grouping in ("value#3", "cast(key#2L as int)", "key#9L, spark_grouping_id#8L"):
        (refused,) = found(by_key("key#2L", grouping, guarded()), g1="key").refusals
        assert "group by the guard's key" in refused.remedy


def test_counts_by_a_key_of_another_type_are_refused() -> None:
    """Another type has other draws: cast before the counts or in them, or by the function that gives rows back."""
    cast = over("Project", "[cast(key#2L as string) AS key#7, weight#4]", guarded(), output="key#7, weight#4")
    mapped = over("MapInArrow", "f(key#22L)#30, [key#2, weight#4]", guarded(first=21), output="key#2, weight#4")
    for column, grouping, below in (
        ("key#7", "key#7", cast),
        ("cast(key#2L as int)", "key#2L", guarded()),
        ("value#3", "value#3", guarded()),
        ("key#2", "key#2", mapped),
    ):
        (refused,) = found(by_key(column, grouping, below), g1="key").refusals
        assert "not the key as every guard on the way has drawn it" in refused.problem
        assert "change its type before the guard" in refused.remedy


def test_a_union_has_the_keys_that_all_its_guards_have_drawn() -> None:
    """Of guards with different keys it has none: duplicates are refused, grouped functions warned of."""
    union = over("Union", "false, false", guarded(), guarded(2, first=21))
    duplicates = over("Deduplicate", "[key#2L]", union)
    grouped = over("FlatMapGroupsInPandas", "[key#2L], f(key#2L)#49, [out#50]", union)
    assert len(found(duplicates, g1="key", g2="value").refusals) == 1
    assert len(found(duplicates, g1="key", g2="key").refusals) == 0
    assert len(found(grouped, g1="key", g2="value").warnings) == 1
    assert found(grouped, g1="key", g2="key").findings == ()
    assert len(found(by_key("key#2L", "key#2L", union), g1="key", g2="value").refusals) == 1
    assert found(by_key("key#2L", "key#2L", union), g1="key", g2="key").findings == ()


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("try_sum(value#3) AS x#10", "try_sum()"),
        ("try_avg(value#3) AS x#10", "try_avg()"),
        ("product(value#3) AS x#10", "product()"),
        ("listagg(cast(value#3 as string), null, 0, 0) AS x#10", "listagg()"),
        ("bit_or(offset#1L) AS x#10L", "bit_or()"),
        ("regr_slope(value#3, cast(offset#1L as double)) AS x#10", "regr_slope()"),
        ("cast(of_mine(value#3)#31 as int) AS x#10", "of_mine()"),
        ("listagg(key#2L, null, 0, 0) AS x#10", "listagg()"),
    ],
)
def test_whatever_is_made_of_rows_is_an_aggregate(item: str, name: str) -> None:
    """By no list of names: alone it is not taken for duplicates, and beside a count that is right it is warned of."""
    for beside in ("", ", sum(weight#4) AS count#11"):
        report = found(over("Aggregate", f"[key#2L], [key#2L, {item}{beside}]", guarded(), output="x#10"), g1=None)
        assert [each.operator for each in report.warnings] == [name]
        assert not report.refusals


def test_what_is_made_of_groups_is_no_aggregate() -> None:
    """Groups alone are distinct values; functions of them beside a count are as right as they are."""
    grouping = "key#2L, (value#3 % 3.0), window#8-T5000ms"
    items = (
        "key#2L AS key#12L, (value#3 % 3.0) AS v#13, ((value#3 % 3.0) + key#2L) AS w#14, window#8-T5000ms.start AS s#15"
    )
    alone = over("Aggregate", f"[{grouping}], [{items}, 3 AS three#16]", guarded(), output="key#12L")
    assert [each.operator for each in found(alone, g1=None).refusals] == ["dropDuplicates"]
    beside = over("Aggregate", f"[{grouping}], [{items}, sum(weight#4) AS n#17]", guarded(), output="key#12L, n#17")
    assert found(beside, g1=None).findings == ()


def test_weights_are_followed_through_functions_from_rows_to_rows() -> None:
    """Such a function gives the weight as a column of its own."""
    mapped = over("MapInPandas", "f(weight#4)#30, [key#40L, weight#41]", guarded(), output="key#40L, weight#41")
    right = over("Aggregate", "[key#40L], [key#40L, sum(weight#41) AS n#42]", mapped, output="key#40L, n#42")
    assert found(right, g1=None).findings == ()


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


def test_operators_that_nobody_knows_are_warned_of_by_name() -> None:
    """What a later Spark brings is not taken for right without a word."""
    (unknown,) = found(over("SomethingNew", "key#2L", guarded()), g1="key").findings
    assert unknown.operator == "SomethingNew"
    assert "does not know" in unknown.problem
    assert "place the guard behind it" in unknown.remedy


def test_rows_less_those_of_a_table_are_judged_as_duplicates_are() -> None:
    """Of rows that are alike one is left; a guard on the right side makes rows look as if they were not there."""
    table = PlanNode("Relation", "Relation", "offset#41L, key#42L, value#43")
    less = over("Except", "false", guarded(), table)
    (refused,) = found(less, g1=None).refusals
    assert (refused.operator, refused.problem.split(",")[0]) == (
        "subtract",
        "one kept row of several stands for the value",
    )
    assert [each.verdict for each in found(less, g1="key").findings] == ["warn"]
    (refused,) = found(over("Except All", "true", table, guarded()), g1="key").refusals
    assert "on its right side" in refused.problem


def test_what_is_behind_a_named_query_is_looked_at() -> None:
    """Its rows come out where its name is read, under other numbers."""
    columns = "offset#31L, key#32L, value#33, weight#34"
    named = over("CTERelationDef", "7, false", guarded())
    read = PlanNode("CTERelationRef", f"CTERelationRef 7, true, [{columns}], true, false", columns)
    twice = over("WithCTE", "", named, over("Deduplicate", "[key#32L]", read))
    assert [each.verdict for each in found(twice, g1=None).findings] == ["refuse"]
    assert [each.verdict for each in found(twice, g1="key").findings] == ["warn"]
    right = over("Aggregate", "[key#32L], [key#32L, sum(weight#34) AS n#40]", read, output="key#32L, n#40")
    assert found(over("WithCTE", "", named, right), g1=None).findings == ()
