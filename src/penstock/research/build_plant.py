"""From a graph and its targets to the arrays of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.control.feedback import feeder_parts
from penstock.research.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from penstock.model.graph import ElementGraph
    from penstock.research.topology import TopologyShape


@dataclass(frozen=True, slots=True)
class Targets:
    """CPU and rate targets by element."""

    cores: Mapping[str, float]
    input_rows_per_s: Mapping[str, float]


def build_plant(graph: ElementGraph, shape: TopologyShape, targets: Targets, *, state_time_s: float) -> Plant:
    """Number everything. Cores that the targets leave free on an engine are spread over them in proportion."""
    elements = graph.elements
    engine = np.array([graph.engine_index[element.engine] for element in elements])
    cores = np.array([round(each.cores) for each in graph.engines])
    rates = np.array([targets.input_rows_per_s[element.name] for element in elements])
    readers_of, reader = _flat(graph.readers)
    sender = np.repeat(np.arange(len(elements)), np.diff(readers_of))
    feeding = np.argsort(reader, kind="stable")
    stream_reader = np.array([index for index, own in enumerate(graph.stream_rows_per_s) for _ in own], np.int64)
    stream_rates = np.array([rate for own in graph.stream_rows_per_s for rate in own])
    by_engine = [np.flatnonzero(engine == place).tolist() for place in range(cores.size)]
    members_of, member = _flat(by_engine)
    full = np.ones(len(elements))
    return Plant(
        engine=engine,
        fast_s=full * shape.fast_s,
        slow_s=full * shape.slow_s,
        slow_share=full * shape.slow_share,
        state_time_s=full * state_time_s,
        selectivity=np.array([element.selectivity for element in elements]),
        weight=np.array([element.weight or 0.0 for element in elements]),
        target_cores=_spread(np.array([targets.cores[element.name] for element in elements]), engine, cores),
        target_rows_per_s=rates,
        worth=planned_worth(graph, targets.input_rows_per_s),
        readers_of=readers_of,
        reader=reader,
        feeders_of=np.concatenate([[0], np.cumsum(np.bincount(reader, minlength=len(elements)))]).astype(np.int64),
        feeding_edge=feeding,
        sender=sender,
        edge_part=_edge_parts(graph, targets, sender, reader),
        members_of=members_of,
        member=member,
        cores=cores,
        streams_of=np.searchsorted(stream_reader, np.arange(len(elements) + 1)),
        stream_reader=stream_reader,
        stream_rows_per_s=stream_rates,
        stream_limit_rows_per_s=rates[stream_reader],
    )


def planned_worth(graph: ElementGraph, rates_rows_per_s: Mapping[str, float]) -> NDArray[np.float64]:
    r"""What the plan makes of a row that an element takes in, down to the results.

    .. math:: v_j = m_j \Big(w_j + \sum_i v_i \min\Big(1, \frac{p_{ji} r_i}{m_j r_j}\Big)\Big)

    with weights :math:`w`, selectivities :math:`m`, planned intakes :math:`r` and the part :math:`p_{ji}` that reader
    :math:`i` takes of its feeder :math:`j`: of what is put out, a reader counts with what it is planned to take.

    Examples
    --------
    A parser for a reader that takes all of its rows and one that takes a quarter of them:

    >>> from penstock.model.graph import Element, ElementGraph, Engine, InputStream
    >>> graph = ElementGraph(
    ...     (Engine("east"),),
    ...     (InputStream("clicks", 40.0),),
    ...     (
    ...         Element("parse", "east", ("clicks",), 100.0),
    ...         Element("all", "east", ("parse",), 100.0, weight=1.0),
    ...         Element("some", "east", ("parse",), 100.0, weight=2.0),
    ...     ),
    ... )
    >>> planned_worth(graph, {"parse": 40.0, "all": 40.0, "some": 10.0}).tolist()
    [1.5, 1.0, 2.0]
    """
    parts = feeder_parts(graph, rates_rows_per_s)
    worth = np.zeros(len(graph.elements))
    for index in reversed(graph.order):
        element = graph.elements[index]
        sent = element.selectivity * rates_rows_per_s[element.name]
        made = element.weight or 0.0
        for reader in graph.readers[index]:
            taken = parts[reader][graph.feeders[reader].index(index)] * rates_rows_per_s[graph.elements[reader].name]
            made += worth[reader] * (min(1.0, taken / sent) if sent > 0 else 1.0)
        worth[index] = element.selectivity * made
    return worth


def _flat(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ends = np.cumsum([0, *(len(each) for each in lists)]).astype(np.int64)
    return ends, np.array([index for each in lists for index in each], np.int64)


def _spread(
    target_cores: NDArray[np.float64], engine: NDArray[np.int64], cores: NDArray[np.int64]
) -> NDArray[np.float64]:
    used = np.bincount(engine, weights=target_cores, minlength=cores.size)
    factor = np.where(used > 0, cores / np.maximum(used, 1e-12), 1.0)
    return target_cores * factor[engine]


def _edge_parts(
    graph: ElementGraph, targets: Targets, sender: NDArray[np.int64], reader: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Part of a reader's intake that each of its feeders brings, edge by edge."""
    parts = feeder_parts(graph, targets.input_rows_per_s)
    return np.array(
        [
            parts[place][graph.feeders[place].index(feeder)]
            for feeder, place in zip(sender.tolist(), reader.tolist(), strict=True)
        ]
    )
