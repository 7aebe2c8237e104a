"""Every option of Penstock, with its default, unit, bounds and one sentence.

Values come from, weakest first: the defaults here, a TOML file, ``PENSTOCK_SECTION_KEY`` environment variables, and
arguments. The reference page is generated from this module (``penstock settings --markdown``).
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENVIRONMENT_PREFIX = "PENSTOCK_"


def _option(
    default: float | str | bool,  # noqa: FBT001 - an option's default is its first fact
    help_text: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
) -> Any:  # noqa: ANN401 - the dataclass machinery wants a field where the annotation says a plain value
    return field(default=default, metadata={"help": help_text, "unit": unit, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How the read limit of a governed query follows its goal."""

    first_batch_rows: int = _option(
        1000, "Rows that the first batch of a governed start may read, before anything is known of their cost.",
        unit="rows", low=1, high=100_000_000,
    )  # fmt: skip
    first_batch_bytes: int = _option(
        1_048_576, "Bytes that the first batch of a governed start may read from a source limited in bytes.",
        unit="bytes", low=1, high=1e12,
    )  # fmt: skip
    growth_factor: float = _option(
        4.0, "How many times the largest batch seen so far the next one may be: a cost is not trusted further.",
        unit="ratio", low=1.1, high=100,
    )  # fmt: skip
    batch_share_of_goal: float = _option(
        0.4, "Part of the latency goal that a batch may take; the other part is the wait for that batch to begin.",
        unit="ratio", low=0.05, high=1,
    )  # fmt: skip
    dead_band: float = _option(
        0.03, "A new limit that differs from the one in force by less than this share is not set.",
        unit="ratio", low=0, high=0.5,
    )  # fmt: skip
    forgetting: float = _option(
        0.97, "Weight that a batch keeps in the learned batch time with every batch that follows it.",
        unit="ratio", low=0.5, high=1,
    )  # fmt: skip
    flow_effort: float = _option(
        4.0, "Price of moving the limit against the price of a deviation in the flow law: larger is calmer.",
        unit="ratio", low=0.001, high=10_000,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SheddingSettings:
    """How much a guarded query drops when more arrives than fits."""

    drain_batches: float = _option(
        2.0, "Batches within which a backlog is to be gone; it counts as demand spread over these.",
        unit="batches", low=0.5, high=1000,
    )  # fmt: skip
    headroom: float = _option(
        0.0, "Share of the capacity that is left free when a fraction to keep is chosen.",
        unit="ratio", low=0, high=0.5,
    )  # fmt: skip
    dead_band: float = _option(
        0.01, "A fraction to keep that differs from the one in force by less than this share is not set.",
        unit="ratio", low=0, high=0.5,
    )  # fmt: skip
    smallest_keep: float = _option(
        0.001, "A fraction to keep is never below this: a weight is one over it, and must stay a number.",
        unit="ratio", low=1e-6, high=1,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where decisions and observations are kept."""

    path: str = _option("penstock.db", "File of the action log and the time series.", unit="path")
    series_days: float = _option(
        7.0, "Age at which observations are deleted; actions are kept for ever.", unit="days", low=0.01, high=3650
    )


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """What is watched, and whether Penstock may act."""

    only: bool = _option(False, "Decide and record, but do not act.")
    executors_every_s: float = _option(
        5.0, "How often CPU, heap and garbage collection of the executors are read.", unit="s", low=0.5, high=3600
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections."""

    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    shedding: SheddingSettings = field(default_factory=SheddingSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    observe: ObserveSettings = field(default_factory=ObserveSettings)

    def __post_init__(self) -> None:
        for key, option, value in self.options():
            _check(key, option, value)

    def options(self) -> Iterator[tuple[str, Field[Any], Any]]:
        """Give every option as ``section.key`` with its field and value."""
        for section in fields(self):
            holder = getattr(self, section.name)
            for option in fields(holder):
                yield f"{section.name}.{option.name}", option, getattr(holder, option.name)

    def with_values(self, values: Mapping[str, object]) -> Settings:
        """Give a copy with ``section.key`` values replaced; unknown keys and bad values are errors.

        Examples
        --------
        >>> Settings().with_values({"admission.growth_factor": 2}).admission.growth_factor
        2.0
        >>> Settings().with_values({"admission.growth": 2})
        Traceback (most recent call last):
            ...
        penstock.errors.InvalidSettingError: setting 'admission.growth' = 2 is not allowed: \
no such setting; did you mean 'admission.growth_factor'?
        """
        known = {key: option for key, option, _ in self.options()}
        changed: dict[str, dict[str, object]] = {}
        for key, value in values.items():
            if key not in known:
                raise InvalidSettingError(key, value, _unknown(key, list(known)))
            section, name = key.split(".", 1)
            changed.setdefault(section, {})[name] = _convert(key, known[key], value)
        sections = {name: replace(getattr(self, name), **new) for name, new in changed.items()}
        return replace(self, **sections)


def load_settings(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, object] | None = None,
) -> Settings:
    """Settings from a TOML file, then environment variables, then arguments; later ones win."""
    settings = Settings()
    if path is not None:
        settings = settings.with_values(_from_toml(Path(path)))
    if environment is not None:
        settings = settings.with_values(_from_environment(environment))
    return settings.with_values(arguments) if arguments else settings


def _from_toml(path: Path) -> dict[str, object]:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettingError("file", str(path), f"cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettingError("file", str(path), f"not valid TOML ({error})") from error
    values: dict[str, object] = {}
    for section, content in tree.items():
        if not isinstance(content, dict):
            raise InvalidSettingError(section, content, f"a top-level key must be a section: [{section}]")
        values.update({f"{section}.{key}": value for key, value in content.items()})
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    by_variable = {environment_variable(key): key for key, _, _ in Settings().options()}
    values: dict[str, object] = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable not in by_variable:
            raise InvalidSettingError(variable, text, _unknown(variable, list(by_variable)))
        values[by_variable[variable]] = text
    return values


def environment_variable(key: str) -> str:
    """Name of the environment variable of a setting.

    Examples
    --------
    >>> environment_variable("store.path")
    'PENSTOCK_STORE_PATH'
    """
    return ENVIRONMENT_PREFIX + key.replace(".", "_").upper()


def allowed_values(option: Field[Any]) -> str:
    """Say in words what an option may be."""
    kind: type[object] = type(option.default)
    if kind is bool:
        return "true or false"
    if kind is str:
        return "a text that is not empty"
    noun = "a whole number" if kind is int else "a number"
    return f"{noun} from {option.metadata['low']:g} to {option.metadata['high']:g} {option.metadata['unit']}".rstrip()


def _convert(key: str, option: Field[Any], value: object) -> object:
    kind: type[object] = type(option.default)
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        raise InvalidSettingError(key, value, allowed_values(option))
    if kind is str:
        return str(value)
    try:
        number = float(cast("str", value)) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError) as error:
        raise InvalidSettingError(key, value, allowed_values(option)) from error
    if kind is int:
        if not math.isfinite(number) or number != int(number):
            raise InvalidSettingError(key, value, allowed_values(option))
        return int(number)
    return number


def _check(key: str, option: Field[Any], value: object) -> None:
    if isinstance(value, bool) or isinstance(option.default, bool):
        acceptable = isinstance(value, bool) and isinstance(option.default, bool)
    elif isinstance(option.default, str):
        acceptable = isinstance(value, str) and bool(value.strip())
    else:
        low, high = option.metadata["low"], option.metadata["high"]
        acceptable = isinstance(value, int | float) and math.isfinite(value) and low <= value <= high
    if not acceptable:
        raise InvalidSettingError(key, value, allowed_values(option))


def _unknown(key: str, known: list[str]) -> str:
    import difflib  # noqa: PLC0415 - only a mistake needs it

    close = difflib.get_close_matches(key, known, n=1)
    return f"no such setting; did you mean {close[0]!r}?" if close else f"no such setting; known: {', '.join(known)}"
