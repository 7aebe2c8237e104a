"""Click fraud: three patterns of cheating in pay-per-click advertising, over windows of 60 seconds.

The application of "Supporting elasticity in Flink": records of ip, userID, timestamp and eventType (display or click).

1. Users per IP address: one address that poses as very many users.
2. IP addresses per user: one user who comes from very many addresses.
3. Click-through rate per user: clicks over displays.

Addresses and users are personal data, so pseudonyms replace them first. All three patterns come from one pass: each
record is turned into one entry under its address and one under its user, and a single windowed
aggregation counts entries, clicks and distinct counterparts of each.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import penstock.functions as pf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW = "60 seconds"
WATERMARK = "10 seconds"
USERS_PER_IP = "users_per_ip"
IPS_PER_USER = "ips_per_user"
_SALT = "penstock:"
_ROUNDS = 12
_DISTINCT_ERROR = 0.1


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on a key is suspect; distinct counts are per window."""

    users_per_ip: int = 50
    ips_per_user: int = 50
    click_through_rate: float = 0.5
    smallest_displays: int = 20


def pseudonym(text: Column) -> Column:
    """A stand-in for personal data: addresses and users never reach the results.

    There are only four billion addresses, so a single hash of one is found by trying them all; it takes many rounds.
    """
    for _ in range(_ROUNDS):
        text = F.sha2(F.concat(F.lit(_SALT), text), 256)
    return text


def pseudonym_of(text: str) -> str:
    """The same for one text, to look a known fraudster up."""
    for _ in range(_ROUNDS):
        text = hashlib.sha256(f"{_SALT}{text}".encode()).hexdigest()
    return text


def count_patterns(clicks: DataFrame, *, window: str = WINDOW, watermark: str = WATERMARK) -> DataFrame:
    """Entries and clicks with their intervals, and distinct counterparts, for each window, pattern and key.

    Behind a guard each row has a ``weight``: entries and clicks are then estimates of what all rows would have given.
    Distinct counterparts are counted among the kept rows, so they can only be too few.
    """
    is_guarded = "weight" in clicks.columns
    # Without a guard there is nobody to ask, and nothing to ask about.
    weight, largest = (F.col("weight"), None) if is_guarded else (F.lit(1.0), 1.0)
    is_click = (F.col("eventType") == "click").cast("int")
    entries = F.array(
        F.struct(F.lit(USERS_PER_IP).alias("pattern"), F.col("ip").alias("key"), F.col("user").alias("other")),
        F.struct(F.lit(IPS_PER_USER).alias("pattern"), F.col("user").alias("key"), F.col("ip").alias("other")),
    )
    known = clicks.withWatermark("timestamp", watermark).select(
        "timestamp",
        is_click.alias("is_click"),
        weight.alias("weight"),
        pseudonym(F.col("ip")).alias("ip"),
        pseudonym(F.col("userID")).alias("user"),
    )
    return (
        known.select("timestamp", "is_click", "weight", F.inline(entries))
        .groupBy(F.window("timestamp", window), "pattern", "key")
        .agg(
            *pf.count(name="entries", largest_weight=largest),
            *pf.sum("is_click", name="clicks", largest_weight=largest),
            F.approx_count_distinct("other", _DISTINCT_ERROR).alias("others"),
        )
    )


def suspects(patterns: DataFrame, thresholds: Thresholds = Thresholds()) -> DataFrame:  # noqa: B008 - immutable
    """Keys that match one of the three patterns, each with the pattern that it matches."""
    displays = F.col("entries") - F.col("clicks")
    rate = F.col("clicks") / F.greatest(displays, F.lit(1.0))
    is_user = F.col("pattern") == IPS_PER_USER
    matched = (
        F.when(~is_user & (F.col("others") > thresholds.users_per_ip), F.lit("1 users per ip"))
        .when(is_user & (F.col("others") > thresholds.ips_per_user), F.lit("2 ips per user"))
        .when(
            is_user & (rate > thresholds.click_through_rate) & (F.col("entries") > thresholds.smallest_displays),
            F.lit("3 click-through rate"),
        )
    )
    return patterns.withColumn("matched", matched).where(F.col("matched").isNotNull())
