"""The text form of load profiles: ``shape:key=value,...``, ``file:PATH`` or JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidProfileError
from penstock.model.profile import LoadProfile
from penstock.model.profile_checks import Interpolation, check_rate, choice, read_number, read_whole, short
from penstock.model.profile_table import parse_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class _Shape:
    build: Callable[..., LoadProfile]
    required: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)


_SHAPES: Final[Mapping[str, _Shape]] = {
    "constant": _Shape(LoadProfile.constant, {"rate": "rate"}, {"seconds": "seconds"}),
    "ramp": _Shape(LoadProfile.ramp, {"from": "from_rate", "to": "to_rate", "seconds": "seconds"}),
    "step": _Shape(LoadProfile.step, {"from": "from_rate", "to": "to_rate", "at": "at_s", "seconds": "seconds"}),
    "levels": _Shape(LoadProfile.levels, {"rates": "rates", "each": "each_s"}),
    "sine": _Shape(
        LoadProfile.sine,
        {"mean": "mean_rate", "amplitude": "amplitude_rate", "period": "period_s", "seconds": "seconds"},
    ),
    "gaussian": _Shape(LoadProfile.gaussian, {"peak": "peak_rate", "seconds": "seconds"}, {"sigma": "sigma_s"}),
    "bursts": _Shape(
        LoadProfile.bursts,
        {name: name for name in ("mean_low_s", "mean_high_s", "seconds")} | {"low": "low_rate", "high": "high_rate"},
        {"seed": "seed"},
    ),
}
_COMMON: Final = ("end", "backlog", "height", "time")
_FILE_KEYS: Final = ("rate_per_thread", "interpolation", "gaps")


def parse_profile(text: str, *, read_text: Callable[[str], str] | None = None) -> LoadProfile:
    """Read a profile from its text form: ``shape:key=value,...`` or ``file:PATH`` or JSON.

    Every shape also takes ``end`` (stop, hold, repeat), ``backlog`` (rows at time 0), and the factors ``height`` and
    ``time``. A file takes ``rate_per_thread``, ``interpolation`` (constant, linear) and ``gaps`` (refuse, hold) too.

    Parameters
    ----------
    text
        The text form.
    read_text
        Gives the content of the file at a path; without it ``file:`` is an error.

    Examples
    --------
    >>> parse_profile("step:from=1000,to=9000,at=30,seconds=60").total_rows
    300000
    >>> parse_profile("levels:rates=10/20/10,each=60,end=repeat").rate_at(90)
    20.0
    >>> parse_profile("square:rate=5")
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidProfileError: load profile 'square:rate=5': no shape 'square'; known shapes: \
constant, ramp, step, levels, sine, gaussian, bursts, file
    """
    text = text.strip()
    if text.startswith("{"):
        return LoadProfile.from_json(text)
    shape, _, rest = text.partition(":")
    try:
        if shape == "file":
            return _parse_file(rest, read_text)
        return _parse_shape(shape, rest)
    except InvalidProfileError as error:
        raise InvalidProfileError(f"load profile {short(text)}: {str(error).removeprefix('load profile: ')}") from error


def _pairs(rest: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in rest.split(",") if rest.strip() else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value:
            raise InvalidProfileError(f"part {part.strip()!r} is not of the form key=value")
        if key in pairs:
            raise InvalidProfileError(f"part {key!r} is given twice")
        pairs[key] = value
    return pairs


def _parse_shape(name: str, rest: str) -> LoadProfile:
    if name not in _SHAPES:
        raise InvalidProfileError(f"no shape {name!r}; known shapes: {', '.join(_SHAPES)}, file")
    shape, pairs = _SHAPES[name], _pairs(rest)
    names = {**shape.required, **shape.optional}
    _refuse_unknown(pairs, [*names, *_COMMON], f"shape {name}")
    missing = [key for key in shape.required if key not in pairs]
    if missing:
        raise InvalidProfileError(f"shape {name} lacks {', '.join(missing)}; it takes {', '.join(names)}")
    arguments = {names[key]: _shape_value(key, value) for key, value in pairs.items() if key in names}
    return _with_common(shape.build(**arguments), pairs)


def _shape_value(key: str, value: str) -> float | int | list[float]:
    if key == "rates":
        rates = [read_number(key, level) for level in value.split("/")]
        for rate in rates:
            check_rate(key, rate)
        return rates
    return read_whole(key, value) if key == "seed" else read_number(key, value)


def _with_common(profile: LoadProfile, pairs: Mapping[str, str]) -> LoadProfile:
    factors = {key: read_number(key, pairs[key]) for key in ("height", "time") if key in pairs}
    profile = profile.scaled(**factors)
    if "backlog" in pairs:
        profile = profile.with_backlog(read_whole("backlog", pairs["backlog"]))
    return profile.ending(pairs["end"]) if "end" in pairs else profile


def _refuse_unknown(pairs: Mapping[str, str], known: Sequence[str], what: str) -> None:
    for key in pairs:
        if key not in known:
            raise InvalidProfileError(f"{what} has no part {key!r}; it takes {', '.join(known)}")


def _parse_file(rest: str, read_text: Callable[[str], str] | None) -> LoadProfile:
    # From the right, so that a path may hold commas and equal signs of its own.
    options: list[str] = []
    while "," in rest and rest.rpartition(",")[2].partition("=")[0].strip() in (*_COMMON, *_FILE_KEYS):
        rest, _, option = rest.rpartition(",")
        options.insert(0, option)
    path, pairs = rest.strip(), _pairs(",".join(options))
    if not path:
        raise InvalidProfileError("the path of the file is missing: write file:PATH")
    if read_text is None:
        raise InvalidProfileError("files cannot be read here; give the profile itself, as JSON or as a shape")
    profile = parse_table(
        read_text(path),
        rate_per_thread=read_number("rate_per_thread", pairs.get("rate_per_thread", "1")),
        interpolation=Interpolation(choice("interpolation", pairs.get("interpolation", "constant"), Interpolation)),
        gaps=pairs.get("gaps", "refuse"),
    )
    return _with_common(profile, pairs)
