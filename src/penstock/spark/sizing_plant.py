"""The sizes of a running application's executors: observed window by window, and changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.model import APPLICATION, Metric, SeriesPoint
from penstock.model.sizing import Capacity, EngineShape, HostRoom, ResizeOutcome, UsageSignal
from penstock.spark.heap_looks import HeapLooks
from penstock.spark.internals import Ability
from penstock.spark.reshaper import Reshaper
from penstock.spark.standalone_master import PAGE_KEY, ask_master, find_master_page
from penstock.spark.usage import PROCESS_TREE_KEY, UsageCollector, engine_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyspark.sql import SparkSession

    from penstock.model.decision import Resize
    from penstock.settings import SizingSettings

_LOOK_WITHIN_S = 30.0
"""How long a look at what lives may wait for tasks of queries to run, and then for a slot."""


class SizingPlant:
    """What the loop observes and changes of sizes.

    Parameters
    ----------
    spark
        The session.
    settings
        Of sizing.
    missing
        Abilities that this Spark does not offer.
    run_ids
        Ids of the runs of streaming queries.
    keep
        Where points of series go.
    is_asked_for
        Whether the operator has asked for the recommended size since the last call.
    wants_heap_look
        Whether all garbage is to be collected, to see what lives.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: SizingSettings,
        missing: Collection[Ability],
        *,
        run_ids: Callable[[], Sequence[str]],
        keep: Callable[[Sequence[SeriesPoint]], None],
        is_asked_for: Callable[[], bool] = bool,
        wants_heap_look: Callable[[], bool] = bool,
    ) -> None:
        self.usage = UsageCollector(spark, settings.window_s, run_ids)
        self._spark, self._settings, self._keep = spark, settings, keep
        self._reshaper = Reshaper(spark, missing)
        self._is_asked_for = is_asked_for
        self._looks = None if Ability.LIVE_HEAP in missing else HeapLooks(spark, within_s=_LOOK_WITHIN_S)
        self._wants_heap_look, self._has_looked = wants_heap_look, False
        conf = spark.sparkContext.getConf()
        self._page = conf.get(PAGE_KEY) or find_master_page(str(spark.sparkContext.master))

    def observe(self) -> tuple[UsageSignal, EngineShape, Capacity | None, bool] | None:
        """The window that has just ended; None while it is not over or executors are being changed."""
        if self._reshaper.is_busy:
            self._drop_look()
            return None
        self._take_look()
        seen = self.usage.signal(time.time())
        if seen is None:
            self._look_once()
            return None
        self._has_looked = False
        shape = engine_shape(self._spark)
        if shape is None:
            return None
        self._keep(usage_points(seen, shape))
        return seen, shape, self._capacity(shape), self._is_asked_for()

    def outcomes(self) -> list[ResizeOutcome]:
        """Changes that have ended."""
        return self._reshaper.take_outcomes()

    def apply(self, decision: Resize) -> None:
        """Carry a decision out, once; what the operator did is there already."""
        if _is_ours(decision):
            self._reshaper.begin(decision)

    def is_taken_on(self, decision: Resize) -> bool:
        """Whether nothing is left to be done about a decision."""
        return not _is_ours(decision) or decision.number <= self._reshaper.number

    def restart_by(self, ask: Callable[[Resize, str], bool]) -> None:
        """Have what executors cannot take on while queries run carried out by whoever can start the application."""
        self._reshaper.restart = ask

    def close(self) -> None:
        """Wait for nothing any more."""
        self._reshaper.close()
        if self._looks is not None:
            self._looks.close()

    def _look_once(self) -> None:
        """Begin a look at what lives, one in a window: the logic has to have seen the last one first."""
        if self._looks is not None and not self._has_looked and self._wants_heap_look():
            self._has_looked = True
            self._looks.begin()

    def _take_look(self) -> None:
        look = None if self._looks is None else self._looks.take()
        if look is not None:
            self.usage.on_look(look)

    def _drop_look(self) -> None:
        """What was seen of executors that are being changed says nothing of those to come."""
        if self._looks is not None:
            self._looks.take()

    def _capacity(self, shape: EngineShape) -> Capacity | None:
        """What the workers of a Standalone cluster have free; None where nobody tells."""
        answer = None if self._page is None else ask_master(self._page)
        if answer is None:
            return None
        alive = [worker for worker in answer.workers if worker.is_alive]
        # The master does not say which executors lie where: those of this application are where cores are taken.
        left = shape.executors
        hosts = []
        for worker in alive:
            own = min(left, (worker.cores - worker.cores_free) // shape.cores)
            left -= own
            hosts.append(
                HostRoom(worker.cores_free, worker.memory_free_mb + own * (shape.heap_mb - shape.memory_mb), own)
            )
        return Capacity(
            tuple(hosts),
            host_cores=max((worker.cores for worker in alive), default=None),
            host_memory_mb=max((worker.memory_mb for worker in alive), default=None),
        )


def _is_ours(decision: Resize) -> bool:
    """Whether a decision is to be carried out: what is recommended is not, and what the operator did is there."""
    return decision.is_applied and decision.policy != "operator"


def why_not_sized(spark: SparkSession, missing: dict[Ability, str]) -> list[str]:
    """Sentences about what of sizing this session cannot do."""
    told = []
    if Ability.USAGE in missing:
        told.append(f"sizes are not looked at: {missing[Ability.USAGE]}")
    elif str(spark.sparkContext.getConf().get(PROCESS_TREE_KEY) or "false").lower() != "true":
        told.append(
            f"memory of Python workers and of the JVM beside its heap is not known: set {PROCESS_TREE_KEY} to true "
            "before the session starts; until then only heap, CPU and task slots are sized"
        )
    return told


def usage_points(seen: UsageSignal, shape: EngineShape) -> list[SeriesPoint]:
    """A window as points of series, each figure under its name."""
    values = {name: value for name, value in seen.to_dict().items() if name not in {"time_s", "services"}}
    values |= {f"service.{name}": value for name, value in seen.services.items()}
    values |= {f"shape.{name}": value for name, value in shape.to_dict().items()}
    return [
        SeriesPoint(seen.time_s, APPLICATION, Metric.SIZING, float(value), subject=name)
        for name, value in values.items()
        if value is not None
    ]
