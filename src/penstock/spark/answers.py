"""Answers the questions of batches: what each keeps, and what an operator's rows are known to cost."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.control.events import BatchPlanned
from penstock.model import Mode, PlannedBatch, SourceSignal
from penstock.model.decision import KeepRatio
from penstock.model.directive import ANSWERED_AT, Directive
from penstock.model.shed_history import NOTHING_SHED
from penstock.spark import directive_task, internals
from penstock.spark.collector import REQUESTED, observed_metrics, parse_timestamp_s
from penstock.spark.directives import Answer, DirectiveServer
from penstock.spark.guard_counts import counts
from penstock.spark.internals import Ability
from penstock.spark.pools import pools
from penstock.spark.record import BatchRecord, SourceRange, with_costs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from penstock.loop import Loop
    from penstock.model import BatchSignal
    from penstock.settings import DirectiveSettings
    from penstock.spark.directives import Question
    from penstock.spark.operator import Operator
    from penstock.spark.plant import SparkPlant
    from penstock.spark.watched import WatchedQuery

logger = logging.getLogger("penstock")


class Answering:
    """The directive server of one session, and what it answers.

    An answer that sheds is on record beside the query's checkpoint before it is sent, and stands for that batch for
    ever (:mod:`penstock.spark.record`). Where no server can be started the property channel carries the keep ratio
    instead, one batch late, and what a batch kept to is put on record when it is done.
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

    # What earlier runs told

    def told_before(self, watched: WatchedQuery, *, starting: bool) -> tuple[KeepRatio, ...]:
        """What the batch that comes next was told by an earlier run, and the one before it; from the checkpoint."""
        next_batch = self._look_up(watched, starting=starting)
        record = watched.record
        if next_batch is None or record is None:
            return ()
        own = record.told(next_batch) if next_batch == watched.uncommitted_batch else None
        before = record.read(next_batch - 1)
        told = [each for each in (before.directive if before is not None else None, own) if each is not None]
        return tuple(
            KeepRatio(
                query=watched.name,
                cause="checkpoint",
                reason=f"batch {each.batch_id} was told so before",
                batch_id=each.batch_id,
                keep_ratio=each.keep_ratio,
                keep_floor=each.keep_floor,
                late_before_s=each.late_before_s,
                everything=each.everything,
            )
            for each in told
        )

    def replay(self, watched: WatchedQuery) -> None:
        """Let a query that nobody governs run the batch that it left behind as it was told then, and no other."""
        next_batch = self._look_up(watched, starting=True)
        record = watched.record
        if next_batch is None or record is None:
            return
        told = record.told(next_batch) if next_batch == watched.uncommitted_batch else None
        if told is not None and told.sheds:
            internals.plan_now(watched.execution)
            self._plant.tell(watched, told)
            return
        record.keep_all_after(next_batch - 1, watched.shed)
        if watched.shed != NOTHING_SHED:
            # Its tasks ask nobody, but rows are missing from windows that are open.
            watched.tell_alone()

    def _look_up(self, watched: WatchedQuery, *, starting: bool) -> int | None:
        """The batch that comes next; with what was told last at hand. None where this Spark does not tell."""
        if watched.record is None:
            return None
        history = watched.record.history(time.time())
        with watched.answering:
            watched.shed = watched.shed.merged(history)
        if Ability.PLANNED in self._plant.missing:
            return None
        next_batch = internals.next_batch(watched.execution)
        if starting:
            watched.uncommitted_batch = internals.uncommitted_batch(watched.execution)
        for batch_id in (next_batch - 1, next_batch):
            watched.record.read(batch_id)
        return next_batch

    def introduce(self, watched: WatchedQuery, answered: Sequence[KeepRatio]) -> None:
        """Tell a query's tasks where to ask."""
        fallback = Directive.from_decision(answered[-1]) if answered else None
        self._plant.tell(watched, fallback)

    # What batches are told

    def answer(self, question: Question) -> Answer | None:
        """What a batch is told; None for one that nobody governs."""
        watched = self._plant.find(question.query_id)
        if watched is None or str(watched.query.runId) != question.run_id:
            return None
        if not watched.is_governed and not watched.is_told:
            return None
        key = question.batch_id, question.operator
        # One question of a query at a time: two guards of one batch must hear the same.
        with watched.answering:
            known = watched.answers.get(key)
            if known is None:
                known = self._on_record(watched, question, self._directive(watched, question.batch_id))
                if known is not None:
                    watched.remember(key, known)
                if question.operator is None and watched.is_governed:
                    planned = watched.planned(question.batch_id)
                    counts.expect(question.run_id, question.batch_id, None if planned is None else planned.rows)
            pools.ask_for(question.run_id, None if known is None else self._priority(watched))
            return known

    def _priority(self, watched: WatchedQuery) -> int | None:
        """Of a query that is governed."""
        logic = self._loop.logic.query(watched.name) if watched.is_governed else None
        return None if logic is None else logic.goal.priority

    def _directive(self, watched: WatchedQuery, batch_id: int) -> Directive | None:
        """What a batch keeps: as it was told before, else as is decided now; everything where nobody decides."""
        same_batch = next((each for (batch, _), each in watched.answers.items() if batch == batch_id), None)
        if same_batch is not None:
            return replace(same_batch.directive, history=NOTHING_SHED)
        is_rerun = batch_id == watched.uncommitted_batch
        if is_rerun and watched.record is not None:
            # Whatever the store says, and whatever the goal is by now; without a word of it, everything was kept.
            return watched.record.told(batch_id) or Directive(batch_id, everything=True)
        if not watched.is_governed:
            return Directive(batch_id, everything=True)
        decision = self._loop.answer(BatchPlanned(watched.name, batch_id, watched.planned(batch_id), is_rerun))
        if decision is not None:
            return Directive.from_decision(decision)
        if watched.record is not None and self._loop.mode is not Mode.ACT:
            # It keeps everything: run again, it must not be taken for one that kept to what the last one was told.
            watched.record.keep_all_after(batch_id - 1, watched.shed)
        return None

    def _on_record(self, watched: WatchedQuery, question: Question, directive: Directive | None) -> Answer | None:
        """The answer, once it is on record; what cannot be put there sheds nothing."""
        if directive is None:
            return None
        record, name, batch_id = watched.record, question.operator, question.batch_id
        known = None if record is None or not directive.sheds else record.read(batch_id)
        costs = None if name is None else self._costs(known, name)
        answer = Answer(self._with_history(watched, directive), costs)
        if record is None or (known is not None and (costs is None or name in known.costs)):
            return answer
        try:
            wanted = known or self._new_record(watched, directive)
            record.put(wanted if name is None or costs is None else with_costs(wanted, name, costs))
        except Exception:
            logger.exception(
                "what batch %d of %s is told cannot be put on record: it keeps all", batch_id, watched.name
            )
            return Answer(self._with_history(watched, Directive(batch_id, everything=True)), costs)
        return answer

    def _with_history(self, watched: WatchedQuery, directive: Directive) -> Directive:
        """What a batch is told, with when rows were dropped before it."""
        if watched.last_answered == directive.batch_id:
            return replace(directive, history=watched.shed)
        now_s = time.time()
        watched.shed = directive.added_to(watched.shed, now_s)
        if watched.last_answered is not None and directive.batch_id > watched.last_answered + 1:
            # A batch in between got no answer, and kept what the one before it was told.
            watched.shed = watched.shed.with_ratio(watched.last_ratio, now_s)
        watched.shed = _unheard(watched).added_to(watched.shed, now_s)
        watched.last_answered, watched.last_ratio = directive.batch_id, directive.least_ratio
        return replace(directive, history=watched.shed)

    def _new_record(self, watched: WatchedQuery, directive: Directive) -> BatchRecord:
        if not directive.sheds:
            return BatchRecord(directive, time.time(), history=watched.shed)
        running = watched.running(directive.batch_id)
        ranges = () if running is None else tuple(SourceRange(_tree(o.start), _tree(o.end)) for o in running.offsets)
        planned_s = time.time() if running is None else running.planned_s
        return BatchRecord(directive, planned_s, ranges, _guard_print(watched), history=watched.shed)

    def _costs(self, known: BatchRecord | None, name: str) -> bytes | None:
        """The costs for a batch: those on record for it, else those of now."""
        if known is not None and name in known.costs:
            return known.costs[name]
        operator = next((each for each in self._operators if each.costs_name == name), None)
        return None if operator is None else operator.costs()

    def confirm(self, watched: WatchedQuery, progress: Mapping[str, Any]) -> None:
        """Put on record what a finished batch kept to, where that is not what stands there. Never raises.

        A batch whose question got no answer kept to what was sent along; one of a query that is not governed any more
        kept everything.
        """
        try:
            self._confirm(watched, progress)
        except Exception:
            # The last report of a query may come when its checkpoint is gone.
            logger.exception("what batch %s of %s kept to cannot be put on record", progress["batchId"], watched.name)

    def _confirm(self, watched: WatchedQuery, progress: Mapping[str, Any]) -> None:
        observed = observed_metrics(progress).get(REQUESTED)
        record, batch_id = watched.record, int(progress["batchId"])
        used = None if observed is None else _used_directive(batch_id, observed)
        if observed is None or used is None:
            return
        if not observed["directive"][ANSWERED_AT]:
            with watched.answering:
                watched.shed = used.added_to(watched.shed, time.time())
        if record is None:
            return
        record.tidy(time.time())
        if not watched.is_governed and watched.is_told and batch_id == watched.uncommitted_batch:
            # The batch that was left behind is done: from now on nobody is asked.
            watched.restore()
        if not used.sheds and not record.is_shedding:
            return
        known = record.read(batch_id)
        has_ranges = known is not None and (bool(known.ranges) or not known.sheds)
        if known is not None and known.directive == used and has_ranges:
            return
        ranges = tuple(SourceRange(each.get("startOffset"), each.get("endOffset")) for each in progress["sources"])
        planned_s = parse_timestamp_s(progress["timestamp"])
        guard = _guard_print(watched) if used.sheds else None
        costs = {} if known is None else known.costs
        record.put(BatchRecord(used, planned_s, ranges, guard, costs, watched.shed))

    def learn(self, progress: Mapping[str, Any]) -> None:
        """Merge what the operators of a finished batch have learned."""
        observed = observed_metrics(progress)
        for operator in self._operators:
            if operator.mark in observed:
                operator.absorb()

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()


def _guard_print(watched: WatchedQuery) -> str | None:
    """Fingerprint of a query's guard, which is put on record first; None where it is not known."""
    spec, record = watched.guard, watched.record
    return None if spec is None or record is None else record.put_guard(spec)


def _unheard(watched: WatchedQuery) -> Directive:
    """What the last batch kept to that was answered and did not hear it; its report may come after the next question.

    Everything where it heard its answer, or where that is not known.
    """
    last = watched.last_answered
    used = None if last is None else directive_task.told(str(watched.query.runId), last)
    if last is None or used is None or used[ANSWERED_AT]:
        return Directive(0, everything=True)
    return Directive.from_array(last, used)


def _used_directive(batch_id: int, observed: Mapping[str, Any]) -> Directive | None:
    """What a batch kept to, as its guards report it; None for a report that does not say."""
    values = observed.get("directive")
    return Directive.from_array(batch_id, values) if values else None


def _tree(offset: str | None) -> Any:  # noqa: ANN401 - whatever a source writes
    """An offset as JSON; a source may write anything, and then its text is kept."""
    try:
        return None if offset is None else json.loads(offset)
    except ValueError:
        return offset
