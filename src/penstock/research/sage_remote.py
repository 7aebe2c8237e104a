"""The remote-service rule on its own: a backlog because a service falters, and the same backlog without that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.sizing.base import SizingContext
from penstock.control.sizing.parallelism_up import ParallelismUp
from penstock.control.sizing.usage import Usage
from penstock.model.sizing import EngineShape, UsageSignal
from penstock.research.sage_fleet import WINDOW_S
from penstock.settings import SizingSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WINDOWS = 60
_BEGINS = 36
_PATIENCE = 12
"""Windows after the backlog began within which a scale-up is due."""


@dataclass(frozen=True, slots=True)
class RemoteCase:
    """One case: whether the service was the cause, what was called, and in which window."""

    seed: int
    is_remote: bool
    shape: str
    scaled_after_windows: int | None

    @property
    def is_false_call(self) -> bool:
        """Scaled up although the service was the cause."""
        return self.is_remote and self.scaled_after_windows is not None

    @property
    def is_missed(self) -> bool:
        """Not scaled up although the service was not the cause."""
        return not self.is_remote and self.scaled_after_windows is None


def run_case(seed: int) -> RemoteCase:
    """One seeded case; even seeds have a service that falters, odd ones the same backlog from rows that came.

    Of the odd ones, half have a service with a spike of its own that has nothing to do with the backlog.
    """
    chance = np.random.default_rng([seed, 7])
    is_remote = seed % 2 == 0
    shape = ("step", "ramp", "waves")[seed // 2 % 3]
    cause = _cause(chance, shape)
    latency = 20.0 * np.exp(_noise(chance, chance.uniform(0.03, 0.12)))
    arrival = 1000.0 * (1.0 + 0.03 * chance.standard_normal(_WINDOWS))
    capacity = 1000.0 * chance.uniform(1.05, 1.25) * (1.0 + 0.03 * chance.standard_normal(_WINDOWS))
    delay = int(chance.integers(0, 3))
    late = np.concatenate([np.ones(delay), cause[: _WINDOWS - delay]])
    if is_remote:
        latency *= cause
        capacity /= late
    else:
        arrival *= late
        if seed % 4 == 1:
            at = int(chance.integers(4, _BEGINS - 8))
            latency[at : at + 4] *= chance.uniform(1.5, 4.0)
    return RemoteCase(seed, is_remote, shape, _scaled(arrival, capacity, latency))


def _cause(chance: np.random.Generator, shape: str) -> NDArray[np.float64]:
    """By how much the service slows down, or the load rises, in every window."""
    factor = np.ones(_WINDOWS)
    height = chance.uniform(1.6, 3.5)
    if shape == "step":
        factor[_BEGINS:] = height
    elif shape == "ramp":
        factor[_BEGINS:] = np.interp(np.arange(_WINDOWS - _BEGINS), [0, 8], [1.2, height])
    else:
        waves = 1.0 + (height - 1.0) * (0.7 + 0.3 * np.sin(np.arange(_WINDOWS - _BEGINS)))
        factor[_BEGINS:] = waves
    return factor


def _noise(chance: np.random.Generator, size: float) -> NDArray[np.float64]:
    noise = np.zeros(_WINDOWS)
    for window in range(1, _WINDOWS):
        noise[window] = 0.7 * noise[window - 1] + size * chance.standard_normal()
    return noise


def _scaled(arrival: NDArray[np.float64], capacity: NDArray[np.float64], latency: NDArray[np.float64]) -> int | None:
    """Windows from the beginning of the cause to the first decision for more task slots; None without one."""
    settings, usage, policy = SizingSettings(), Usage(3600.0), ParallelismUp()
    shape = EngineShape(4, 1024, 384, cores=2)
    backlog = 0.0
    for window in range(_WINDOWS):
        done = min(arrival[window] + backlog / WINDOW_S, capacity[window])
        backlog = max(0.0, backlog + (arrival[window] - done) * WINDOW_S)
        seen = UsageSignal(
            WINDOW_S * window, backlog_rows=float(backlog), arrival_rows_per_s=float(arrival[window]),
            processed_rows_per_s=float(done), services={"service": float(latency[window])},
        )  # fmt: skip
        usage.add(seen, cores=8, slots=8, is_clean=False)
        if policy.judge(SizingContext(shape, usage, settings)).decision is not None:
            return window - _BEGINS
        if window >= _BEGINS + _PATIENCE and backlog > 0:
            break
    return None


def remote_table(cases: int = 100) -> list[dict[str, int | float | str]]:
    """False and missed calls of the rule over seeded cases."""
    found = [run_case(seed) for seed in range(cases)]
    rows: list[dict[str, int | float | str]] = []
    for is_remote, name in ((True, "service falters"), (False, "more rows come")):
        own = [case for case in found if case.is_remote is is_remote]
        scaled = [case.scaled_after_windows for case in own if case.scaled_after_windows is not None]
        rows.append(
            {
                "cause": name,
                "cases": len(own),
                "scaled_up": len(scaled),
                "false_calls": sum(case.is_false_call for case in own),
                "missed_calls": sum(case.is_missed for case in own),
                "mean_windows_to_scale": float(np.mean(scaled)) if scaled else "-",
            }
        )
    return rows
