"""What the ACES paper claims and what better than the paper would be, against what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.research.aces import LOCK_STEPS
from penstock.research.element_policies import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.research.aces import Row

RIVALS = (Policy.UDP, *LOCK_STEPS)
SMALLEST_COMPARED_ROWS = 2
SMALL_BUFFER_GAIN = 0.20
SMALL_BUFFERS_ROWS = (1, 5)
LARGE_BUFFER_ROWS = 50
OF_OPTIMUM = 0.93
LATENCY_RATIO = 0.5


def check_buffers(rows: Sequence[Row]) -> list[Row]:
    """Claims over buffer sizes (figures 3 and 4), for each clock that was run."""
    checks = []
    for clock, own in _by_clock(rows):
        compared = [row for row in own if _number(row["buffer_rows"]) >= SMALLEST_COMPARED_ROWS]
        checks += [_least_gain(clock, compared, rival, "buffer_rows") for rival in RIVALS]
        least, most = SMALL_BUFFERS_ROWS
        small = [row for row in own if least <= _number(row["buffer_rows"]) <= most]
        checks.append(
            _least_gain(clock, small, Policy.LOCK_STEP_SLEEPS_10MS, "buffer_rows", SMALL_BUFFER_GAIN, "1 to 5 rows: ")
        )
        large = [row for row in _of(own, Policy.ACES) if _number(row["buffer_rows"]) >= LARGE_BUFFER_ROWS]
        if large:
            worst = min(large, key=lambda row: _number(row["of_log_optimum"]))
            name = f"of the logarithmic optimum, buffer of {_number(worst['buffer_rows']):.0f} rows"
            half = worst["of_log_optimum_half_width_95"]
            checks.append(_check(clock, name, _number(worst["of_log_optimum"]), half, OF_OPTIMUM))
    return checks


def check_burstiness(rows: Sequence[Row]) -> list[Row]:
    """Claims over burstiness (figure 5): above the others everywhere but at the lowest."""
    checks = []
    for clock, own in _by_clock(rows):
        lowest = min(_number(row["burstiness_rows"]) for row in own)
        compared = [row for row in own if _number(row["burstiness_rows"]) > lowest]
        checks += [_least_gain(clock, compared, rival, "burstiness_rows") for rival in RIVALS]
    return checks


def check_equal(rows: Sequence[Row]) -> list[Row]:
    """Latency at equal throughput, at its largest."""
    checks = []
    for clock, own in _by_clock(rows):
        worst = max(own, key=lambda row: _number(row["latency_ratio"]))
        name = f"latency over {worst['rival']} at equal throughput, buffer of {_number(worst['buffer_rows']):.0f} rows"
        half = worst["latency_ratio_half_width_95"]
        checks.append(_check(clock, name, _number(worst["latency_ratio"]), half, LATENCY_RATIO, above=False))
    return checks


def _least_gain(clock: str, rows: Sequence[Row], rival: Policy, by: str, bound: float = 0.0, where: str = "") -> Row:
    worst = min(_of(rows, rival), key=lambda row: _number(row["gain_of_aces"]))
    name = f"{where}least gain over {rival.value}, {by} {_number(worst[by]):g}"
    return _check(clock, name, _number(worst["gain_of_aces"]), worst["gain_of_aces_half_width_95"], bound)


def _check(
    clock: str, claim: str, value: float, half_width: float | str | None, bound: float, *, above: bool = True
) -> Row:
    """One claim: ``tie`` where the interval has the bound in it, so that nobody can tell."""
    margin = value - bound if above else bound - value
    is_tie = isinstance(half_width, int | float) and abs(margin) <= half_width
    verdict = "yes" if margin >= 0 and not is_tie else "tie" if is_tie else "no"
    return {"clock": clock, "claim": claim, "value": value, "half_width_95": half_width, "bound": bound, "is": verdict}


def _by_clock(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    clocks = list(dict.fromkeys(str(row["clock"]) for row in rows))
    return [(clock, [row for row in rows if row["clock"] == clock]) for clock in clocks]


def _of(rows: Sequence[Row], policy: Policy) -> list[Row]:
    return [row for row in rows if row["policy"] == policy.value]


def _number(value: float | str | None) -> float:
    assert isinstance(value, int | float)
    return float(value)
