"""What an operator behind a guard makes of rows of which some were dropped: right, doubtful, or wrong.

The plan of a query is looked at once, when it starts. Columns are followed by the numbers that Spark gives them: which
carry weights, which carry the key of a guard. For each operator behind a guard there is a finding:

- *refuse*: its result cannot be made right. A query that is started with ``pen.govern(...).start()`` does not start,
  with the operator and the remedy in the error; of any other query the guards keep everything, and the log says why.
- *warn*: its result is of the kept rows alone, or its interval too narrow, or Penstock does not know the operator. The
  log says so; rows are dropped.

Right are filters, projections, row functions, joins with tables, aggregates of :mod:`penstock.functions` over rows or,
behind a guard with a key, over keys. What ``foreachBatch`` does to its frame is not in the plan, and not
looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.errors import InvalidGuardError
from penstock.model.decision import PlanFinding
from penstock.spark import internals, plan_text
from penstock.spark.guard import guard_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.model import QueryName
    from penstock.spark.internals import JavaObject, PlanNode

_STATEFUL = re.compile(
    r"FlatMapGroups|FlatMapCoGroups|TransformWithState|MapGroups|CoGroup|AggregateInPandas|ArrowAggregate"
)
_DEDUPLICATE = ("Deduplicate", "DeduplicateWithinWatermark", "Distinct")
_FROM_ROWS_TO_ROWS = ("MapInPandas", "MapInArrow", "PythonMapInArrow")
_SET_OPERATIONS = {
    "Except": "subtract",
    "Except All": "exceptAll",
    "Intersect": "intersect",
    "Intersect All": "intersectAll",
}
_NAMED_QUERIES = ("WithCTE", "CTERelationDef", "CTERelationRef")
_RIGHT = frozenset({
    *_FROM_ROWS_TO_ROWS, "Project", "Filter", "TypedFilter", "Expand", "SubqueryAlias", "View", "PipeOperator",
    "EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "CollectMetrics", "ResolvedHint", "Repartition",
    "RepartitionByExpression", "RebalancePartitions", "Sort", "DeserializeToObject", "SerializeFromObject",
    "MapElements", "MapPartitions", "AppendColumns",
})  # fmt: skip
"""What gives each kept row on, with the weight that it has, or rows that a function of the user's makes of it."""
_SINK = "WriteTo"
_USE_FUNCTIONS = "use count, sum or avg of penstock.functions, which count what was dropped too"
_USE_BY_KEY = (
    "group by the key with count_by_key or sum_by_key of penstock.functions, and take totals over keys with sum and "
    "ratio and the columns that end in '_weight'"
)
_BY_KEY = "count_by_key or sum_by_key"
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
        self._named_queries: dict[int, tuple[str, _Flow]] = {}
        self.guards: list[str] = []
        self.findings: list[Finding] = []

    def flow(self, node: PlanNode) -> _Flow:
        below = [self.flow(child) for child in node.children]
        guard = plan_text.guard_name(node)
        if guard is not None:
            return self._guard(node, guard, below)
        if node.name in _NAMED_QUERIES:
            return self._named_query(node, below)
        if not any(each.is_sampled or each.weights for each in below):
            return _Flow()
        own = {"Join": self._join, "Union": self._union, "Aggregate": self._aggregate}.get(node.name)
        if own is not None:
            return own(node, below)
        merged = _followed(node, below)
        if merged.is_sampled and node.name in _SET_OPERATIONS:
            self._set_operation(node, below, merged)
        elif merged.is_sampled:
            self._judge(node, merged)
        return merged

    def _named_query(self, node: PlanNode, below: Sequence[_Flow]) -> _Flow:
        """What a named query (``WITH``) gives where it is read: its columns in their order, under other numbers."""
        if node.name != "CTERelationRef":
            if node.name == "CTERelationDef":
                self._named_queries[plan_text.first_number(node.text)] = (node.output, below[0])
            return below[-1]  # the named queries come first, then what reads them
        before, flow = self._named_queries.get(plan_text.first_number(node.text), ("", _Flow()))
        had = [number for _, number in plan_text.columns(before)]
        mine = [number for _, number in plan_text.columns(node.output)]
        weights, keys = (
            frozenset(mine[place] for place in _places(had, each) if place < len(mine))
            for each in (flow.weights, flow.keys)
        )
        return replace(flow, weights=weights, keys=keys)

    def _guard(self, node: PlanNode, name: str, below: Sequence[_Flow]) -> _Flow:
        if any(each.is_sampled for each in below):
            self._refuse("guard", "rows were dropped before it, and its weights do not know of them", "use one guard")
        self.guards.append(name)
        key = self._guard_keys.get(name)
        is_keyed = key is not None
        return _Flow(
            is_sampled=True,
            is_keyed=is_keyed,
            has_keyed=is_keyed,
            weights=plan_text.named("weight", node.output),
            keys=plan_text.named(key, node.output),
        )

    def _judge(self, node: PlanNode, flow: _Flow) -> None:
        name = node.name
        if name in _DEDUPLICATE:
            self._deduplicate(node, flow)
        elif _STATEFUL.search(name):
            if not (flow.is_keyed and flow.keys & plan_text.grouping_of(node)):
                problem = "its function sees the kept rows of a group only"
                self._warn(name, problem, f"{_USE_KEY}, and count with the column 'weight'")
        elif name in ("GlobalLimit", "LocalLimit", "Tail", "Offset"):
            if name != "LocalLimit":
                self._warn("limit", "it takes from the kept rows only", "place it behind an aggregate")
        elif name == "Window":
            self._refuse("window function", "ranks and running totals are of the kept rows only", _USE_FUNCTIONS)
        elif name == "Generate":
            problem = "rows made of one row were kept together, and intervals are too narrow"
            self._warn("explode", problem, "count before it, or place the guard behind it")
        elif name == "LateralJoin":
            problem = "rows that it makes of one row were kept together, and intervals are too narrow"
            self._warn("lateral join", problem, "count before it, or place the guard behind it")
        elif name not in _RIGHT and not name.startswith(_SINK):
            problem = "Penstock does not know what it makes of weights, and takes it to give each kept row on"
            self._warn(name, problem, "check its results with and without dropped rows, or place the guard behind it")

    def _set_operation(self, node: PlanNode, below: Sequence[_Flow], flow: _Flow) -> None:
        """Rows less the rows of a table, or those that are in it too: most leave one row of several that are alike."""
        name = _SET_OPERATIONS[node.name]
        if any(each.is_sampled for each in below[1:]):
            problem = "rows that were dropped on its right side look as if they had never been there"
            self._refuse(name, problem, "place the guard behind it")
        elif node.name.endswith("All"):
            problem = "it takes as many rows as the table has, and of the kept rows only"
            self._warn(name, problem, "use a left anti join or a semi join, or place the guard behind it")
        else:
            self._duplicates(name, plan_text.numbers(node.output), flow)

    def _deduplicate(self, node: PlanNode, flow: _Flow) -> None:
        on = plan_text.numbers(node.output if node.name == "Distinct" else node.text)
        self._duplicates("dropDuplicates", on, flow)

    def _duplicates(self, operator: str, on: frozenset[int], flow: _Flow) -> None:
        if flow.is_keyed and flow.keys & on:
            problem = "a value that was dropped in one batch and kept in a later one has the later one's weight"
            self._warn(operator, problem, "place the guard behind it where keep ratios change much")
        else:
            problem = "one kept row of several stands for the value, with the weight of a row"
            self._refuse(operator, problem, _USE_KEY)

    def _aggregate(self, node: PlanNode, below: Sequence[_Flow]) -> _Flow:
        (flow,) = below
        found = plan_text.lists(node.text)
        grouping, items = (found[0] if len(found) > 1 else []), found[-1]
        aggregates = [item for item in items if plan_text.is_aggregate(item, grouping)]
        for item in aggregates:
            if plan_text.is_distinct(item):
                self._distinct(item, flow)
            elif drawn := plan_text.drawn_keys(item):
                self._by_key(drawn, plan_text.plain(grouping), flow)
            elif not plan_text.numbers(item) & flow.weights:
                self._warn(f"{plan_text.aggregate_name(item)}()", "it is of the kept rows only", _USE_FUNCTIONS)
            elif flow.has_keyed and flow.weights & plan_text.interval_weights(item):
                problem = "rows of a key were drawn together, and the intervals take each for drawn by itself"
                self._warn("count, sum or avg of rows", problem, _USE_BY_KEY)
        if flow.is_sampled and not aggregates:
            self._deduplicate(node, flow)
        # What comes out are results, no rows: those of weights carry them on, to totals over keys and the like.
        return _Flow(weights=plan_text.derived(items, flow.weights), keys=plan_text.renamed(items, flow.keys))

    def _by_key(self, drawn: Sequence[int | None], grouping: frozenset[int], flow: _Flow) -> None:
        """Counts by key: of the very key that was drawn, and all rows of a group are of one."""
        if not (flow.has_keyed or flow.keys):
            problem = (
                "no keys were drawn but rows, so it counts the kept ones only, and calls some such counts complete"
            )
            self._refuse(_BY_KEY, problem, f"give the guard the key (key=...), or {_USE_FUNCTIONS}")
        elif not flow.keys.issuperset(drawn):
            problem = (
                "its column is not the key as every guard on the way has drawn it, so a count that lacks rows may be "
                "called complete"
            )
            remedy = (
                "give every guard that key (key=...), count by it as it is, and change its type before the guard or "
                "behind the counts"
            )
            self._refuse(_BY_KEY, problem, remedy)
        elif not grouping.issuperset(drawn):
            problem = "a group of other columns lacks the rows of the keys that were dropped"
            self._refuse(_BY_KEY, problem, "group by the guard's key as it is")

    def _distinct(self, item: str, flow: _Flow) -> None:
        if flow.is_keyed and flow.keys & plan_text.numbers(item):
            problem = "it counts the keys that stayed"
            self._warn("distinct count", problem, "sum the column 'count_weight' of penstock.functions.count_by_key")
        elif flow.is_sampled:
            problem = "values whose rows were all dropped are missing, so it is a lower limit"
            self._warn("distinct count", problem, "give the guard the counted column as key, or count before it")

    def _join(self, node: PlanNode, below: Sequence[_Flow]) -> _Flow:
        left, right = below
        kind = node.text.removeprefix("Join ").split(",")[0].strip()
        on = plan_text.equal(node.text)
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
            ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti")
            if left_is_sampled
            else ("Inner", "Cross", "RightOuter")
        )
        if not is_preserved:
            problem = "partners that were dropped look as if they had never been there"
            self._refuse(f"{kind} join", problem, "place the guard on the other side, or behind the join")

    def _union(self, node: PlanNode, below: Sequence[_Flow]) -> _Flow:
        outputs = [[number for _, number in plan_text.columns(child.output)] for child in node.children]
        shared = frozenset[int]().union(
            *(_places(columns, flow.weights) for columns, flow in zip(outputs, below, strict=True))
        )
        for flow, child in zip(below, node.children, strict=True):
            if not flow.is_sampled and not flow.weights and shared and not _has_ones(child):
                problem = "the side without a guard has no weights of one"
                self._warn("union", problem, "add a column 'weight' of 1.0 to it")
        # A column that one guard has drawn by, and another has not, is no key of what comes out.
        keys = [
            _places(columns, flow.keys)
            for columns, flow in zip(outputs, below, strict=True)
            if flow.is_sampled or flow.weights
        ]
        mine = [number for _, number in plan_text.columns(node.output)]
        return _Flow(
            is_sampled=any(each.is_sampled for each in below),
            is_keyed=all(each.is_keyed for each in below),
            has_keyed=any(each.has_keyed for each in below),
            weights=frozenset(mine[place] for place in shared if place < len(mine)),
            keys=frozenset(mine[place] for place in frozenset.intersection(*keys) if place < len(mine)),
        )

    def _warn(self, operator: str, problem: str, remedy: str) -> None:
        self._add(Finding(Verdict.WARN, operator, problem, remedy))

    def _refuse(self, operator: str, problem: str, remedy: str) -> None:
        self._add(Finding(Verdict.REFUSE, operator, problem, remedy))

    def _add(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)


