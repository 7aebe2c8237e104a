"""Figures 10 and 11 of the load-aware shedding paper on live Spark: completion latency and dropped share over time.

Figure 10 is the changing stream of figure 9 (:mod:`penstock.research.las_phases`), figure 11 a stream of mentions whose
cost depends on the classes of the entities that a row mentions. Four policies get the same stream one after another:

- ``plain``: Spark as it is.
- ``straw_man``: drops at random what exceeds the capacity as it was measured at first, and never learns.
- ``las`` and ``economic``: governed by Penstock.

The paper's Full Knowledge has no place here: on a real machine nobody knows beforehand what a row will take.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.apps.capacity import find_capacity
from penstock.apps.measure import batch_records
from penstock.apps.session import local_session
from penstock.apps.waiting import first_batches, wait_until
from penstock.control.target import target_batch_s
from penstock.model import Goal
from penstock.model.directive import Directive
from penstock.model.profile import LoadProfile
from penstock.settings import Settings
from penstock.spark import internals
from penstock.spark.attach import attach
from penstock.spark.directives import FALLBACK_PROPERTY
from penstock.spark.load import register
from penstock.spark.load_rows import LoadTruth
from penstock.spark.operator_worker import as_dictionaries
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.apps.measure import BatchRecord

    Row = dict[str, float | int | str | None]

POLICIES = ("plain", "straw_man", "las", "economic")
PHASES = "ABCDEFG"
RATES = {"A": 1.0, "B": 2.0, "C": 1.0, "D": 1.0, "E": 1.0 / 1.5, "F": 1.0, "G": 1.0}
KEYS = 64
MENTION_KEYS = 500
MENTION_LOAD = 2.0
"""Of the capacity, in figure 11: plain Spark does half as much again in batches of whatever length."""
WINDOW_S = 3.0
WARM_UP_S = 12.0
_SWAPPED, _DOUBLED = "DEF", "F"
_ROUNDS_PER_UNIT = 16
_MENTION_ROUNDS_PER_MS = 100
_MENTION_MS = (25, 5, 1)
_MENTION_CHANCES = (0.18, 0.25, 0.57)
_MORE_MENTIONS = 0.37
_RESULT = "offset bigint"
_FIRST_ROWS = 1_000


def phased_rounds(key: int, phase: str) -> int:
    """Rounds of work for a row of figure 10: key 0 is the most frequent and the cheapest, until it changes places.

    Examples
    --------
    >>> [phased_rounds(0, phase) // 16 for phase in "ADF"]
    [1, 64, 128]
    """
    dearest = KEYS - 1
    if phase in _SWAPPED and key in (0, dearest):
        key = dearest - key
    # 29 and 64 have no common divisor: every cost from 1 to 64 belongs to one key.
    units = 1 + (key * 29) % KEYS if key not in (0, dearest) else (1 if key == 0 else KEYS)
    return _ROUNDS_PER_UNIT * units * (2 if phase in _DOUBLED else 1)


def mention_rounds(seed: int = 11) -> tuple[int, ...]:
    """Rounds of work for every key of figure 11: the sum over the entities that a row mentions.

    A media outlet takes 25, a politician 5 and anybody else 1; times are a tenth of the paper's milliseconds, so that
    a run takes minutes. The paper's stream has a mean of 9.7 ms, and 36 % of its rows take 1 ms.

    Examples
    --------
    >>> rounds = np.array(mention_rounds()) / 100
    >>> round(float(rounds.mean()), 1), int(rounds.min()), round(float(np.mean(rounds == 1)), 2)
    (9.6, 1, 0.36)
    """
    draw = np.random.default_rng(seed)
    mentions = draw.geometric(1.0 - _MORE_MENTIONS, MENTION_KEYS)
    costs = [int(draw.choice(_MENTION_MS, count, p=_MENTION_CHANCES).sum()) for count in mentions]
    return tuple(_MENTION_ROUNDS_PER_MS * cost for cost in costs)


@dataclass(frozen=True, slots=True)
class LiveWork:
    """The row function of a figure, as it travels to the workers."""

    figure: int
    first_offsets: tuple[int, ...] = ()
    rounds: tuple[int, ...] = field(default=(), repr=False)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Work as long as the row asks for."""
        offset = row["offset"]
        if self.rounds:
            rounds = self.rounds[row["key"]]
        else:
            phase = PHASES[max(0, bisect_right(self.first_offsets, offset) - 1)] if self.first_offsets else "A"
            rounds = phased_rounds(row["key"], phase)
        hashlib.pbkdf2_hmac("sha256", b"penstock", b"figure", rounds)
        return {"offset": offset}

    def of_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same for plain Spark."""
        for batch in batches:
            offsets = [self(row)["offset"] for row in as_dictionaries(batch)]
            yield pa.RecordBatch.from_arrays([pa.array(offsets, pa.int64())], names=["offset"])


def run_live_figure(
    figure: int, *, goal_s: float, phase_s: float, policies: tuple[str, ...], say: Callable[[str], None]
) -> list[Row]:
    """Run figure 10 or 11; one row for each policy and window of time."""
    goal = Goal(latency=goal_s, minimum_accuracy=0.05)
    with local_session(f"penstock las figure {figure}") as spark:
        register(spark)
        say("measuring the capacity")
        capacity = _capacity(spark, figure, goal)
        say(f"capacity {capacity:,.0f} rows/s")
        rows: list[Row] = []
        for policy in policies:
            rows += _run(spark, figure, policy, capacity, goal, phase_s)
            say(f"{policy} is done")
    return rows


def _content(figure: int) -> dict[str, str]:
    return {"keys": str(KEYS), "zipf": "1.0"} if figure == 10 else {"keys": str(MENTION_KEYS)}  # noqa: PLR2004 - its name


def _work(figure: int, first_offsets: tuple[int, ...] = ()) -> LiveWork:
    return LiveWork(10, first_offsets) if figure == 10 else LiveWork(11, rounds=mention_rounds())  # noqa: PLR2004 - as above


def _rows(
    spark: SparkSession, figure: int, profile: LoadProfile, epoch_s: float, limit_rows: int | None = None
) -> DataFrame:
    reader = spark.readStream.format("penstock.load").option("profile", profile.to_json()).options(**_content(figure))
    if limit_rows is not None:
        reader = reader.option("maxRowsPerBatch", str(limit_rows))
    return reader.option("startEpochSeconds", f"{epoch_s:.3f}").load()


def _capacity(spark: SparkSession, figure: int, goal: Goal) -> float:
    """Rows per second that plain Spark processes of a backlog, in batches of the length that the goal allows."""
    target_s = target_batch_s(goal, 0.0, Settings().admission.batch_share_of_goal)
    assert target_s is not None

    def run_batches(limit_rows: int, count: int) -> list[BatchRecord]:
        profile = LoadProfile.constant(1.0).with_backlog(limit_rows * (count + 5))
        rows = _rows(spark, figure, profile, time.time(), limit_rows)
        return first_batches(_start(rows.mapInArrow(_work(figure).of_batches, _RESULT), "capacity"), count)

    return find_capacity(run_batches, target_s=target_s, first_rows=_FIRST_ROWS, measured_batches=15).rows_per_s


def _profile(figure: int, capacity: float, phase_s: float) -> LoadProfile:
    rates = [capacity * RATES[phase] for phase in PHASES] if figure == 10 else [MENTION_LOAD * capacity] * len(PHASES)  # noqa: PLR2004 - as above
    warm = [(0.0, 0.5 * capacity)]
    table = warm + [(WARM_UP_S + phase_s * index, rate) for index, rate in enumerate(rates)]
    return LoadProfile.from_rates([*table, (WARM_UP_S + phase_s * len(PHASES) + 600.0, rates[-1])])


def _run(spark: SparkSession, figure: int, policy: str, capacity: float, goal: Goal, phase_s: float) -> list[Row]:
    profile = _profile(figure, capacity, phase_s)
    epoch_s = time.time()
    ends_s = epoch_s + WARM_UP_S + phase_s * len(PHASES)
    truth = LoadTruth(profile, round(epoch_s * 1000))
    first_offsets = tuple(profile.rows_by(WARM_UP_S + phase_s * index) for index in range(len(PHASES)))
    rows, work = _rows(spark, figure, profile, epoch_s), _work(figure, first_offsets)
    if policy == "plain":
        query = _start(rows.mapInArrow(work.of_batches, _RESULT), policy)
        wait_until(query, ends_s)
    else:
        store = SqliteStore(f"{tempfile.mkdtemp(prefix='penstock-las-')}/penstock.db")
        goals = {} if policy == "straw_man" else {policy: goal}
        with attach(spark, goals=goals, store=store) as pen:
            strategy = "uniform" if policy == "straw_man" else policy
            query = _start(pen.operator(rows, work, _RESULT, "key", strategy=strategy), policy)
            tell = _StrawMan(query, truth, capacity) if policy == "straw_man" else lambda: None
            wait_until(query, ends_s, tell)
    return _windows(figure, policy, batch_records(query), truth, goal, phase_s)


class _StrawMan:
    """Tells a share that would fit if rows still cost what they cost at first."""

    def __init__(self, query: StreamingQuery, truth: LoadTruth, capacity: float) -> None:
        self._query, self._truth, self._capacity = query, truth, capacity
        self._told = 1.0

    def __call__(self) -> None:
        rate = self._truth.profile.rate_at(time.time() - self._truth.epoch_ms / 1000)
        share = min(1.0, self._capacity / rate) if rate > 0 else 1.0
        if share != self._told:
            self._told = share
            text = Directive(0, keep_ratio=share).to_json()
            internals.send_to_tasks(internals.execution_of(self._query), FALLBACK_PROPERTY, text)


def _start(frame: DataFrame, name: str) -> StreamingQuery:
    writer = frame.groupBy().agg(F.count("*")).writeStream.format("noop").outputMode("complete").queryName(name)
    query: StreamingQuery = writer.option("checkpointLocation", tempfile.mkdtemp(prefix="penstock-las-")).start()
    return query


def _windows(
    figure: int, policy: str, batches: list[BatchRecord], truth: LoadTruth, goal: Goal, phase_s: float
) -> list[Row]:
    """Mean completion latency of the kept rows, and the dropped share, by the time of arrival."""
    assert goal.latency_s is not None
    began_s = truth.epoch_ms / 1000 + WARM_UP_S
    count = int(phase_s * len(PHASES) / WINDOW_S)
    latency, kept, read = np.zeros(count), np.zeros(count), np.zeros(count)
    for batch in batches:
        offsets = np.arange(batch.first_offset, batch.end_offset)
        arrivals_s = truth.arrival_epoch_s(offsets)
        window = np.floor((arrivals_s - began_s) / WINDOW_S).astype(int)
        late = np.arange(batch.rows) < batch.late_rows
        share = np.where(
            late,
            batch.kept_late_rows / max(batch.late_rows, 1),
            (batch.kept_rows - batch.kept_late_rows) / max(batch.rows - batch.late_rows, 1),
        )
        inside = (window >= 0) & (window < count)
        np.add.at(read, window[inside], 1.0)
        np.add.at(kept, window[inside], share[inside])
        np.add.at(latency, window[inside], (share * (batch.finished_s - arrivals_s))[inside])
    return [
        {
            "figure": figure, "algorithm": policy, "phase": PHASES[min(int(index * WINDOW_S / phase_s), 6)],
            "x_name": "seconds", "x": (index + 1) * WINDOW_S,
            "latency_mean_ms": 1000.0 * float(latency[index] / kept[index]),
            "dropped_fraction": float(1.0 - kept[index] / read[index]), "threshold_ms": 1000.0 * goal.latency_s,
            "rows_read": round(read[index]),
        }
        for index in range(count)
        if kept[index] > 0
    ]  # fmt: skip
