"""What a run said of the fraudsters, held against what the load source knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from penstock.apps.click_fraud import IPS_PER_USER, USERS_PER_IP, pseudonym_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from penstock.model.rows import ClicksContent, ClickTruth
    from penstock.spark.load_rows import LoadTruth

_WINDOW_S = 60


@dataclass(frozen=True, slots=True)
class FraudCount:
    """Entries of one fraudster in one window: what was reported with its interval, and what is true."""

    window_start_s: float
    pattern: str
    key: str
    estimate: float
    low: float | None
    high: float | None
    true: int

    @property
    def is_covered(self) -> bool | None:
        """Whether the truth lies in the interval; half a row is left for rounding. None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low - 0.5 <= self.true <= self.high + 0.5


@dataclass(frozen=True, slots=True)
class FraudSummary:
    """All counts of a run together."""

    counts: tuple[FraudCount, ...]
    fraudsters: int

    @property
    def found(self) -> int:
        """Fraudsters that were reported in some window."""
        return len({(count.pattern, count.key) for count in self.counts})

    @property
    def true(self) -> int:
        """True entries behind all counts."""
        return sum(count.true for count in self.counts)

    @property
    def estimate(self) -> float:
        """Reported entries over all counts."""
        return sum(count.estimate for count in self.counts)

    @property
    def covered_share(self) -> float | None:
        """Share of intervals that hold the truth; None without any."""
        known = [count.is_covered for count in self.counts if count.is_covered is not None]
        return sum(known) / len(known) if known else None


def summarise_fraud(
    spark: SparkSession, table: str, content: ClicksContent, truth: LoadTruth, *, end_offset: int
) -> FraudSummary:
    """Compare the last word on every fraudster of patterns 1 and 2 with the rows up to ``end_offset``."""
    keys = {USERS_PER_IP: content.fraudulent_ips(), IPS_PER_USER: content.fraudulent_users()}
    wanted = [pseudonym_of(key) for group in keys.values() for key in group]
    # Entries only ever grow within a window, so the largest report is the last one.
    last = (
        spark.table(table)
        .where(F.col("key").isin(wanted))
        .groupBy(F.col("window.start").cast("double").alias("start"), "pattern", "key")
        .agg(F.max(F.struct("entries", "entries_low", "entries_high")).alias("last"))
        .collect()
    )
    truths = {start: _window_truth(content, truth, start, end_offset) for start in {row["start"] for row in last}}
    ips, users = ([pseudonym_of(str(text)) for text in pool] for pool in (content.ip_pool(), content.user_pool()))
    counts = [
        FraudCount(
            row["start"], row["pattern"], row["key"],
            row["last"]["entries"], row["last"]["entries_low"], row["last"]["entries_high"],
            _true_entries(truths[row["start"]], row["pattern"], row["key"], ips, users),
        )
        for row in last
    ]  # fmt: skip
    ordered = sorted(counts, key=lambda count: (count.window_start_s, count.pattern, count.key))
    return FraudSummary(tuple(ordered), len(wanted))


def _window_truth(content: ClicksContent, truth: LoadTruth, start_s: float, end_offset: int) -> ClickTruth:
    first = truth.rows_by_epoch_s(start_s) if start_s * 1000 > truth.epoch_ms else 0
    return content.truth(first, min(end_offset, truth.rows_by_epoch_s(start_s + _WINDOW_S)))


def _true_entries(truth: ClickTruth, pattern: str, key: str, ips: Sequence[str], users: Sequence[str]) -> int:
    if pattern == USERS_PER_IP:
        return int(truth.rows_per_ip[ips.index(key)])
    return int(truth.rows_per_user[users.index(key)])