def _has_ones(node: PlanNode) -> bool:
    """Whether rows have a column of ones; projections that Spark puts above that, to number columns anew, keep it."""
    if " 1.0 AS " in f" {node.text}".replace("[", " "):
        return True
    return node.name in ("Project", "SubqueryAlias") and _has_ones(node.children[0])


def _places(columns: Sequence[int], wanted: frozenset[int]) -> frozenset[int]:
    return frozenset(place for place, number in enumerate(columns) if number in wanted)


def _followed(node: PlanNode, below: Sequence[_Flow]) -> _Flow:
    """What comes out of an operator that hands its columns on, some of them under other numbers."""
    weights = frozenset[int]().union(*(each.weights for each in below))
    keys = frozenset[int]().union(*(each.keys for each in below))
    sampled = [each for each in below if each.is_sampled]
    if node.name in _FROM_ROWS_TO_ROWS:
        before = node.children[0].output
        weights, keys = (plan_text.carried(each, before, node.output) for each in (weights, keys))
    if sampled and not weights:
        # An operator with its function gives the weight as a column of its own.
        weights = plan_text.named("weight", node.output)
    if node.name in ("Project", "Expand"):
        items = plan_text.lists(node.text)[-1]
        weights, keys = plan_text.derived(items, weights), plan_text.renamed(items, keys)
    return _Flow(
        is_sampled=bool(sampled),
        is_keyed=bool(sampled) and all(each.is_keyed for each in sampled),
        has_keyed=any(each.has_keyed for each in sampled),
        weights=weights,
        keys=keys,
    )
