"""When an application may be started again for another shape."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import InvalidSettingError

NEVER, ANY_TIME = "never", "any time"
_KEY = "sizing.restart"
_DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class RestartHours:
    """Spans of minutes after midnight, each up to but without its end; one may go over midnight.

    Examples
    --------
    >>> night = RestartHours.parse("22:30-04:00, 12:00-13:00")
    >>> [night.allow(minute) for minute in (23 * 60, 3 * 60 + 59, 4 * 60, 12 * 60 + 30)]
    [True, True, False, True]
    >>> RestartHours.parse("never").is_never, RestartHours.parse("any time").allow(0)
    (True, True)
    """

    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> RestartHours:
        """Hours as a setting has them.

        Raises
        ------
        InvalidSettingError
            For anything but ``never``, ``any time`` and spans such as ``02:00-04:30``, by commas.
        """
        clean = text.strip().lower()
        if clean == NEVER:
            return cls()
        if clean == ANY_TIME:
            return cls(((0, _DAY_MINUTES),))
        return cls(tuple(_span(each.strip(), text) for each in clean.split(",")))

    @property
    def is_never(self) -> bool:
        """Whether there is no such time."""
        return not self.spans

    def allow(self, minute: int) -> bool:
        """Whether a minute of the day lies in one of the spans."""
        return any(
            begin <= minute < end if begin < end else minute >= begin or minute < end for begin, end in self.spans
        )


def _span(text: str, whole: str) -> tuple[int, int]:
    begin, found, end = text.partition("-")
    minutes = [_minute(each) for each in (begin, end)]
    if not found or None in minutes or minutes[0] == minutes[1]:
        raise InvalidSettingError(_KEY, whole, "'never', 'any time', or hours such as '02:00-04:30', by commas")
    return minutes[0], minutes[1]  # type: ignore[return-value]


def _minute(text: str) -> int | None:
    hours, found, minutes = text.strip().partition(":")
    if not (found and hours.isdecimal() and minutes.isdecimal() and int(minutes) < 60):  # noqa: PLR2004 - an hour has 60
        return None
    minute = int(hours) * 60 + int(minutes)
    return minute if minute <= _DAY_MINUTES else None
