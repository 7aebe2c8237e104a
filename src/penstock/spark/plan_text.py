"""What the text of an operator in a plan says: its columns by their numbers, its lists, and what it aggregates."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.spark.collector import GUARD_PREFIX
from penstock.spark.guard import seed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.spark.internals import PlanNode

_AS = r"L?(?:-T\d+ms)?"
"""What may follow a number: that the column is a long, and its watermark."""
_COLUMN = re.compile(rf"(.+?)#(\d+){_AS}(?:, |$)")
_AND = " AND "
_NUMBER = re.compile(r"#(\d+)")
_PLAIN = re.compile(rf"(?!-|~|NOT )[^#]*#(\d+){_AS}")
_ALIAS = re.compile(rf" AS .+?#(\d+){_AS}$")
_COALESCED = re.compile(rf"coalesce\((?:[^#()]+#\d+{_AS}(?:, |(?=\))))+\)")
_EQUAL = re.compile(rf"{_PLAIN.pattern} (?:=|<=>) {_PLAIN.pattern}")
_GUARD = re.compile(rf"{re.escape(GUARD_PREFIX)}(?:\.[a-z_]+)*\.\d+")
_NAMED_WEIGHT = re.compile(rf"({_GUARD.pattern})#\d+ AS weight#\d+")
_KNOWN = (
    "count", "count_if", "sum", "try_sum", "avg", "try_avg", "mean", "min", "max", "first", "last", "any_value",
    "median", "mode", "product", "collect_list", "collect_set", "array_agg", "listagg", "string_agg", "stddev",
    "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "skewness", "kurtosis", "corr", "covar_pop",
    "covar_samp", "percentile", "percentile_approx", "percentile_cont", "percentile_disc", "approx_percentile",
    "max_by", "min_by", "bool_and", "bool_or", "every", "some", "histogram_numeric", "bit_and", "bit_or", "bit_xor",
    r"regr_\w+",
)  # fmt: skip
_KNOWN_AGGREGATE = re.compile(rf"\b({'|'.join(_KNOWN)})\(")
_FUNCTION = re.compile(r"\b(?!cast\(|coalesce\()(\w+)\(")
_DISTINCT = re.compile(r"\b\w+\(distinct |\bapprox_count_distinct\(|\bhll_sketch_agg\(|\bcount_min_sketch\(")
_INTERVAL = re.compile(r"#(\d+)(?: END)? - 1\.0\)")
"""The variance factor of an interval: a weight less one, of all rows or of those with a value."""
_DRAW = re.compile(rf"xxhash64\({seed()}, (?:[^#]+#(\d+){_AS}, \d+\))?")
"""The draw of a key; with the key's number where that is a plain column."""
_ARGUMENT_NUMBER = re.compile(r" (\d+)\b")
_GROUPING_COLUMNS = re.compile(r"\)#\d+, (\d+), ")


def guard_name(node: PlanNode) -> str | None:
    """The guard that ends with an operator: its counts, or the projection that gives its weights their name."""
    if node.name == "Project":
        named_weight = _NAMED_WEIGHT.search(node.text)
        return None if named_weight is None else named_weight.group(1)
    if node.name != "CollectMetrics":
        return None
    found = _GUARD.search(node.text.split("[")[0])
    return None if found is None else found.group(0)


def columns(output: str) -> list[tuple[str, int]]:
    """Names and numbers of the columns that an operator gives.

    Examples
    --------
    >>> columns("offset#12L, timestamp#13-T5000ms, user id#14, count(1)#40L")
    [('offset', 12), ('timestamp', 13), ('user id', 14), ('count(1)', 40)]
    """
    return [(name, int(number)) for name, number in _COLUMN.findall(output)]


def named(name: str | None, output: str) -> frozenset[int]:
    """Numbers of the columns of a name."""
    return frozenset(number for column, number in columns(output) if column == name)


def numbers(text: str) -> frozenset[int]:
    """Numbers of all columns that are mentioned."""
    return frozenset(int(number) for number in _NUMBER.findall(text))


