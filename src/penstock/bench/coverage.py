"""How often the intervals of :mod:`penstock.functions` hold the truth, and how far estimates are off in the mean.

Groups of rows are drawn again and again, seeded, with the probabilities that guards and operators give; each draw is
estimated with the formulas that the columns of Spark are made of. A second part gives some of the same draws to Spark
and compares, group by group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.estimate.weighted import (
    NUMPY,
    Interval,
    Moments,
    average_moments,
    count_moments,
    interval,
    ratio_moments,
    sum_moments,
    weighted_rows,
)
from penstock.model.directive import LATE_PART
from penstock.spark.operator_shares import economic_probabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

AGGREGATES = ("count", "sum", "avg")
TRIALS = 2_000
HOLDS = (0.93, 0.97)
LARGEST_BIAS = 0.01
LEAST_SHOWN = 0.05
"""Of groups that have an interval: where they are fewer, the case counts as refused."""

_TRIALS_AT_ONCE = 500


@dataclass(frozen=True)
class Case:
    """Rows with the probability with which each is kept.

    Parameters
    ----------
    name
        What it stands for.
    probabilities
        Of each row, or of each key.
    amounts
        Of each row, or the total of each key.
    sizes
        Rows of each key; ones where rows are drawn for themselves.
    largest_weight
        That the driver tells of the life of the group.
    """

    name: str
    probabilities: NDArray[np.float64]
    amounts: NDArray[np.float64]
    sizes: NDArray[np.float64]
    largest_weight: float

    @property
    def is_keyed(self) -> bool:
        """Whether keys and not rows are drawn."""
        return bool((self.sizes != 1.0).any())

    def truth(self, aggregate: str) -> float:
        """What is estimated."""
        count, total = float(self.sizes.sum()), float(self.amounts.sum())
        return {"count": count, "sum": total, "avg": total / count}[aggregate]

    def draw(self, rng: np.random.Generator, trials: int) -> NDArray[np.float64]:
        """Weights of the kept rows of so many groups; not a number for those that went."""
        kept = rng.random((trials, self.probabilities.size)) < self.probabilities
        return np.where(kept, 1.0 / self.probabilities, np.nan)

    def estimate(self, aggregate: str, weights: NDArray[np.float64]) -> Interval:
        """The estimate of every group, as :mod:`penstock.functions` has it."""
        return interval(self._moments(aggregate, weights), self.largest_weight, NUMPY)

    def _moments(self, aggregate: str, weights: NDArray[np.float64]) -> Moments:
        if aggregate == "count":
            return (
                sum_moments(weighted_rows(weights, self.sizes), NUMPY)
                if self.is_keyed
                else count_moments(weighted_rows(weights), NUMPY)
            )
        rows = weighted_rows(weights, self.amounts)
        if aggregate == "sum":
            return sum_moments(rows, NUMPY)
        if self.is_keyed:
            return ratio_moments(rows, np.where(np.isnan(weights), np.nan, self.sizes), NUMPY)
        return average_moments(rows, NUMPY)


def cases(seed: int = 1) -> list[Case]:
    """The cases of the table: each way to draw, and groups that are too small to know."""
    rng = np.random.default_rng(seed)
    ratio, utility = 0.4, rng.random(3000)
    costs = rng.choice([1.0, 4.0, 16.0], 2000)
    in_proportion = np.maximum(ratio * LATE_PART, ratio * utility)
    by_cost = economic_probabilities(costs, np.ones(costs.size), keep_ratio=0.3)
    strata: list[tuple[str, tuple[tuple[int, float], ...]]] = [
        ("plain guard, 2,000 rows at 0.33", ((2000, 0.33),)),
        ("plain guard, 300 rows at 0.33", ((300, 0.33),)),
        ("two guards, 1,000 rows at 0.3 and 800 at 0.6", ((1000, 0.3), (800, 0.6))),
        ("window over batches at 1, 0.5 and 0.25, 600 rows each", ((600, 1.0), (600, 0.5), (600, 0.25))),
        ("late rows, 3,000 at 0.4 and 3,000 late at 0.05", ((3000, 0.4), (3000, 0.05))),
        ("late rows, 300 at 0.4 and 300 late at 0.05", ((300, 0.4), (300, 0.05))),
        ("300 rows at 0.4 and 300 late at 0.005", ((300, 0.4), (300, 0.005))),
        ("tiny group, 10 rows at 0.1", ((10, 0.1),)),
        ("tiny group, 20 rows whole and then 10 at 0.1", ((20, 1.0), (10, 0.1))),
    ]
    found = [_of_strata(name, rng, parts) for name, parts in strata]
    skewed = rng.lognormal(0.0, 2.0, 100)
    found.append(Case("small group of skewed values, 100 rows at 0.1", np.full(100, 0.1), skewed, np.ones(100), 10.0))
    for name, probabilities in (
        ("utility from 0 to 1, 3,000 rows at 0.4", in_proportion),
        ("economic operator, costs of 1, 4 and 16, 2,000 rows at 0.3", by_cost),
    ):
        size = probabilities.size
        found.append(Case(name, probabilities, rng.gamma(2.0, 1.0, size), np.ones(size), 1.0 / probabilities.min()))
    sizes = 1.0 + rng.poisson(4.0, 600).astype(np.float64)
    totals = sizes * rng.gamma(4.0, 0.5, 600)
    found.append(Case("guard with a key, totals over 600 keys at 0.3", np.full(600, 0.3), totals, sizes, 1.0 / 0.3))
    return found


def _of_strata(name: str, rng: np.random.Generator, parts: Sequence[tuple[int, float]]) -> Case:
    probabilities = np.concatenate([np.full(rows, probability) for rows, probability in parts])
    values = rng.gamma(2.0, 1.0, probabilities.size)
    return Case(name, probabilities, values, np.ones(values.size), 1.0 / float(probabilities.min()))


@dataclass(frozen=True, slots=True)
class Coverage:
    """What came of the trials of one aggregate in one case."""

    case: str
    aggregate: str
    trials: int
    shown: float
    held: float | None
    bias: float
    bias_error: float

    @property
    def verdict(self) -> str:
        """Whether it is right, refused, or neither."""
        if abs(self.bias) > LARGEST_BIAS + 2.0 * self.bias_error:
            return "biased"
        if self.shown < LEAST_SHOWN or self.held is None:
            return "refused"
        if HOLDS[0] <= self.held <= HOLDS[1]:
            return "right"
        return "too narrow" if self.held < HOLDS[0] else "too wide"

    def to_dict(self) -> dict[str, Any]:
        """As it is written."""
        return {
            "case": self.case,
            "aggregate": self.aggregate,
            "trials": self.trials,
            "shown_ratio": round(self.shown, 4),
            "held_ratio": None if self.held is None else round(self.held, 4),
            "bias_ratio": round(self.bias, 5),
            "bias_error_ratio": round(self.bias_error, 5),
            "verdict": self.verdict,
        }


def bench_coverage(*, trials: int = TRIALS, seed: int = 1) -> list[Coverage]:
    """Draw every case so many times, and count."""
    found = []
    for number, case in enumerate(cases(seed)):
        rng = np.random.default_rng((seed, number))
        parts = []
        for start in range(0, trials, _TRIALS_AT_ONCE):
            weights = case.draw(rng, min(_TRIALS_AT_ONCE, trials - start))
            parts.append([case.estimate(aggregate, weights) for aggregate in AGGREGATES])
        for index, aggregate in enumerate(AGGREGATES):
            found.append(_counted(case, aggregate, [part[index] for part in parts]))
    return found


def _counted(case: Case, aggregate: str, parts: Sequence[Interval]) -> Coverage:
    estimate, low, high = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("estimate", "low", "high")
    )
    truth = case.truth(aggregate)
    shown = ~np.isnan(low)
    # A group of which no row was kept is not there: its count and sum are nothing, its average nobody knows.
    known = estimate[~np.isnan(estimate)] if aggregate == "avg" else np.nan_to_num(estimate)
    held = float(((low <= truth) & (truth <= high))[shown].mean()) if shown.any() else None
    error = float(known.std() / np.sqrt(known.size) / truth)
    return Coverage(
        case.name, aggregate, estimate.size, float(shown.mean()), held, float(known.mean() / truth - 1.0), error
    )


def bench_spark(
    *, groups: int = 100, seed: int = 1, say: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Give some groups of every case to Spark, and compare its columns with the arrays, group by group."""
    import pyarrow as pa  # noqa: PLC0415 - imported only where it is used

    import penstock.functions as pf  # noqa: PLC0415 - imports Spark
    from penstock.apps.session import local_session  # noqa: PLC0415 - as above

    say("starting Spark")
    drawn = [
        (case, case.draw(np.random.default_rng((seed, number)), groups)) for number, case in enumerate(cases(seed))
    ]
    tables = [_kept_rows(number, case, weights) for number, (case, weights) in enumerate(drawn)]
    with local_session("coverage") as spark:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody calls it; imports Spark

        rows = spark.createDataFrame(pa.concat_tables(tables))
        largest = F.max("largest")
        found = (
            rows.groupBy("case", "group")
            .agg(
                *pf.count(name="rows", largest_weight=largest),
                *pf.sum("size", name="count", largest_weight=largest),
                *pf.sum("value", name="sum", largest_weight=largest),
                *pf.ratio("value", "size", name="avg", largest_weight=largest),
            )
            .orderBy("case", "group")
            .toArrow()
        )
    columns = {name: np.array(found[name].to_pylist(), dtype=float) for name in found.column_names}
    return [_compared(number, case, weights, columns) for number, (case, weights) in enumerate(drawn)]


