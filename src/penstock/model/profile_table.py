"""Load profiles from tables in text files."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.errors import InvalidProfileError
from penstock.model.profile import LoadProfile
from penstock.model.profile_checks import Interpolation, check_rate, check_span, read_number, short

if TYPE_CHECKING:
    from collections.abc import Sequence


def parse_table(
    text: str,
    *,
    rate_per_thread: float = 1.0,
    interpolation: Interpolation = Interpolation.CONSTANT,
    gaps: str = "refuse",
) -> LoadProfile:
    r"""Read a table with the header ``second,rate`` or ``seconds,threads``; empty lines and ``#`` lines are skipped.

    In a table of rates all steps must be as long as the shortest, unless ``gaps`` is "hold": a missing line would
    otherwise pass for a rate that did not change.

    Examples
    --------
    >>> parse_table("second,rate\n0,100\n60,300\n").total_rows
    24000
    >>> parse_table("second,rate\n0,100\n60,-300\n")
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidProfileError: load profile: line 3: rate = '-300' is not allowed: a number from 0 to 1e+12
    """
    if gaps not in {"refuse", "hold"}:
        raise InvalidProfileError(f"load profile: gaps = {gaps!r} is not allowed: refuse or hold")
    numbered = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, line) for number, line in numbered if line and not line.startswith("#")]
    if not lines:
        raise InvalidProfileError("load profile: the file is empty; it must begin with second,rate or seconds,threads")
    header = lines[0][1].lower().replace(" ", "").lstrip("\ufeff")
    if header not in {"second,rate", "seconds,threads"}:
        raise InvalidProfileError(
            f"load profile: line {lines[0][0]}: header {short(lines[0][1])} is neither second,rate nor seconds,threads"
        )
    names = header.split(",")
    table = [(number, *_read_line(number, line, names)) for number, line in lines[1:]]
    if header == "seconds,threads":
        return LoadProfile.from_threads([(span, threads) for _, span, threads in table], rate_per_thread)
    _check_steps(table, gaps)
    return LoadProfile.from_rates([(second, rate) for _, second, rate in table], interpolation)


def _read_line(number: int, line: str, names: Sequence[str]) -> tuple[float, float]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(names):
        raise InvalidProfileError(f"load profile: line {number}: {short(line)} must be {','.join(names)}")
    try:
        first, second = (read_number(name, cell) for name, cell in zip(names, cells, strict=True))
        if names[0] == "seconds":
            check_span("seconds", first, shown=cells[0])
        check_rate(names[1], second, shown=cells[1])
    except InvalidProfileError as error:
        raise InvalidProfileError(
            f"load profile: line {number}: {str(error).removeprefix('load profile: ')}"
        ) from error
    return first, second


def _check_steps(table: Sequence[tuple[int, float, float]], gaps: str) -> None:
    steps = [(line, second - before, before) for (_, before, _), (line, second, _) in pairwise(table)]
    for line, step, before in steps:
        if step <= 0:
            raise InvalidProfileError(
                f"load profile: line {line}: second = {before + step:g} is not allowed: more than {before:g} before it"
            )
    shortest = min((step for _, step, _ in steps), default=0.0)
    for line, step, before in steps:
        if gaps == "refuse" and step > shortest * (1 + 1e-6):
            raise InvalidProfileError(
                f"load profile: line {line}: a gap of {step:g} seconds after second {before:g}, where lines are "
                f"{shortest:g} seconds apart: add the missing lines, or write gaps=hold to keep the rate over gaps"
            )
