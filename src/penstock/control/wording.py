"""The sentences with which the tiers explain themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.control.demand import Demand
    from penstock.control.feasibility import Capacity
    from penstock.control.planned_load import KeepChoice, PlannedLoad
    from penstock.estimate.batch_time import BatchTimeModel
    from penstock.model import BatchSignal, SourceSpec

_NEARLY = 0.99


def number_of_executors(count: int) -> str:
    """So many executors in words.

    Examples
    --------
    >>> number_of_executors(1), number_of_executors(3)
    ('1 executor', '3 executors')
    """
    return "1 executor" if count == 1 else f"{count} executors"


def first_limit(units: int, spec: SourceSpec, *, is_warm: bool) -> str:
    """Why the first batch is small."""
    if is_warm:
        return f"an earlier run processed more with ease, so the first batch reads at most {units:,} {spec.unit}"
    return f"nothing is known of the cost yet, so the first batch reads at most {units:,} {spec.unit}"


def ignored_limit(spec: SourceSpec, units: float, limit_units: int) -> str:
    """Why a source is unmanaged after all."""
    return (
        f"{spec.description} read {units:,.0f} rows against a limit of {limit_units:,}: "
        "it does not obey read limits and is unmanaged from now on"
    )


def overhead_too_large(overhead_s: float, target_s: float, batch_s: float) -> str:
    """Why a goal cannot be met by any batch."""
    return (
        f"a batch takes {overhead_s:.2f} s before its first row, and the goal allows {target_s:.2f} s in all: such "
        f"batches could not keep up with what arrives, so they may take {batch_s:.2f} s"
    )


def limit_after_first(signal: BatchSignal, rows: float) -> str:
    """Why the limit that follows on the first batch is what it is."""
    return (
        f"batch {signal.batch_id} took {signal.duration_s:.2f} s for {signal.work_rows:,} rows, code generation and "
        f"cold workers included: {rows:,.0f} are within the goal though all of that were their cost"
    )


def limit(
    signal: BatchSignal,
    model: BatchTimeModel,
    *,
    target_s: float,
    fits_rows: float,
    budget_rows: float,
    read_rows: float,
    largest_rows: float,
    growth_factor: float,
) -> str:
    """Why a limit is what it is."""
    reason = (
        f"batch {signal.batch_id} took {signal.duration_s:.2f} s for {signal.work_rows:,} rows; learned "
        f"{model.overhead_s:.2f} s + {model.read_cost_s * 1e6:.2f} us per row read + {model.work_cost_s * 1e6:.2f} us "
        f"per row kept, so {fits_rows:,.0f} rows fit into {target_s:.2f} s"
    )
    if budget_rows > fits_rows / _NEARLY:
        reason += f", but the model is uncertain: probing with {budget_rows:,.0f} rows"
    elif budget_rows < _NEARLY * fits_rows and budget_rows >= _NEARLY * growth_factor * largest_rows:
        reason += f", but no batch is above {largest_rows:,.0f} yet: at most {growth_factor:g} times that"
    elif budget_rows < _NEARLY * fits_rows:
        reason += f"; reduced to {budget_rows:,.0f} for the backlog in flight"
    if read_rows > budget_rows / _NEARLY:
        reason += f"; up to {read_rows:,.0f} may be read, since a planned batch can drop rows"
    if read_rows < _NEARLY * budget_rows:
        reason += f"; no more than {read_rows:,.0f}, for the sake of the queries that it feeds and shares cores with"
    return reason


def keep(load: PlannedLoad, choice: KeepChoice, ratio: float) -> str:
    """Why a batch keeps a ratio of its rows."""
    if ratio >= 1.0 and choice.late_rows >= 1:
        reason = (
            f"about {choice.late_rows:,.0f} of {load.rows:,.0f} rows are late already and are kept at the floor; the "
            f"others fit, with {choice.predicted_s:.2f} s for all: none of them is dropped"
        )
    elif ratio >= 1.0:
        reason = f"{load.rows:,.0f} rows take {choice.predicted_s:.2f} s and fit: nothing is dropped"
    elif choice.most_rows is not None:
        reason = (
            f"{load.rows:,.0f} rows wait for this batch, of which the plan of its graph gives it "
            f"{choice.most_rows:,.0f}: it keeps {ratio:.1%} of rows"
        )
    else:
        reason = (
            f"{load.rows:,.0f} rows wait for this batch and {load.arrival_rows_per_s:,.0f} arrive each second, more "
            f"than fit into {load.batch_s:.2f} s: it keeps {ratio:.1%} of rows"
        )
    if choice.late_rows >= 1 and ratio < 1.0:
        reason += f"; about {choice.late_rows:,.0f} that are late already go first"
    if ratio < choice.ratio:
        reason += f"; it yields capacity to other queries, alone it would keep {choice.ratio:.1%}"
    if ratio > choice.ratio:
        reason += f"; queries of lower priority yield capacity to it, alone it would keep {choice.ratio:.1%}"
    return reason


def infeasible(signal: BatchSignal, demand: Demand, capacity: Capacity) -> str:
    """Why the goal cannot be met with what there is."""
    fits, batch_s = capacity.fits_rows, capacity.batch_s
    held = f"at the minimum accuracy of {demand.keep_ratio:g}" if demand.keep_ratio < 1.0 else "without dropping any"
    return (
        f"{signal.lag_rows:,.0f} rows wait and {capacity.arrival_rows_per_s:,.0f} arrive each second, while "
        f"{fits:,.0f} fit into a batch of {batch_s:.2f} s, which is {fits / batch_s:,.0f} a second: too "
        f"little {held}; batches stay short, but rows wait longer than the goal"
    )
