"""A graph of elements on engines: who reads whom, and what each costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.errors import InvalidGraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Inputs(StrEnum):
    """How an element takes several inputs.

    ``MERGE`` reads them all into one buffer, so its rate is at most the sum of theirs. ``JOIN`` needs a row of each, so
    its rate is at most the smallest of theirs. ``PROPORTIONAL`` reads them all as well, but of each element before it
    its part, which is what that one would bring if nobody dropped anything: a plan that is free to choose would live on
    the cheapest input alone. What comes from outside is taken first: nobody can slow it down.
    """

    MERGE = "merge"
    JOIN = "join"
    PROPORTIONAL = "proportional"


@dataclass(frozen=True, slots=True)
class Engine:
    """Where elements run: a node of the paper, an application in Spark."""

    name: str
    cores: float = 1.0


@dataclass(frozen=True, slots=True)
class InputStream:
    """What enters the graph from outside."""

    name: str
    rate_rows_per_s: float


@dataclass(frozen=True, slots=True)
class Element:
    """One processing element: a query, or an operator of the paper.

    Parameters
    ----------
    reads
        Names of the input streams and elements whose rows it takes.
    rows_per_core_s, idle_rows_per_s
        ``a`` and ``b`` of ``h(c) = max(0, a c - b)``: the rows that ``c`` cores take in each second.
    selectivity
        Rows put out for each row taken in.
    weight
        What a row of its output is worth; None where the output is not a result of the system.
    minimum_accuracy
        Smallest share of the rows offered to it, were nothing dropped before it either, that it must take in.
    priority
        Whatever lies on higher priorities is served first.
    max_cores
        The most that it can use at once; None for all of its engine.
    waiting_rows_per_s
        Rows that wait before it already, spread over the time in which they may be taken in beside those that come.
    """

    name: str
    engine: str
    reads: tuple[str, ...]
    rows_per_core_s: float
    idle_rows_per_s: float = 0.0
    selectivity: float = 1.0
    weight: float | None = None
    minimum_accuracy: float = 0.0
    priority: int = 1
    max_cores: float | None = None
    inputs: Inputs = Inputs.MERGE
    waiting_rows_per_s: float = 0.0


@dataclass(frozen=True)
class ElementGraph:
    """Engines, input streams and elements, checked when built.

    Examples
    --------
    >>> graph = ElementGraph(
    ...     (Engine("east"), Engine("west", cores=2.0)),
    ...     (InputStream("clicks", 100.0),),
    ...     (Element("parse", "east", ("clicks",), 200.0), Element("count", "west", ("parse",), 50.0, weight=1.0)),
    ... )
    >>> graph.readers
    ((1,), ())
    >>> graph.offered_rows_per_s
    (100.0, 100.0)
    >>> ElementGraph(graph.engines, (), graph.elements)
    Traceback (most recent call last):
        ...
    penstock.errors.InvalidGraphError: element 'parse' reads 'clicks', which no element and no input stream produces
    """

    engines: tuple[Engine, ...]
    streams: tuple[InputStream, ...]
    elements: tuple[Element, ...]

    def __post_init__(self) -> None:
        _check_names([*self.engines], "engine")
        _check_names([*self.streams, *self.elements], "element or stream")
        for engine in self.engines:
            if not _is_positive(engine.cores):
                raise InvalidGraphError(f"engine {engine.name!r} has {engine.cores} cores; it needs more than zero")
        for stream in self.streams:
            if not (math.isfinite(stream.rate_rows_per_s) and stream.rate_rows_per_s >= 0):
                raise InvalidGraphError(f"stream {stream.name!r} has a rate of {stream.rate_rows_per_s} rows/s")
        for element in self.elements:
            self._check_element(element)
        if not any(element.weight is not None for element in self.elements):
            raise InvalidGraphError(
                "no element has a weight, so no output counts; give the results a weight above zero"
            )
        self.order  # noqa: B018 - finding the order finds a cycle

    def _check_element(self, element: Element) -> None:
        name = element.name
        if element.engine not in self.engine_index:
            raise InvalidGraphError(f"element {name!r} runs on {element.engine!r}, which is no engine of the graph")
        if not element.reads:
            raise InvalidGraphError(f"element {name!r} reads nothing; name the streams or elements it takes rows from")
        for source in element.reads:
            if source not in self.stream_index and source not in self.element_index:
                raise InvalidGraphError(
                    f"element {name!r} reads {source!r}, which no element and no input stream produces"
                )
        _check_numbers(element)

    @cached_property
    def engine_index(self) -> dict[str, int]:
        """Place of each engine by name."""
        return {engine.name: index for index, engine in enumerate(self.engines)}

    @cached_property
    def stream_index(self) -> dict[str, int]:
        """Place of each input stream by name."""
        return {stream.name: index for index, stream in enumerate(self.streams)}

    @cached_property
    def element_index(self) -> dict[str, int]:
        """Place of each element by name."""
        return {element.name: index for index, element in enumerate(self.elements)}

    @cached_property
    def feeders(self) -> tuple[tuple[int, ...], ...]:
        """Elements that each element reads from."""
        known = self.element_index
        return tuple(tuple(known[name] for name in element.reads if name in known) for element in self.elements)

    @cached_property
    def stream_rows_per_s(self) -> tuple[tuple[float, ...], ...]:
        """Rates of the input streams that each element reads."""
        known = self.stream_index
        return tuple(
            tuple(self.streams[known[name]].rate_rows_per_s for name in element.reads if name in known)
            for element in self.elements
        )

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Elements that read each element's output."""
        found: list[list[int]] = [[] for _ in self.elements]
        for index, feeders in enumerate(self.feeders):
            for feeder in feeders:
                found[feeder].append(index)
        return tuple(tuple(readers) for readers in found)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Elements in an order in which each comes after all that it reads."""
        waiting = [len(feeders) for feeders in self.feeders]
        ready = [index for index, count in enumerate(waiting) if count == 0]
        ordered: list[int] = []
        while ready:
            index = ready.pop()
            ordered.append(index)
            for reader in self.readers[index]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    ready.append(reader)
        if len(ordered) < len(self.elements):
            raise InvalidGraphError(f"elements read each other in a circle: {' -> '.join(self._cycle(waiting))}")
        return tuple(ordered)

    def _cycle(self, waiting: Sequence[int]) -> list[str]:
        index = next(place for place, count in enumerate(waiting) if count > 0)
        path: list[int] = []
        while index not in path:
            path.append(index)
            index = next(feeder for feeder in self.feeders[index] if waiting[feeder] > 0)
        circle = [*path[path.index(index) :], index]
        return [self.elements[place].name for place in reversed(circle)]

    @cached_property
    def offered_rows_per_s(self) -> tuple[float, ...]:
        """What each element would take in if nobody dropped anything, what waits left aside."""
        return self._if_nothing_is_dropped(waiting=False)

    @cached_property
    def available_rows_per_s(self) -> tuple[float, ...]:
        """What each element could take in if nobody dropped anything, what waits included."""
        return self._if_nothing_is_dropped(waiting=True)

    def _if_nothing_is_dropped(self, *, waiting: bool) -> tuple[float, ...]:
        rows_per_s = [0.0] * len(self.elements)
        for index in self.order:
            rates = [self.elements[feeder].selectivity * rows_per_s[feeder] for feeder in self.feeders[index]]
            rates.extend(self.stream_rows_per_s[index])
            rows_per_s[index] = min(rates) if self.elements[index].inputs is Inputs.JOIN else sum(rates)
            rows_per_s[index] += self.elements[index].waiting_rows_per_s if waiting else 0.0
        return tuple(rows_per_s)

    @cached_property
    def feeder_parts(self) -> tuple[tuple[float, ...], ...]:
        """Part of each feeder in all that the feeders of an element offer it; streams from outside are taken first.

        Examples
        --------
        >>> graph = ElementGraph(
        ...     (Engine("east"),),
        ...     (InputStream("a", 90.0), InputStream("b", 10.0)),
        ...     (
        ...         Element("left", "east", ("a",), 100.0),
        ...         Element("right", "east", ("b",), 100.0),
        ...         Element("both", "east", ("left", "right"), 100.0, weight=1.0),
        ...     ),
        ... )
        >>> graph.feeder_parts
        ((), (), (0.9, 0.1))
        """
        found = []
        for feeders in self.feeders:
            sent = [self.elements[feeder].selectivity * self.offered_rows_per_s[feeder] for feeder in feeders]
            whole = sum(sent)
            found.append(tuple(rows / whole if whole > 0 else 1.0 / len(feeders) for rows in sent))
        return tuple(found)


def _check_names(things: Iterable[Engine | InputStream | Element], what: str) -> None:
    seen: set[str] = set()
    for thing in things:
        if thing.name in seen:
            raise InvalidGraphError(f"two of the graph go by the name {thing.name!r}; each {what} needs its own")
        seen.add(thing.name)


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _check_numbers(element: Element) -> None:
    name = element.name
    if element.weight is not None and not _is_positive(element.weight):
        raise InvalidGraphError(
            f"element {name!r} has weight {element.weight}; a weight is above zero, or None for no result"
        )
    for what in ("rows_per_core_s", "selectivity"):
        if not _is_positive(getattr(element, what)):
            raise InvalidGraphError(f"element {name!r} has {what} {getattr(element, what)}; it must be above zero")
    if not (math.isfinite(element.idle_rows_per_s) and element.idle_rows_per_s >= 0):
        raise InvalidGraphError(f"element {name!r} has idle_rows_per_s {element.idle_rows_per_s}, below zero")
    if not (math.isfinite(element.waiting_rows_per_s) and element.waiting_rows_per_s >= 0):
        raise InvalidGraphError(f"element {name!r} has waiting_rows_per_s {element.waiting_rows_per_s}, below zero")
    if not 0 <= element.minimum_accuracy <= 1:
        raise InvalidGraphError(f"element {name!r} has minimum accuracy {element.minimum_accuracy}, not from 0 to 1")
    if element.max_cores is not None and not _is_positive(element.max_cores):
        raise InvalidGraphError(f"element {name!r} may use {element.max_cores} cores; it needs more than zero")
