"""Answers the questions of batches: what each keeps, and what an operator's rows are known to cost."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.control.events import BatchPlanned
from penstock.model import PlannedBatch, SourceSignal
from penstock.model.directive import Directive
from penstock.spark.directives import Answer, DirectiveServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from penstock.loop import Loop
    from penstock.model import BatchSignal
    from penstock.model.decision import KeepRatio
    from penstock.settings import DirectiveSettings
    from penstock.spark.directives import Question
    from penstock.spark.operator import Operator
    from penstock.spark.plant import SparkPlant
    from penstock.spark.watched import WatchedQuery

logger = logging.getLogger("penstock")

_COST_PLACES = 4
"""Batches whose costs stay on record: Spark runs no more than the last one again."""


class Answering:
    """The directive server of one session, and what it answers.

    An answer is on record before it is sent, and stands for that batch for ever: in the log for what is kept, in the
    store's messages for costs. Where no server can be started the property channel carries the keep ratio instead, one
    batch late.
    """

    def __init__(
        self,
        spark: SparkSession,
        loop: Loop,
        plant: SparkPlant,
        operators: Sequence[Operator],
        settings: DirectiveSettings,
    ) -> None:
        self._loop, self._plant, self._operators = loop, plant, operators
        self._server: DirectiveServer | None = None
        if not settings.enabled:
            return
        try:
            self._server = DirectiveServer.for_session(spark, self.answer)
        except OSError as error:
            logger.warning("batches cannot ask the driver (%s): keep ratios hold one batch late", error)
            return
        plant.endpoint, plant.token = self._server.endpoint, self._server.token
        plant.timeout_s = settings.timeout_s

    @property
    def is_open(self) -> bool:
        """Whether batches can ask."""
        return self._server is not None

    def tell_ahead(self, watched: WatchedQuery, signal: BatchSignal) -> None:
        """Where batches cannot ask: decide about the next one now, by what will likely wait for it."""
        logic = self._loop.logic.query(watched.name)
        if self.is_open or logic is None or not watched.has_guard or signal.lag_rows is None:
            return
        arrived = (logic.arrival_rows_per_s or 0.0) * signal.duration_s
        rows = round(signal.lag_rows + arrived)
        source = SourceSignal(0, rows, units=float(rows), lag_rows=0.0)
        planned = PlannedBatch(signal.batch_id + 1, signal.finished_s, (source,))
        self._loop.handle(BatchPlanned(watched.name, signal.batch_id + 1, planned, is_estimate=True))

    def introduce(self, watched: WatchedQuery, answered: Sequence[KeepRatio]) -> None:
        """Tell a query's tasks where to ask."""
        for told in answered:
            # When that was is not on record; windows that begin from now on have lost nothing to it.
            watched.shed = watched.shed.with_ratio(Directive.from_decision(told).least_ratio, time.time())
        fallback = Directive.from_decision(answered[-1]) if answered else None
        self._plant.tell(watched, fallback)

    def answer(self, question: Question) -> Answer | None:
        """What a batch is told; None for one that nobody governs."""
        watched = self._plant.find(question.query_id)
        if watched is None or not watched.is_governed or str(watched.query.runId) != question.run_id:
            return None
        key = question.batch_id, question.operator
        # One question of a query at a time: two guards of one batch must hear the same.
        with watched.answering:
            known = watched.answers.get(key)
            if known is None:
                known = self._decided(watched, question)
                if known is not None:
                    watched.remember(key, known)
            return known

    def _decided(self, watched: WatchedQuery, question: Question) -> Answer | None:
        batch_id = question.batch_id
        same_batch = next((each for (batch, _), each in watched.answers.items() if batch == batch_id), None)
        if same_batch is None:
            is_rerun = batch_id == watched.uncommitted_batch
            decision = self._loop.answer(BatchPlanned(watched.name, batch_id, watched.planned(batch_id), is_rerun))
            if decision is None:
                return None
            directive = self._with_history(watched, Directive.from_decision(decision))
        else:
            directive = same_batch.directive
        return Answer(directive, self._costs(watched, question))

    def _with_history(self, watched: WatchedQuery, directive: Directive) -> Directive:
        now_s = time.time()
        watched.shed = watched.shed.with_ratio(directive.least_ratio, now_s)
        if watched.last_answered is not None and directive.batch_id > watched.last_answered + 1:
            # A batch in between got no answer, and kept what the one before it was told.
            watched.shed = watched.shed.with_ratio(watched.last_ratio, now_s)
        watched.last_answered, watched.last_ratio = directive.batch_id, directive.least_ratio
        return replace(directive, history=watched.shed)

    def _costs(self, watched: WatchedQuery, question: Question) -> bytes | None:
        """The costs for a batch: those on record for it, else those of now, recorded first."""
        name = question.operator
        if name is None:
            return None
        place = f"{name}.{question.batch_id % _COST_PLACES}"
        on_record = _costs_on_record(dict(self._loop.store.messages(watched.query_id)).get(place), question.batch_id)
        if on_record is not None:
            return on_record
        operator = next((each for each in self._operators if each.costs_name == name), None)
        costs = None if operator is None else operator.costs()
        if costs is not None:
            text = json.dumps({"batch_id": question.batch_id, "costs": base64.b64encode(costs).decode()})
            self._loop.store.put_messages(watched.query_id, [(place, text)])
        return costs

    def learn(self, progress: Mapping[str, Any]) -> None:
        """Merge what the operators of a finished batch have learned."""
        observed = progress.get("observedMetrics") or {}
        for operator in self._operators:
            if operator.observation in observed:
                operator.absorb()

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()


def _costs_on_record(text: str | None, batch_id: int) -> bytes | None:
    """Costs that were told to a batch; damaged ones are none, and must not take the query with them."""
    if text is None:
        return None
    try:
        found = json.loads(text)
        return base64.b64decode(found["costs"], validate=True) if found["batch_id"] == batch_id else None
    except (ValueError, TypeError, KeyError, binascii.Error):
        logger.warning("costs on record for batch %d cannot be read and are left out", batch_id)
        return None
