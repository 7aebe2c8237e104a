"""The sentences with which the fast tier explains itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.control.keep import KeepDecision
    from penstock.estimate.batch_time import BatchTimeModel
    from penstock.model import BatchSignal, SourceSpec

_NEARLY = 0.99


def first_limit(units: int, spec: SourceSpec, *, recalled: bool) -> str:
    """Why the first batch is small."""
    if recalled:
        return (
            f"an earlier run of the query took more with ease, so the first batch reads at most {units:,} {spec.unit}"
        )
    return f"nothing is known of the cost yet, so the first batch reads at most {units:,} {spec.unit}"


def ignored_limit(spec: SourceSpec, units: float, limit_units: int) -> str:
    """Why a source is left alone after all."""
    return (
        f"{spec.description} read {units:,.0f} rows against a limit of {limit_units:,}: "
        "it does not obey read limits and is left alone"
    )


def overhead_too_large(overhead_s: float, target_s: float, batch_s: float) -> str:
    """Why a goal cannot be met by any batch."""
    return (
        f"a batch takes {overhead_s:.2f} s before its first row, and the goal allows {target_s:.2f} s in all: such "
        f"batches could not keep up with what arrives, so they may take {batch_s:.2f} s"
    )


def limit(
    signal: BatchSignal,
    model: BatchTimeModel,
    *,
    target_s: float,
    fits_rows: float,
    budget_rows: float,
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
        return reason + f", but that is not sure yet: {budget_rows:,.0f} will tell"
    if budget_rows >= _NEARLY * fits_rows:
        return reason
    if budget_rows >= _NEARLY * growth_factor * largest_rows:
        return reason + f", but no batch above {largest_rows:,.0f} was seen yet: at most {growth_factor:g} times that"
    return reason + f"; {budget_rows:,.0f} with a view to the batch in flight"


def keep(decision: KeepDecision, fraction: float, fits_rows: float, from_batch: int, wanted: float) -> str:
    """Why a share of the rows is kept; ``wanted`` is what it is to be once certain."""
    if fraction >= 1.0:
        reason = f"{decision.demand_rows:,.0f} rows a batch fit, so nothing is dropped from batch {from_batch} on"
    else:
        reason = (
            f"{decision.demand_rows:,.0f} rows a batch arrive or wait, and {fits_rows:,.0f} fit: "
            f"{fraction:.1%} are kept from batch {from_batch} on"
        )
    if decision.late_rows >= 1:
        reason += f"; {decision.late_rows:,.0f} that are late already go first"
    if wanted < decision.fraction:
        reason += f"; it gives way to the engine's other queries, alone it would keep {decision.fraction:.1%}"
    if wanted > decision.fraction:
        reason += f"; queries of lower priority give way for it, alone it would keep {decision.fraction:.1%}"
    return reason if fraction == wanted else f"{reason}, on the way to {wanted:.1%}"


def give_way(fraction: float, from_batch: int) -> str:
    """Why a share of the rows is kept by a query whose own capacity is not known yet."""
    if fraction >= 1.0:
        return f"the engine's other queries leave room for all of it: nothing is dropped from batch {from_batch} on"
    return f"it gives way to the engine's other queries: {fraction:.1%} are kept from batch {from_batch} on"


def infeasible(
    signal: BatchSignal, decision: KeepDecision, fits_rows: float, target_s: float, arrivals_rows_per_s: float
) -> str:
    """Why the goal cannot be met with what there is."""
    held = f"at the minimum accuracy of {decision.fraction:g}" if decision.fraction < 1.0 else "without dropping any"
    return (
        f"{signal.lag_rows:,.0f} rows wait and {arrivals_rows_per_s:,.0f} arrive each second, while "
        f"{fits_rows:,.0f} fit into a batch of {target_s:.2f} s, which is {fits_rows / target_s:,.0f} a second: too "
        f"little {held}; batches stay short, but rows wait longer than the goal"
    )
