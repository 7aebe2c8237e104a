"""Random graphs of elements on engines, with the parameters of the ACES paper."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import InvalidSettingError
from penstock.model.graph import Element, ElementGraph, Engine, InputStream

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TopologyShape:
    """What random graphs have in common; the defaults are section VI-C of the paper where it says something.

    Parameters
    ----------
    elements, engines, cores
        Size of the graph, and cores of every engine.
    ingress_share, egress_share, layers
        Share of elements that read from outside and whose output counts; the others lie in the layers between.
    max_readers, max_feeders, branching_share
        Largest fan-out and fan-in, and the share of elements with several readers or feeders.
    fast_s, slow_s, slow_share
        ``T_0``, ``T_1`` and ``rho``: CPU time of a row in each state, and the share of time in the slow one.
    selectivity
        ``lambda_m``: mean rows put out for one taken in.
    smallest_weight, largest_weight
        Weights of outputs are drawn between these.
    load
        Rows offered, as a multiple of an even share of all cores.
    """

    elements: int = 200
    engines: int = 80
    cores: int = 1
    ingress_share: float = 0.16
    egress_share: float = 0.24
    layers: int = 5
    max_readers: int = 4
    max_feeders: int = 3
    branching_share: float = 0.2
    fast_s: float = 0.002
    slow_s: float = 0.020
    slow_share: float = 0.5
    selectivity: float = 1.0
    smallest_weight: float = 1.0
    largest_weight: float = 5.0
    load: float = 1.5

    def __post_init__(self) -> None:
        if self.layers < 2:  # noqa: PLR2004 - an ingress and an egress
            raise InvalidSettingError("layers", self.layers, "at least an ingress and an egress")
        if self.elements < 2 * self.layers:
            raise InvalidSettingError("elements", self.elements, f"at least two for each of the {self.layers} layers")
        if self.engines < 1 or self.cores < 1:
            raise InvalidSettingError("engines", self.engines, "at least one, each with at least one core")
        if not 0 < self.fast_s <= self.slow_s:
            raise InvalidSettingError("slow_s", self.slow_s, f"at least fast_s, {self.fast_s} s")

    @property
    def rows_per_core_s(self) -> float:
        """Mean rows that one core would take in each second if states could change in the middle of a row."""
        return (1.0 - self.slow_share) / self.fast_s + self.slow_share / self.slow_s

    @property
    def mean_row_s(self) -> float:
        """Mean of the two CPU times of a row, each weighed with the share of its state."""
        return (1.0 - self.slow_share) * self.fast_s + self.slow_share * self.slow_s


def draw_topology(shape: TopologyShape, *, seed: int) -> ElementGraph:
    """Draw a graph; the same shape and seed give the same graph.

    Elements lie in layers. Every one of a layer reads one of the layer before and, as layers grow, some are read by
    several; then edges are added between layers until the wanted share of elements has several readers or feeders.

    Examples
    --------
    >>> graph = draw_topology(TopologyShape(), seed=1)
    >>> len(graph.elements), len(graph.engines), max(map(len, graph.readers)), max(map(len, graph.feeders))
    (200, 80, 4, 2)
    >>> branching = sum(len(r) > 1 or len(f) > 1 for r, f in zip(graph.readers, graph.feeders, strict=True))
    >>> branching / len(graph.elements)
    0.2
    """
    generator = np.random.default_rng([seed, 3])
    layers = _draw_layers(shape)
    feeders = _draw_edges(shape, layers, generator)
    engine = generator.permutation(np.arange(shape.elements) % shape.engines)
    weights = generator.uniform(shape.smallest_weight, shape.largest_weight, shape.elements)
    fair_rows_per_s = shape.load * shape.rows_per_core_s * shape.cores * shape.engines / shape.elements
    rates = generator.uniform(0.5, 1.5, len(layers[0])) * fair_rows_per_s
    last = set(layers[-1])
    elements = tuple(
        Element(
            name=f"pe{index}",
            engine=f"node{engine[index]}",
            reads=tuple(f"pe{feeder}" for feeder in feeders[index]) if feeders[index] else (f"stream{index}",),
            rows_per_core_s=shape.rows_per_core_s,
            selectivity=shape.selectivity,
            weight=float(weights[index]) if index in last else None,
            max_cores=1.0,
        )
        for index in range(shape.elements)
    )
    return ElementGraph(
        tuple(Engine(f"node{index}", float(shape.cores)) for index in range(shape.engines)),
        tuple(InputStream(f"stream{index}", float(rate)) for index, rate in zip(layers[0], rates, strict=True)),
        elements,
    )


def _draw_layers(shape: TopologyShape) -> list[list[int]]:
    """Sizes grow evenly from the ingress to the egress; what rounding leaves goes to the layers in between."""
    sizes = np.linspace(shape.ingress_share, shape.egress_share, shape.layers)
    counts = np.maximum(1, np.floor(sizes / sizes.sum() * shape.elements)).astype(int)
    for extra in range(shape.elements - int(counts.sum())):
        counts[shape.layers - 1 - extra % shape.layers] += 1
    ends = np.cumsum(counts)
    return [list(range(end - count, end)) for end, count in zip(ends, counts, strict=True)]


def _draw_edges(shape: TopologyShape, layers: list[list[int]], generator: np.random.Generator) -> list[list[int]]:
    feeders: list[list[int]] = [[] for _ in range(shape.elements)]
    readers = np.zeros(shape.elements, np.int64)
    # How many readers and feeders an element has, should it have several.
    fan_out = generator.integers(2, shape.max_readers, shape.elements, endpoint=True)
    fan_in = generator.integers(2, shape.max_feeders, shape.elements, endpoint=True)
    for before, layer in pairwise(layers):
        parents = list(generator.permutation(before))
        for place, index in enumerate(generator.permutation(layer)):
            parent = parents[place] if place < len(parents) else _sibling(before, readers, fan_out, generator)
            feeders[index].append(int(parent))
            readers[parent] += 1
    layer_of = np.repeat(np.arange(len(layers)), [len(layer) for layer in layers])
    wanted = round(shape.branching_share * shape.elements)
    for _ in range(100 * shape.elements):
        branching = (readers > 1) | (np.array([len(own) for own in feeders]) > 1)
        missing = wanted - int(branching.sum())
        if missing <= 0:
            break
        sender, reader = (int(index) for index in generator.integers(0, shape.elements, 2))
        new = int(not branching[sender]) + int(not branching[reader])
        fits = readers[sender] < fan_out[sender] and len(feeders[reader]) < fan_in[reader]
        if fits and new <= missing and layer_of[sender] < layer_of[reader] and sender not in feeders[reader]:
            feeders[reader].append(sender)
            readers[sender] += 1
    return feeders


def _sibling(
    before: list[int], readers: NDArray[np.int64], fan_out: NDArray[np.int64], generator: np.random.Generator
) -> int:
    """An element of the layer before that takes one more reader, first one that has several and was to have more."""
    free = [index for index in before if readers[index] < fan_out[index]]
    several = [index for index in free if readers[index] > 1]
    return int(generator.choice(several or free))