def first_number(text: str) -> int:
    """The first number among an operator's arguments, by which a named query is known; less than zero without one.

    Examples
    --------
    >>> first_number("CTERelationDef 12, false"), first_number("CTERelationRef")
    (12, -1)
    """
    found = _ARGUMENT_NUMBER.search(text)
    return -1 if found is None else int(found.group(1))


def plain(items: Iterable[str]) -> frozenset[int]:
    """Numbers of those items that are columns as they are.

    Examples
    --------
    >>> plain(["key#2L", "window#7-T5000ms", "cast(value#3 as string)", "point#4.x"])
    frozenset({2, 7})
    """
    return frozenset(int(found.group(1)) for item in items if (found := _PLAIN.fullmatch(item)))


def lists(text: str) -> list[list[str]]:
    """The lists among an operator's arguments, with their entries.

    Examples
    --------
    >>> lists("Aggregate [key#1L], [key#1L, sum((weight#4 * 2.0)) AS twice#9, array(1, 2)[0] AS a#10]")
    [['key#1L'], ['key#1L', 'sum((weight#4 * 2.0)) AS twice#9', 'array(1, 2)[0] AS a#10']]
    """
    found: list[list[str]] = []
    depth, begin, is_inside = 0, 0, False
    for place, letter in enumerate(text):
        if letter in ")]":
            depth = max(0, depth - 1)
        if is_inside and (depth == 0 or (depth == 1 and letter == ",")):
            found[-1].append(text[begin:place].strip())
            begin, is_inside = place + 1, depth > 0
        elif letter == "[" and depth == 0:
            found.append([])
            begin, is_inside = place + 1, True
        if letter in "([":
            depth += 1
    if is_inside:
        # A bracket in a text that was written into the query.
        found[-1].append(text[begin:].strip())
    return found


def equal(text: str) -> set[frozenset[int]]:
    """Pairs of columns that a join takes for equal whatever else it asks for.

    Examples
    --------
    >>> equal("Join Inner, (((a#1L = b#11L) AND (c#2 <=> d#12)) AND (c#2 > 1.0))") == {
    ...     frozenset({1, 11}), frozenset({2, 12})}
    True
    >>> [equal(f"Join Inner, {text}") for text in (
    ...     "((a#1 = b#11) OR (c#2 = d#12))", "NOT (a#1 = b#11)", "(NOT a#1 = b#11)", "((a#1 = b#11) = (c#2 = d#12))")]
    [set(), set(), set(), set()]
    """
    found, conditions = set(), [text.partition(", ")[2]]
    while conditions:
        parts = _conjuncts(conditions.pop())
        if len(parts) > 1:
            conditions.extend(parts)
        elif pair := _EQUAL.fullmatch(parts[0]):
            found.add(frozenset(map(int, pair.groups())))
    return found


def _conjuncts(condition: str) -> list[str]:
    """What must hold each by itself, by the outermost "and" of a condition, without the brackets around it.

    Examples
    --------
    >>> _conjuncts("(((a#1 = b#2) AND (c#3 = d#4)) AND e#5)"), _conjuncts("(a#1 = user (id)#2)")
    (['((a#1 = b#2) AND (c#3 = d#4))', 'e#5'], ['a#1 = user (id)#2'])
    """
    depth, places, ends = 0, [], []
    for place, letter in enumerate(condition):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            ends.append(place)
        elif depth == 1 and condition.startswith(_AND, place):
            places.append(place)
    if not condition.startswith("(") or ends != [len(condition) - 1]:
        return [condition]
    edges = [1 - len(_AND), *places, len(condition) - 1]
    return [condition[begin + len(_AND) : end] for begin, end in pairwise(edges)]


def derived(items: Sequence[str], weights: frozenset[int]) -> frozenset[int]:
    """Columns that are made of weights, and those that already were."""
    made = (found for item in items if (found := _ALIAS.search(item)) and numbers(item) & weights)
    return weights | frozenset(int(found.group(1)) for found in made)


