"""The three filters of a guard, whose own counts tell what it lets through inside Spark's compiled loop.

``DataFrame.observe`` leaves that loop and comes back to it, for every row: four fifths of what a guard costs on a query
that does little else. But a filter counts the rows that pass it inside the loop. So a guard is three filters one after
the other, and its counts are theirs, from the plan of the batch itself:

1. one that lets every row pass counts those offered;
2. one that drops what is late and was not drawn: so many late rows are gone;
3. one that drops what else was not drawn counts those kept.

``spark_partition_id()`` costs nothing, and Spark neither joins a filter that has it with others nor moves anything
past it: without it a query's own filters would become part of these, and of what they count.

How old rows are is told by a sample of them (:func:`sampling`). See ADR 28.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.model.directive import FLOOR_AT
from penstock.spark import internals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from penstock.spark.internals import CountedNode, JavaObject

OFFERED, LATE_GONE, KEPT = 0, -1, -2
"""The three filters, by the number that partitions are compared with: every partition's is larger."""

SAMPLE_MASK_AT, TAG_AT = FLOOR_AT + 1, FLOOR_AT + 2
"""Where in the array for a guard it stands which rows tell their arrival, and the number of the batch that they add to
it, in steps of :data:`MILLISECONDS`."""

_SAMPLED_ROWS = 256
"""The oldest of so many rows is as old as the oldest of all within half a percent of the batch's span."""
_UNKNOWN_EVERY = 1024
"""One row in so many, where nobody knows how many rows a batch has: ten thousand of ten million."""
TAGS = 2**20
MILLISECONDS = 2**42
"""A tag and the milliseconds of a moment until the year 2109 are one long."""
NOBODY = 2.0**52 - 1.0
"""A mask by which no row tells but the first of all: nobody would take what they tell, and it would grow for ever."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A guard that counts by its filters.

    ``name`` is its own, and in plans that of its weights until it is done; ``enters`` is the condition, always true, of
    the filter that counts the rows that it is offered.
    """

    name: str
    enters: Column


def passes(which: int) -> Column:
    """Part of a filter's condition: always true, and what makes the filter one of a guard's own."""
    return F.spark_partition_id() >= which


def sampling(spark: SparkSession, told: Column, number: Column, arrival: Column) -> tuple[JavaObject, Column]:
    """A list of sampled arrivals, and the condition, always true, by which rows add theirs to it.

    Parameters
    ----------
    spark, told
        The session, and the array that the batch was told.
    number
        A whole number of the row; those with zeros where the batch's mask has ones tell.
    arrival
        Its timestamp.
    """
    collector = internals.new_collector(spark)
    moment = F.unix_millis(arrival).bitwiseAND(F.lit(MILLISECONDS - 1))
    adds = internals.collecting(spark, collector, F.coalesce(told[TAG_AT].cast("long") + moment, F.lit(-1)))
    return collector, (number.bitwiseAND(told[SAMPLE_MASK_AT].cast("long")) != 0) | arrival.isNull() | adds


def drawn_bits(spark: SparkSession, told: Column) -> Column:
    """64 bits for each row that has nothing to be told from others by; others in every batch.

    Not Spark's own ``rand``: it gets another seed in every batch, which is part of the text that is compiled. The
    sequence of numbers is the same in all tasks, and so it is hashed with the partition and the batch.
    """
    return F.xxhash64(internals.next_number(spark), F.spark_partition_id(), told[TAG_AT])


def sample_every(rows: float | None) -> int:
    """One row in how many tells its arrival, a power of two; of a batch of no known size one in a thousand.

    Examples
    --------
    >>> sample_every(100), sample_every(1_000), sample_every(1_000_000), sample_every(None)
    (1, 4, 4096, 1024)
    """
    if rows is None:
        return _UNKNOWN_EVERY
    every = 1
    while every * _SAMPLED_ROWS < rows:
        every *= 2
    return every


@dataclass(frozen=True, slots=True)
class GuardFilters:
    """The filters of a guard in a plan, by whatever tells their rows; ``late_gone`` where it drops late ones first."""

    name: str
    offered: int
    kept: int
    late_gone: int | None = None

    def rows(self, rows_of: Callable[[int], int]) -> dict[str, int]:
        """Rows offered, kept, and late ones dropped.

        Examples
        --------
        >>> GuardFilters("penstock.guard.1", offered=1, kept=3, late_gone=2).rows({1: 100, 2: 90, 3: 30}.__getitem__)
        {'offered_rows': 100, 'kept_rows': 30, 'late_gone_rows': 10}
        """
        offered_rows = rows_of(self.offered)
        late_gone_rows = 0 if self.late_gone is None else offered_rows - rows_of(self.late_gone)
        return {"offered_rows": offered_rows, "kept_rows": rows_of(self.kept), "late_gone_rows": late_gone_rows}

    def at(self, places: Mapping[int, int]) -> GuardFilters:
        """The same filters by their places in the plan."""
        late_gone = None if self.late_gone is None else places[self.late_gone]
        return GuardFilters(self.name, places[self.offered], places[self.kept], late_gone)


