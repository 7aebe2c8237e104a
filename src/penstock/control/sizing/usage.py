"""What is known of the use of an engine: the last windows, and histograms of all of them."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from penstock.estimate.decaying_histogram import DecayingHistogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.model.sizing import UsageSignal

_KEPT_WINDOWS = 40

Figure = str
_Window = tuple[float, dict[Figure, float]]
"""When a window was, and its figures by their names."""
_FIGURES: dict[Figure, Callable[[UsageSignal], float | None]] = {
    "heap_used_mb": lambda seen: seen.heap_used_mb,
    "heap_committed_mb": lambda seen: seen.heap_committed_mb,
    "heap_low_mb": lambda seen: seen.heap_low_mb,
    "heap_live_mb": lambda seen: seen.heap_live_mb,
    "gc_fraction": lambda seen: None if seen.gc_fraction is None else seen.gc_fraction * steady_part(seen),
    "memory_used_mb": lambda seen: seen.memory_used_mb,
    "likely_resident_mb": lambda seen: seen.likely_resident_mb,
    "python_rss_mb": lambda seen: seen.python_rss_mb,
    "python_vm_mb": lambda seen: seen.python_vm_mb,
    "jvm_rss_mb": lambda seen: seen.jvm_rss_mb,
    "off_heap_mb": lambda seen: seen.off_heap_mb,
    "cpu_fraction": lambda seen: None if seen.cpu_fraction is None else seen.cpu_fraction * steady_part(seen),
    "busy_fraction": lambda seen: None if seen.busy_fraction is None else seen.busy_fraction * steady_part(seen),
    "arrival_rows_per_s": lambda seen: seen.arrival_rows_per_s,
    "processed_rows_per_s": lambda seen: seen.processed_rows_per_s,
    "backlog_rows": lambda seen: seen.backlog_rows,
}
_WHATEVER_COLLECTIONS = ("likely_resident_mb", "memory_used_mb", "off_heap_mb", "python_rss_mb", "python_vm_mb")
"""What a window tells however long its collections took: memory is sized for the whole heap, which has its own limit,
and near that limit the collections of a window are above it as often as not."""
_OF_QUIET_WINDOWS = tuple(name for name in _FIGURES if name not in _WHATEVER_COLLECTIONS)


def figure_of(seen: UsageSignal, name: Figure) -> float | None:
    """One figure of a window by its name, as for the rows that came; None where it is unknown."""
    return _FIGURES[name](seen)


def steady_part(seen: UsageSignal) -> float:
    """Part of the work of a window that the rows that came are for; below one while a backlog is worked off.

    A backlog is worked off as fast as it can be: cores are busy and garbage is made for more rows than come. What the
    rows that come would need is in proportion.

    Examples
    --------
    >>> from penstock.model.sizing import UsageSignal
    >>> steady_part(UsageSignal(0.0, arrival_rows_per_s=800.0, processed_rows_per_s=1000.0))
    0.8
    """
    arrival, processed = seen.arrival_rows_per_s, seen.processed_rows_per_s
    return min(1.0, arrival / processed) if arrival is not None and processed else 1.0


class Usage:
    """Windows since the last change of shape, and decaying histograms over all windows that tell of real need.

    A window in which something else was short tells nothing of the need of a resource: an engine without CPU buffers
    rows, one that collects garbage all the time uses CPU for it. Such windows are left out of the histograms by
    whoever calls :meth:`add` with ``is_clean`` false. Where nothing but collections took too long (``is_burst``), it
    still tells what there is beside the heap.
    """

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._histograms: dict[Figure, DecayingHistogram] = {}
        self.recent: deque[UsageSignal] = deque(maxlen=_KEPT_WINDOWS)
        """Windows since the last change of shape."""
        self.all_windows: deque[UsageSignal] = deque(maxlen=_KEPT_WINDOWS)
        """Windows whatever the shape was: for remote services, which have nothing to do with it."""
        self.clean_windows = 0
        """Windows without pressure since the last step up."""
        self.memory_windows = 0
        """Windows since then without any pressure but that of collections: what memory is sized by."""
        self.heap_looks: list[UsageSignal] = []
        """Windows in which it was seen what lives in the heap, as it is now."""
        self._clean: deque[_Window] = deque(maxlen=_KEPT_WINDOWS)
        self._memory: deque[_Window] = deque(maxlen=_KEPT_WINDOWS)
        self._was_clean = False
        self._forgotten_s: dict[Figure, float] = {}

    def add(self, seen: UsageSignal, *, cores: float, slots: float, is_clean: bool, is_burst: bool = False) -> None:
        """Take in one window; one burst of collections is no pressure, but what was seen in it does not count."""
        was_clean, self._was_clean = self._was_clean, is_clean
        self.recent.append(seen)
        self.all_windows.append(seen)
        self._look(seen)
        self.memory_windows = self.memory_windows + 1 if is_clean or is_burst else 0
        if is_clean or is_burst:
            self._memory.append(self._keep(seen, _WHATEVER_COLLECTIONS))
        if is_clean:
            self.clean_windows += 1
            # Kept as cores and slots in use: a fraction means something else as soon as the size changes.
            in_use = {"cpu_fraction": cores, "busy_fraction": slots}
            self._clean.append(self._keep(seen, _OF_QUIET_WINDOWS, in_use))
        elif not (is_burst and was_clean):
            self.clean_windows = 0

    def _keep(self, seen: UsageSignal, names: Iterable[Figure], times: Mapping[Figure, float] | None = None) -> _Window:
        """Add figures of a window to their histograms; gives those that are known."""
        known = {name: value for name in names if (value := figure_of(seen, name)) is not None}
        values = {name: value * (times or {}).get(name, 1.0) for name, value in known.items()}
        for name, value in values.items():
            self._histograms.setdefault(name, DecayingHistogram(self._half_life_s)).add(value, seen.time_s)
        return seen.time_s, values

    def _look(self, seen: UsageSignal) -> None:
        """Keep what was seen of what lives, and forget what is too old."""
        since_s = seen.time_s - self._half_life_s
        self.heap_looks = [look for look in self.heap_looks if look.time_s > since_s]
        if seen.heap_live_mb is not None:
            self.heap_looks.append(seen)

    def on_change(self, *, is_up: bool, stale: tuple[Figure, ...], keeps_looks: bool = False) -> None:
        """Begin anew after a change of shape; figures that the change alters are forgotten."""
        self.recent.clear()
        if is_up:
            self.clean_windows = self.memory_windows = 0
        if "heap_live_mb" in stale:
            # What lives was seen for the heap that is there now: whoever has to enlarge it again goes by that.
            self.heap_looks = self.heap_looks if keeps_looks else []
        for name in stale:
            self._histograms.pop(name, None)
            if self.all_windows:
                self._forgotten_s[name] = self.all_windows[-1].time_s

    def quantile(self, name: Figure, part: float) -> float | None:
        """Of a figure over all windows, the older ones less; cores and slots for CPU and busy time."""
        histogram = self._histograms.get(name)
        return None if histogram is None else histogram.quantile(part)

    def peak(self, name: Figure, windows: int = _KEPT_WINDOWS) -> float | None:
        """The largest value of a figure in the last quiet windows, since it was last forgotten."""
        return max(self._quiet(name, self._newest(name, windows)), default=None)

    def low(self, name: Figure, windows: int) -> float | None:
        """The smallest value of a figure in the last quiet windows; of their two halves the one that is higher.

        What grows is low in the older half only; None where one of the halves tells nothing.
        """
        newest = self._newest(name, windows)
        middle = len(newest) // 2
        halves = [self._quiet(name, half) for half in (newest[:middle], newest[middle:])]
        return max(min(half) for half in halves) if all(halves) else None

    def sustained(self, name: Figure, windows: int, count: int) -> float | None:
        """The most that a figure was through ``count`` of the last quiet windows on end; None where that is unknown."""
        values = self._quiet(name, self._newest(name, windows))
        runs = [min(values[begin : begin + count]) for begin in range(len(values) - count + 1)]
        return max(runs, default=None)

    def _newest(self, name: Figure, windows: int) -> list[_Window]:
        """The last windows that tell of the need of a figure."""
        return list(self._memory if name in _WHATEVER_COLLECTIONS else self._clean)[-windows:]

    def _quiet(self, name: Figure, windows: Iterable[_Window]) -> list[float]:
        """A figure in some quiet windows, of those that tell it since it was last forgotten."""
        since_s = self._forgotten_s.get(name, -math.inf)
        return [values[name] for time_s, values in windows if time_s > since_s and name in values]

    def need(self, name: Figure, part: float, windows: int) -> float | None:
        """What a smaller size has to cover: the quantile over all windows, and the peak of the last ones."""
        quantile, peak = self.quantile(name, part), self.peak(name, windows)
        return quantile if peak is None or quantile is None else max(quantile, peak)

    def last(self, name: Figure, count: int) -> list[float] | None:
        """The newest values of a figure since the last change; None where fewer windows tell it."""
        newest = list(self.recent)[-count:]
        values = [value for seen in newest if (value := figure_of(seen, name)) is not None]
        return values if len(values) == count else None

    def most(self, name: Figure) -> float | None:
        """The largest value of a figure since the last change, quiet or not."""
        values = [value for seen in self.recent if (value := figure_of(seen, name)) is not None]
        return max(values, default=None)

    def newest(self, name: Figure) -> float | None:
        """The newest value of a figure."""
        return figure_of(self.recent[-1], name) if self.recent else None
