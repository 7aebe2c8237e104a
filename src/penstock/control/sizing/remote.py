"""Whether a backlog comes from a remote service that falters: then more task slots would not help."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.estimate.lagged_correlation import lagged_correlation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.sizing import UsageSignal

_FEWEST_WINDOWS = 6
_RAISED = 1.25
"""How far above its usual value, the lower quartile, a service has to be: what is as always explains no change."""
_QUARTERS = 4


@dataclass(frozen=True, slots=True)
class ServiceBlame:
    """A service that the backlog follows, how closely, and how many windows later."""

    service: str
    coefficient: float
    lag: int
    raised: float


def blamed_service(windows: Sequence[UsageSignal], *, threshold: float, max_lag: int) -> ServiceBlame | None:
    """The remote service that explains why rows are left over, or why tasks wait; None where none does.

    Rows that are left over in a window (``arrival - processed``), and busy task slots for each row, are correlated with
    the figure of each service, at lags from 0 to ``max_lag``. A service is blamed where the correlation reaches the
    threshold and the service is, in one of the last windows, 1.25 times its usual value. The backlog
    itself is not correlated: it adds up over time, so that any series with a trend would look like its cause.

    Sage (LinkedIn): "time-lagged cross-correlation with pre-configured lag and threshold values".

    Examples
    --------
    >>> from penstock.model.sizing import UsageSignal
    >>> latency = [20, 21, 20, 19, 20, 60, 62, 61, 60]
    >>> left = [0, 0, 0, 0, 0, 100, 110, 105, 108]
    >>> windows = [
    ...     UsageSignal(15.0 * i, arrival_rows_per_s=500.0, processed_rows_per_s=500.0 - row, services={"kv": ms})
    ...     for i, (row, ms) in enumerate(zip(left, latency))
    ... ]
    >>> found = blamed_service(windows, threshold=0.6, max_lag=3)
    >>> found.service, found.lag, round(found.coefficient, 2), round(found.raised, 1)
    ('kv', 0, 1.0, 3.1)
    """
    known = [each for each in windows if each.arrival_rows_per_s is not None and each.processed_rows_per_s is not None]
    if len(known) < _FEWEST_WINDOWS:
        return None
    left = [max(0.0, (each.arrival_rows_per_s or 0.0) - (each.processed_rows_per_s or 0.0)) for each in known]
    found: ServiceBlame | None = None
    for name in known[-1].services:
        if not all(name in each.services for each in known):
            continue
        values = [each.services[name] for each in known]
        usual = sorted(values)[len(values) // _QUARTERS]
        raised = max(values[-max_lag - 1 :]) / usual if usual > 0 else 1.0
        if raised < _RAISED:
            continue
        matches = [lagged_correlation(values, series, max_lag) for series in (left, _slot_s_per_row(known))]
        match = max((each for each in matches if each is not None), key=lambda each: each.coefficient, default=None)
        if match is None or match.coefficient < threshold:
            continue
        if found is None or match.coefficient > found.coefficient:
            found = ServiceBlame(name, match.coefficient, match.lag, raised)
    return found


def _slot_s_per_row(windows: Sequence[UsageSignal]) -> list[float]:
    """How long a slot is busy with a row, in parts of the slots: it rises with a service that is slower."""
    return [(each.busy_fraction or 0.0) / (each.processed_rows_per_s or math.inf) for each in windows]