def guards_in(plan: CountedNode, names: Sequence[str]) -> list[GuardFilters]:
    """The filters of all guards that a plan has, by the numbers of their counts.

    Examples
    --------
    >>> from penstock.spark.internals import CountedNode
    >>> offered = CountedNode("Filter", "Filter (SPARK_PARTITION_ID() >= 0)", 1)
    >>> late = CountedNode("Filter", "Filter (NOT late#3 AND (SPARK_PARTITION_ID() >= -1))", 2, (offered,))
    >>> kept = CountedNode("Filter", "Filter ((penstock.guard.1#4 > 0.0) AND (SPARK_PARTITION_ID() >= -2))", 3, (late,))
    >>> guards_in(kept, ["penstock.guard.1"])
    [GuardFilters(name='penstock.guard.1', offered=1, kept=3, late_gone=2)]
    """
    found = []
    for node in _filters(plan, KEPT):
        name = next((each for each in names if f"{each}#" in node.text), None)
        offered = next(_filters(node, OFFERED), None)
        if name is None or offered is None or offered.rows_id is None or node.rows_id is None:
            continue
        on_time = next(_filters(node, LATE_GONE, until=offered), None)
        found.append(GuardFilters(name, offered.rows_id, node.rows_id, None if on_time is None else on_time.rows_id))
    return found


def rows_by_guard(guards: Sequence[GuardFilters], rows_of: Callable[[int], int]) -> dict[str, dict[str, int]]:
    """Rows of each guard; of one that a plan has twice, those of one of them.

    Both copies of a guard whose frame is read twice see the same rows, unless Spark runs only one of them.
    """
    found: dict[str, dict[str, int]] = {}
    for guard in guards:
        rows = guard.rows(rows_of)
        found[guard.name] = max(rows, found.get(guard.name, rows), key=lambda each: each["offered_rows"])
    return found


def _filters(node: CountedNode, which: int, until: CountedNode | None = None) -> Iterator[CountedNode]:
    if node is until:
        return
    if node.name == "Filter" and _is_filter(node.text, which):
        yield node
    for child in node.children:
        yield from _filters(child, which, until)


def _is_filter(text: str, which: int) -> bool:
    return f"SPARK_PARTITION_ID() >= {which})" in text


def report_of(rows: Mapping[str, int], ratio: float, floor: float) -> dict[str, int]:
    """What a guard reports of a batch; how many rows were late follows from those of both kinds that are gone.

    Late rows are kept with the probability ``floor``, the others with ``ratio``. Of rows that are gone, as many as that
    over the rest of it stayed: so the kept rows are divided. Where nothing but late rows is gone, nothing else was
    there, unless all others were to be kept.

    Examples
    --------
    >>> report_of({"offered_rows": 100, "kept_rows": 55, "late_gone_rows": 9}, 0.6, 0.1)
    {'offered_rows': 100, 'kept_rows': 55, 'late_rows': 10, 'kept_late_rows': 1}
    >>> report_of({"offered_rows": 100, "kept_rows": 12, "late_gone_rows": 88}, 0.6, 0.1)["late_rows"]
    100
    >>> report_of({"offered_rows": 100, "kept_rows": 91, "late_gone_rows": 9}, 1.0, 0.1)["late_rows"]
    10
    """
    offered, kept, late_gone = (rows[name] for name in ("offered_rows", "kept_rows", "late_gone_rows"))
    stayed = 0.0
    if floor < 1.0:
        stayed = min(float(kept), late_gone * floor / (1.0 - floor))
    if ratio < 1.0 and stayed:
        others = (offered - late_gone - kept) * ratio / (1.0 - ratio)
        stayed = kept * stayed / (stayed + others)
    kept_late = round(stayed)
    return {
        "offered_rows": offered,
        "kept_rows": kept,
        "late_rows": late_gone + kept_late,
        "kept_late_rows": kept_late,
    }


def rows_at(guards: Sequence[GuardFilters], execution: JavaObject) -> dict[str, dict[str, int]] | None:
    """Rows of guards whose filters have known places in a plan; None where something else is there by now."""
    wanted = [
        (guard, which, place)
        for guard in guards
        for which, place in ((OFFERED, guard.offered), (LATE_GONE, guard.late_gone), (KEPT, guard.kept))
        if place is not None
    ]
    found = internals.filters_at(execution, {place for *_, place in wanted})
    for guard, which, place in wanted:
        text, _ = found.get(place, ("", 0))
        if not _is_filter(text, which) or (which == KEPT and f"{guard.name}#" not in text):
            return None
    return rows_by_guard(guards, lambda place: found[place][1])