def _kept_rows(number: int, case: Case, weights: NDArray[np.float64]) -> Any:  # noqa: ANN401 - a table of Arrow
    import pyarrow as pa  # noqa: PLC0415 - imported only where it is used

    group, row = np.nonzero(~np.isnan(weights))
    return pa.table(
        {
            "case": np.full(group.size, number),
            "group": group,
            "weight": weights[group, row],
            "value": case.amounts[row],
            "size": case.sizes[row],
            "largest": np.full(group.size, case.largest_weight),
        }
    )


def _compared(
    number: int, case: Case, weights: NDArray[np.float64], columns: dict[str, NDArray[np.float64]]
) -> dict[str, Any]:
    part = {name: column[columns["case"] == number] for name, column in columns.items()}
    seen = weights[part["group"].astype(int)]
    farthest, held, shown = 0.0, 0, 0
    for aggregate in AGGREGATES:
        wanted = case.estimate(aggregate, seen)
        # A count of keys is a sum of their sizes.
        name = "rows" if aggregate == "count" and not case.is_keyed else aggregate
        low, high = part[f"{name}_low"], part[f"{name}_high"]
        for got, expected in ((part[name], wanted.estimate), (low, wanted.low), (high, wanted.high)):
            farthest = max(farthest, _difference(got, expected))
        shown += int((~np.isnan(low)).sum())
        held += int(((low <= case.truth(aggregate)) & (case.truth(aggregate) <= high)).sum())
    return {
        "case": case.name,
        "groups": int(part["group"].size),
        "intervals": shown,
        "held": held,
        "largest_difference_ratio": farthest,
    }


def _difference(got: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """The largest relative difference; without bound where one is known and the other is not."""
    if (np.isnan(got) != np.isnan(expected)).any():
        return float("inf")
    known = ~np.isnan(got)
    return float(np.max(np.abs(got - expected)[known] / np.abs(expected[known]), initial=0.0))
