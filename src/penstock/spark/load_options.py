"""The options of the data source ``penstock.load``, read and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InvalidSettingError
from penstock.model.rows import ClicksContent, PlainContent, content_parameters
from penstock.spark.trace import load_profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.profile import LoadProfile

    Content = PlainContent | ClicksContent

FORMAT: Final = "penstock.load"
_CONTENTS: Final[Mapping[str, type[Content]]] = {"plain": PlainContent, "clicks": ClicksContent}
_COLUMNS: Final = {
    "plain": "key long, value double",
    "clicks": "ip string, userID string, eventType string",
}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The options of the source, read and checked.

    Examples
    --------
    >>> options = LoadOptions.parse({"profile": "constant:rate=100", "content": "clicks", "fraudShare": "0.1"})
    >>> options.content.fraud_share, options.partitions
    (0.1, 2)
    >>> LoadOptions.parse({"profile": "constant:rate=100", "partitions": "0"})
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidSettingError: setting 'penstock.load partitions' = '0' is not allowed: \
a whole number from 1 to 1000
    """

    profile: LoadProfile
    content: Content
    partitions: int = 2
    max_rows_per_batch: int | None = None
    start_epoch_ms: int | None = None
    first_offset: int = 0
    rows: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> LoadOptions:
        """Read options as Spark passes them; their case does not matter."""
        options = {key.lower(): value for key, value in given.items()}
        content_name = options.get("content", "plain").strip().lower()
        if content_name not in _CONTENTS:
            raise refusal("content", options["content"], f"one of {', '.join(_CONTENTS)}")
        _refuse_unknown(options, content_name)
        epoch_s = _number(options, "startEpochSeconds", 0, 1e11)
        return cls(
            profile=_profile(options),
            content=_content(options, _CONTENTS[content_name]),
            partitions=_whole(options, "partitions", 1, 1000) or 2,
            max_rows_per_batch=_whole(options, "maxRowsPerBatch", 1, 2**53),
            start_epoch_ms=None if epoch_s is None else round(epoch_s * 1000),
            first_offset=_whole(options, "firstOffset", 0, 2**53) or 0,
            rows=_whole(options, "rows", 0, 2**53),
        )

    @property
    def columns(self) -> str:
        """The schema in Spark's words."""
        content = "plain" if isinstance(self.content, PlainContent) else "clicks"
        return f"offset long, timestamp timestamp, {_COLUMNS[content]}"


_OWN_OPTIONS: Final = (
    "profile", "content", "partitions", "maxRowsPerBatch", "startEpochSeconds", "firstOffset", "rows",
)  # fmt: skip


def option_names(content: str) -> list[str]:
    """Every option that the source takes with a content.

    Examples
    --------
    >>> option_names("plain")[-3:]
    ['seed', 'keys', 'zipf']
    """
    return [*_OWN_OPTIONS, *(_camel(name) for name in content_parameters(_CONTENTS[content]))]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def refusal(option: str, value: object, allowed: str) -> InvalidSettingError:
    """The error for an option of the source that cannot be used."""
    return InvalidSettingError(f"{FORMAT} {option}", value, allowed)


def _refuse_unknown(options: Mapping[str, str], content: str) -> None:
    known = option_names(content)
    for key, value in options.items():
        if key not in {name.lower() for name in known}:
            raise refusal(key, value, f"no such option with content {content}; it takes {', '.join(known)}")


def _profile(options: Mapping[str, str]) -> LoadProfile:
    if "profile" not in options:
        raise refusal("profile", None, "it must be given, such as constant:rate=1000")
    return load_profile(options["profile"])


def _content(options: Mapping[str, str], kind: type[Content]) -> Content:
    values: dict[str, Any] = {}
    for name, number in content_parameters(kind).items():
        text = options.get(_camel(name).lower())
        if text is not None:
            values[name] = _read(_camel(name), text, whole=number is int)
    try:
        return kind(**values)
    except InvalidSettingError as error:
        raise refusal(_camel(error.key), error.value, error.allowed) from error


def _read(option: str, text: str, *, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError as error:
        raise refusal(option, text, "a whole number" if whole else "a number") from error


def _whole(options: Mapping[str, str], option: str, low: int, high: int) -> int | None:
    value = _number(options, option, low, high, whole=True)
    return None if value is None else int(value)


def _number(options: Mapping[str, str], option: str, low: float, high: float, *, whole: bool = False) -> float | None:
    text = options.get(option.lower())
    if text is None:
        return None
    value = _read(option, text, whole=whole)
    if not math.isfinite(value) or not low <= value <= high:
        raise refusal(option, text, f"a {'whole ' if whole else ''}number from {low:.16g} to {high:.16g}")
    return value