def renamed(items: Sequence[str], keys: frozenset[int]) -> frozenset[int]:
    """Keys, also under other names, and those of two sides that a join has made one of.

    Examples
    --------
    >>> sorted(renamed(["key#2L AS k#7L", "coalesce(key#2L, k#3L) AS key#8L", "cast(key#2L as int) AS i#9"], {2, 3}))
    [2, 3, 7, 8]
    """
    same = ((item[: found.start()], int(found.group(1))) for item in items if (found := _ALIAS.search(item)))
    return keys | frozenset(
        number
        for made_of, number in same
        if numbers(made_of) <= keys and (_PLAIN.fullmatch(made_of) or _COALESCED.fullmatch(made_of))
    )


def carried(kept: frozenset[int], before: str, after: str) -> frozenset[int]:
    """Columns that a function from rows to rows gives back under the names that they had, as far as types tell.

    Examples
    --------
    >>> carried(frozenset({2, 4}), "key#2L, value#3, weight#4", "key#12L, weight#13")
    frozenset({12, 13})
    >>> carried(frozenset({2, 4}), "key#2, weight#4", "key#12L, weight#13")
    frozenset({13})
    """

    def kind(number: int, output: str) -> bool:
        return f"#{number}L" in output

    had = {(name, kind(number, before)) for name, number in columns(before) if number in kept}
    return frozenset(number for name, number in columns(after) if (name, kind(number, after)) in had)


def grouping_of(node: PlanNode) -> frozenset[int]:
    """Columns by which an operator with a function of its own groups its rows."""
    if node.name.startswith("TransformWithState"):
        # It tells how many there are: they stand first among what it reads.
        told = _GROUPING_COLUMNS.search(node.text)
        first = columns(node.children[0].output)[: int(told.group(1))] if told else []
        return frozenset(number for _, number in first)
    return plain(next(iter(lists(node.text)), []))


def is_aggregate(item: str, grouping: Sequence[str]) -> bool:
    """Whether an entry of an aggregation is more than a function of what it groups by.

    Examples
    --------
    >>> grouping = ["key#1L", "(value#2 % 3)"]
    >>> [is_aggregate(item, grouping) for item in ("key#1L AS k#5L", "((value#2 % 3) + key#1L) AS x#6", "3 AS y#7")]
    [False, False, False]
    >>> [is_aggregate(item, grouping) for item in ("mine(value#2) AS x#5", "count(1) AS n#6L", "sum(key#1L) AS s#7L")]
    [True, True, True]
    """
    body = _ALIAS.sub("", item)
    for expression in grouping:
        body = re.sub(re.escape(expression) + r"(?!\w)", "", body)
    is_known = _KNOWN_AGGREGATE.search(body) or _DISTINCT.search(body)
    return bool(is_known or numbers(body) - plain(grouping))


def aggregate_name(item: str) -> str:
    """The function that makes an aggregate of an entry.

    Examples
    --------
    >>> aggregate_name("cast(try_avg(value#3) as int) AS x#9"), aggregate_name("coalesce(mine(value#3), 0) AS x#9")
    ('try_avg', 'mine')
    """
    found = _KNOWN_AGGREGATE.search(item) or _FUNCTION.search(item)
    return "aggregate" if found is None else found.group(1)


def is_distinct(item: str) -> bool:
    """Whether an entry counts values and not rows."""
    return _DISTINCT.search(item) is not None


def interval_weights(item: str) -> frozenset[int]:
    """Weights of which an entry makes an interval."""
    return frozenset(int(number) for number in _INTERVAL.findall(item))


def drawn_keys(item: str) -> list[int | None]:
    """Keys whose draws an entry asks for; None for one that is no plain column.

    Examples
    --------
    >>> drawn_keys("max(xxhash64(20077, key#2L, 42))"), drawn_keys("max(xxhash64(20077, cast(key#2L as int), 42))")
    ([2], [None])
    """
    return [int(number) if number else None for number in _DRAW.findall(item)]
