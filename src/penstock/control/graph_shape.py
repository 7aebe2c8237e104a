"""The graph of an application as tier one sees it: declared streams, learned costs, measured rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.estimate.batch_cost import CoreCosts
from penstock.model.graph import Element, ElementGraph, Engine, Inputs, InputStream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.estimate.query_load import QueryLoad
    from penstock.model.application import Application
    from penstock.model.query import QueryName

ENGINE = "application"
# Fixed costs of batches are never planned with more of the cores than this: batches get longer first.
_MOST_FIXED = 0.5


@dataclass(frozen=True, slots=True)
class GraphShape:
    """Queries that are planned with, and what is known of them at a moment.

    Parameters
    ----------
    loads
        What is known, of the queries that are planned with; all others count as gone.
    selectivities
        Rows put out for each row processed; one where nothing was learned.
    silent_s
        A query without a batch for longer than this has fewer rows to read than it had.
    drain_s
        Time in which rows that wait may be taken in beside those that come.
    """

    application: Application
    loads: Mapping[QueryName, QueryLoad]
    selectivities: Mapping[QueryName, float]
    now_s: float
    silent_s: float
    drain_s: float

    def graph(self, cores: float) -> ElementGraph:
        """The graph on so many cores."""
        busy = sum(load.used_cores or 0.0 for load in self.loads.values())
        # While all cores are busy there is nothing to be gained by trying; what stays idle may be risked.
        optimism = max(0.0, 1.0 - busy / cores)
        costs = {name: load.cost.costs(optimism) for name, load in self.loads.items()}
        fixed = {name: load.fixed_cores(costs[name]) for name, load in self.loads.items()}
        most = min(1.0, _MOST_FIXED * cores / max(sum(fixed.values()), 1e-12))
        streams, elements = [], []
        for name, load in self.loads.items():
            producers = self._producers(name)
            outside = self._outside_rows_per_s(name, producers)
            if outside is not None:
                streams.append(InputStream(_stream(name), outside))
            own = CoreCosts(most * fixed[name], costs[name].row_core_s)
            elements.append(self._element(name, load, producers, own, has_stream=outside is not None))
        return ElementGraph((Engine(ENGINE, cores),), tuple(streams), tuple(elements))

    def is_silent(self, load: QueryLoad) -> bool:
        """Whether a query has not had a batch for long."""
        return load.heard_s is not None and self.now_s - load.heard_s > self.silent_s

    def _element(
        self, name: QueryName, load: QueryLoad, producers: tuple[QueryName, ...], costs: CoreCosts, *, has_stream: bool
    ) -> Element:
        goal = self.application.queries[name].goal
        is_result = not any(reader in self.loads for reader in self.application.readers(name))
        # One batch waits in any case: that is what the flow keeps there.
        waiting = max(0.0, (load.lag_rows or 0.0) - load.batch_s * self._arrival_rows_per_s(load))
        return Element(
            str(name),
            ENGINE,
            (*(str(each) for each in producers), *((_stream(name),) if has_stream else ())),
            rows_per_core_s=1.0 / costs.row_core_s,
            idle_rows_per_s=costs.fixed_core_s / costs.row_core_s,
            selectivity=self.selectivities.get(name, 1.0),
            weight=goal.weight if is_result else None,
            minimum_accuracy=goal.minimum_accuracy if is_result else 0.0,
            priority=goal.priority,
            inputs=Inputs.PROPORTIONAL,
            waiting_rows_per_s=waiting / self.drain_s,
        )

    def _producers(self, name: QueryName) -> tuple[QueryName, ...]:
        return tuple(each for each in self.application.producers(name) if each in self.loads)

    def _outside_rows_per_s(self, name: QueryName, producers: tuple[QueryName, ...]) -> float | None:
        """What comes to a query from where nobody is planned with; None where there is no such stream."""
        written = {stream for each in producers for stream in self.application.queries[each].writes}
        if producers and set(self.application.queries[name].reads) <= written:
            return None
        sent = sum(self.selectivities.get(each, 1.0) * self.loads[each].kept_rows_per_s for each in producers)
        return max(0.0, self._arrival_rows_per_s(self.loads[name]) - sent)

    def _arrival_rows_per_s(self, load: QueryLoad) -> float:
        arrival = load.arrival_rows_per_s or 0.0
        if load.heard_s is None or not self.is_silent(load):
            return arrival
        return arrival * self.silent_s / (self.now_s - load.heard_s)


def _stream(name: QueryName) -> str:
    return f"input:{name}"
