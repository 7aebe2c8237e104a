"""What an operator behind a guard makes of rows of which some were dropped: right, doubtful, or wrong.

The plan of a query is looked at once, when it starts. Columns are followed by the numbers that Spark gives them: which
carry weights, which carry the key of a guard. For each operator behind a guard there is a finding:

- *refuse*: its result cannot be made right. A query that is started with ``pen.govern(...).start()`` does not start,
  with the operator and the remedy in the error; of any other query the guards keep everything, and the log says why.
- *warn*: its result is of the kept rows alone, or its interval too narrow. The log says so; rows are dropped.

All else is right: filters, projections, row functions, joins with tables, aggregates of :mod:`penstock.functions` over
rows or, behind a guard with a key, over keys. What ``foreachBatch`` does to its frame is not in the plan, and not
looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.errors import InvalidGuardError
from penstock.model.decision import PlanFinding
from penstock.spark import internals
from penstock.spark.collector import GUARD_PREFIX
from penstock.spark.guard import guard_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.model import QueryName
    from penstock.spark.internals import JavaObject, PlanNode

_COLUMN = re.compile(r"([^\s#(),\[\]]+)#(\d+)")
_ALIAS = re.compile(r" AS .+?#(\d+)L?(?:-T\d+ms)?$")
_PLAIN_ALIAS = re.compile(r"^[^\s#()]+#(\d+)L?(?:-T\d+ms)? AS .+?#(\d+)L?$")
_EQUAL = re.compile(r"#(\d+)L?(?:-T\d+ms)? (?:=|<=>) [^\s#()]+#(\d+)")
_GUARD = re.compile(rf"{re.escape(GUARD_PREFIX)}(?:\.[a-z_]+)*\.\d+")
_NAMED_WEIGHT = re.compile(rf"({_GUARD.pattern})#\d+ AS weight#\d+")
_AGGREGATES = (
    "count", "count_if", "sum", "avg", "mean", "min", "max", "first", "last", "any_value", "median", "mode",
    "collect_list", "collect_set", "array_agg", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop",
    "var_samp", "skewness", "kurtosis", "corr", "covar_pop", "covar_samp", "percentile", "percentile_approx",
    "approx_percentile", "max_by", "min_by", "bool_and", "bool_or", "every", "some", "histogram_numeric",
)  # fmt: skip
_AGGREGATE = re.compile(rf"\b({'|'.join(_AGGREGATES)})\(")
_DISTINCT = re.compile(r"\b\w+\(distinct |\bapprox_count_distinct\(|\bhll_sketch_agg\(|\bcount_min_sketch\(")
_STATEFUL = re.compile(
    r"FlatMapGroups|FlatMapCoGroups|TransformWithState|MapGroups|CoGroup|AggregateInPandas|ArrowAggregate"
)
_DEDUPLICATE = ("Deduplicate", "DeduplicateWithinWatermark", "Distinct")
_INTERVAL = re.compile(r"#(\d+)(?: END)? - 1\.0\)")
"""The variance factor of an interval: a weight less one, of all rows or of those with a value."""
_USE_FUNCTIONS = "use count, sum or avg of penstock.functions, which count what was dropped too"
_USE_BY_KEY = (
    "group by the key with count_by_key or sum_by_key of penstock.functions, and take totals over keys with sum and "
    "ratio and the column that ends in '_weight'"
)
_USE_KEY = "give the guard the key of the operator (key=...), or place the guard behind it"


class Verdict(StrEnum):
    """What an operator behind a guard gives."""

    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Finding:
    """One operator that is not simply right behind a guard."""

    verdict: Verdict
    operator: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.operator} behind a guard: {self.problem}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What a plan has behind its guards."""

    guards: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """Operators whose results cannot be made right."""
        return tuple(each for each in self.findings if each.verdict is Verdict.REFUSE)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Operators whose results are not what they seem."""
        return tuple(each for each in self.findings if each.verdict is Verdict.WARN)

    def decisions(self, query: QueryName, cause: str) -> list[PlanFinding]:
        """For the log."""
        told = []
        for each in self.findings:
            reason = f"the guards keep everything: {each}" if each.verdict is Verdict.REFUSE else str(each)
            told.append(PlanFinding(query=query, cause=cause, reason=reason, operator=each.operator))
        return told

    def require(self) -> None:
        """Raise where anything is refused."""
        if self.refusals:
            raise InvalidGuardError("; ".join(map(str, self.refusals)))


@dataclass(frozen=True, slots=True)
class _Flow:
    """What comes out of an operator.

    ``weights`` and ``keys`` are the numbers of columns that carry the weights of rows, and the key of every guard on
    the way; ``is_sampled`` says that rows themselves are missing, and no longer that results were estimated.
    ``is_keyed`` says that all of them were drawn by keys, ``has_keyed`` that some were.
    """

    is_sampled: bool = False
    is_keyed: bool = False
    has_keyed: bool = False
    weights: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()


def check_execution(execution: JavaObject) -> PlanReport:
    """Look at the plan of a query that has created its sources."""
    return check_plan(internals.plan_of_execution(execution), guard_keys)


def check_writer(writer: DataStreamWriter) -> PlanReport:
    """Look at the plan of a query that is about to start."""
    plan = internals.plan_of_writer(writer)
    return PlanReport((), ()) if plan is None else check_plan(plan, guard_keys)


def check_plan(plan: PlanNode, keys: Mapping[str, str | None]) -> PlanReport:
    """Look at a plan.

    Parameters
    ----------
    plan
        Its root.
    keys
        Keys of guards by the names of their observations; None for one without a key.
    """
    look = _Look(keys)
    look.flow(plan)
    return PlanReport(tuple(look.guards), tuple(look.findings))


class _Look:
    def __init__(self, guard_keys: Mapping[str, str | None]) -> None:
        self._guard_keys = guard_keys
        self.guards: list[str] = []
        self.findings: list[Finding] = []

    def flow(self, node: PlanNode) -> _Flow:
        below = [self.flow(child) for child in node.children]
        guard = _guard_name(node)
        if guard is not None:
            return self._guard(node, guard, below)
        if not any(each.is_sampled or each.weights for each in below):
            return _Flow()
        if node.name == "Join":
            return self._join(node, below)
        if node.name == "Union":
            return self._union(node, below)
        if node.name == "Aggregate":
            return self._aggregate(node, below[0])
        merged = _followed(node, below)
        if merged.is_sampled:
            self._judge(node, merged)
        return merged

    def _guard(self, node: PlanNode, name: str, below: Sequence[_Flow]) -> _Flow:
        if any(each.is_sampled for each in below):
            self._refuse("guard", "rows were dropped before it, and its weights do not know of them", "use one guard")
        self.guards.append(name)
        key = self._guard_keys.get(name)
        keys = frozenset(number for column, number in _columns(node.output) if column == key)
        weights = frozenset(number for column, number in _columns(node.output) if column == "weight")
        is_keyed = key is not None
        return _Flow(is_sampled=True, is_keyed=is_keyed, has_keyed=is_keyed, weights=weights, keys=keys)

    def _judge(self, node: PlanNode, flow: _Flow) -> None:
        name = node.name
        if name in _DEDUPLICATE:
            self._deduplicate(node, flow)
        elif _STATEFUL.search(name):
            if not (flow.is_keyed and flow.keys & _numbers(node.text)):
                problem = "its function sees the kept rows of a group only"
                self._warn(name, problem, f"{_USE_KEY}, and count with the column 'weight'")
        elif name in ("GlobalLimit", "LocalLimit", "Tail"):
            if name != "LocalLimit":
                self._warn("limit", "it takes from the kept rows only", "place it behind an aggregate")
        elif name == "Window":
            self._refuse("window function", "ranks and running totals are of the kept rows only", _USE_FUNCTIONS)
        elif name == "Generate":
            problem = "rows made of one row were kept together, and intervals are too narrow"
            self._warn("explode", problem, "count before it, or place the guard behind it")

    def _deduplicate(self, node: PlanNode, flow: _Flow) -> None:
        on = _numbers(node.text) if node.name != "Distinct" else _numbers(node.output)
        if flow.is_keyed and flow.keys & on:
            problem = "a value that was dropped in one batch and kept in a later one has the later one's weight"
            self._warn("dropDuplicates", problem, "place the guard behind it where keep ratios change much")
        else:
            problem = "one kept row of several stands for the value, with the weight of a row"
            self._refuse("dropDuplicates", problem, _USE_KEY)

    def _aggregate(self, node: PlanNode, flow: _Flow) -> _Flow:
        items = _items(node.text)
        for item in items:
            if _DISTINCT.search(item):
                self._distinct(item, flow)
            elif (found := _AGGREGATE.search(item)) and not _numbers(item) & flow.weights:
                self._warn(f"{found.group(1)}()", "it is of the kept rows only", _USE_FUNCTIONS)
            elif flow.has_keyed and flow.weights & {int(number) for number in _INTERVAL.findall(item)}:
                problem = "rows of a key were drawn together, and the intervals take each for drawn by itself"
                self._warn("count, sum or avg of rows", problem, _USE_BY_KEY)
        if flow.is_sampled and not any(_AGGREGATE.search(item) or _DISTINCT.search(item) for item in items):
            self._deduplicate(node, flow)
        # What comes out are results, no rows: those of weights carry them on, to totals over keys and the like.
        return _Flow(weights=_derived(items, flow.weights), keys=flow.keys)

    def _distinct(self, item: str, flow: _Flow) -> None:
        if flow.is_keyed and flow.keys & _numbers(item):
            problem = "it counts the keys that stayed"
            self._warn("distinct count", problem, "sum the column 'count_weight' of penstock.functions.count_by_key")
        elif flow.is_sampled:
            problem = "values whose rows were all dropped are missing, so it is a lower limit"
            self._warn("distinct count", problem, "give the guard the counted column as key, or count before it")

    def _join(self, node: PlanNode, below: Sequence[_Flow]) -> _Flow:
        left, right = below
        kind = node.text.removeprefix("Join ").split(",")[0].strip()
        on = {frozenset(map(int, pair)) for pair in _EQUAL.findall(node.text)}
        is_on_keys = any(frozenset((a, b)) in on for a in left.keys for b in right.keys)
        both_keyed = left.is_keyed and right.is_keyed
        if left.is_sampled and right.is_sampled:
            if not (both_keyed and is_on_keys):
                problem = "rows whose partners were dropped are missing, and no weight tells how many"
                remedy = "give both guards the join's column as key, and use penstock.functions.joined_weight"
                self._refuse("join of two guarded sides", problem, remedy)
            elif kind not in ("Inner", "LeftSemi"):
                problem = (
                    "a partner that came in a batch with a smaller keep ratio is null as if it had never been there"
                )
                self._warn(f"{kind} join", problem, "use an inner join, or take nulls for unknown")
        elif left.is_sampled or right.is_sampled:
            self._join_one_side(kind, left_is_sampled=left.is_sampled)
        return _followed(node, below)

    def _join_one_side(self, kind: str, *, left_is_sampled: bool) -> None:
        is_preserved = kind in (
            ("Inner", "LeftOuter", "LeftSemi", "LeftAnti") if left_is_sampled else ("Inner", "RightOuter")
        )
        if not is_preserved:
            problem = "partners that were dropped look as if they had never been there"
            self._refuse(f"{kind} join", problem, "place the guard on the other side, or behind the join")

    def _union(self, node: PlanNode, below: Sequence[_Flow]) -> _Flow:
        outputs = [_columns(child.output) for child in node.children]
        places = [{place for place, (_, number) in enumerate(columns) if number in flow.weights}
                  for columns, flow in zip(outputs, below, strict=True)]  # fmt: skip
        shared = set.union(*places)
        for flow, child in zip(below, node.children, strict=True):
            if (
                not flow.is_sampled
                and not flow.weights
                and shared
                and " 1.0 AS " not in f" {child.text}".replace("[", " ")
            ):
                problem = "the side without a guard has no weights of one"
                self._warn("union", problem, "add a column 'weight' of 1.0 to it")
        mine = _columns(node.output)
        return _Flow(
            is_sampled=any(each.is_sampled for each in below),
            is_keyed=all(each.is_keyed for each in below),
            has_keyed=any(each.has_keyed for each in below),
            weights=frozenset(mine[place][1] for place in shared if place < len(mine)),
            keys=frozenset(
                mine[place][1]
                for columns, flow in zip(outputs, below, strict=True)
                for place, (_, number) in enumerate(columns)
                if number in flow.keys and place < len(mine)
            ),
        )

    def _warn(self, operator: str, problem: str, remedy: str) -> None:
        self._add(Finding(Verdict.WARN, operator, problem, remedy))

    def _refuse(self, operator: str, problem: str, remedy: str) -> None:
        self._add(Finding(Verdict.REFUSE, operator, problem, remedy))

    def _add(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)


def _guard_name(node: PlanNode) -> str | None:
    """The guard that ends with an operator: its counts, or the projection that gives its weights their name."""
    if node.name == "Project":
        named = _NAMED_WEIGHT.search(node.text)
        return None if named is None else named.group(1)
    if node.name != "CollectMetrics":
        return None
    found = _GUARD.search(node.text.split("[")[0])
    return None if found is None else found.group(0)


def _followed(node: PlanNode, below: Sequence[_Flow]) -> _Flow:
    """What comes out of an operator that hands its columns on, some of them under other numbers."""
    weights = frozenset().union(*(each.weights for each in below))
    keys = frozenset().union(*(each.keys for each in below))
    is_sampled = any(each.is_sampled for each in below)
    if node.name in ("Project", "Expand"):
        items = _items(node.text)
        if is_sampled and not weights:
            weights = frozenset(number for column, number in _columns(node.output) if column == "weight")
        weights = _derived(items, weights)
        renamed = (found for item in items if (found := _PLAIN_ALIAS.match(item)))
        keys |= frozenset(int(found.group(2)) for found in renamed if int(found.group(1)) in keys)
    elif is_sampled and not weights:
        # An operator with its function gives the weight as a column of its own.
        weights = frozenset(number for column, number in _columns(node.output) if column == "weight")
    sampled = [each for each in below if each.is_sampled]
    return _Flow(
        is_sampled=is_sampled,
        is_keyed=bool(sampled) and all(each.is_keyed for each in sampled),
        has_keyed=any(each.has_keyed for each in sampled),
        weights=weights,
        keys=keys,
    )


def _derived(items: Sequence[str], weights: frozenset[int]) -> frozenset[int]:
    """Columns that are made of weights, and those that already were."""
    made = (found for item in items if (found := _ALIAS.search(item)) and _numbers(item) & weights)
    return weights | frozenset(int(found.group(1)) for found in made)


def _columns(text: str) -> list[tuple[str, int]]:
    """Names and numbers of the columns in a text.

    Examples
    --------
    >>> _columns("offset#12L, timestamp#13-T5000ms, weight#40")
    [('offset', 12), ('timestamp', 13), ('weight', 40)]
    """
    return [(name, int(number)) for name, number in _COLUMN.findall(text)]


def _numbers(text: str) -> frozenset[int]:
    return frozenset(number for _, number in _columns(text))


def _items(text: str) -> list[str]:
    """The entries of the last list of an operator's arguments.

    Examples
    --------
    >>> _items("Aggregate [key#1L], [key#1L, sum((weight#4 * 2.0)) AS twice#9, array(1, 2) AS a#10]")
    ['key#1L', 'sum((weight#4 * 2.0)) AS twice#9', 'array(1, 2) AS a#10']
    """
    start = text.find("], [")
    body = text[start + 3 :] if start >= 0 else text[text.find("[") :]
    items, depth, current = [], 0, ""
    for letter in body[1:]:
        depth += (letter in "([") - (letter in ")]")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            items.append(current.strip())
            current = ""
        else:
            current += letter
    return [*items, current.strip()]
