"""The size that a log of actions leads to: what an engine is to have after a restart of its driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.decision import Resize, ResizeDone
from penstock.model.sizing import EngineShape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.decision import Decision


def replayed_shape(decisions: Iterable[Decision]) -> EngineShape | None:
    """The last shape that came about, by the log alone; None where it tells of none.

    A change that failed, or of whose end nothing is known, leaves the shape before it; one by hand holds at once.

    Examples
    --------
    >>> small, large = EngineShape(1, 512, 384), EngineShape(1, 1024, 384)
    >>> grow = Resize(
    ...     cause="P1", reason="", policy="P1", resource="heap", shape=large.to_dict(), previous_shape=small.to_dict(),
    ...     number=1,
    ... )
    >>> replayed_shape([grow]).heap_mb, replayed_shape(
    ...     [grow, ResizeDone(cause="", reason="", number=1, is_done=True)]
    ... ).heap_mb
    (512, 1024)
    """
    shape: EngineShape | None = None
    pending: dict[int, EngineShape] = {}
    for decision in decisions:
        if isinstance(decision, Resize):
            if shape is None:
                shape = EngineShape.from_dict(decision.previous_shape)
            if decision.policy == "operator":
                shape = EngineShape.from_dict(decision.shape)
            else:
                pending[decision.number] = EngineShape.from_dict(decision.shape)
        elif isinstance(decision, ResizeDone) and decision.is_done and decision.number in pending:
            shape = pending.pop(decision.number)
    return shape
