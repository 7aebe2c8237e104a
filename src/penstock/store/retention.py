"""What is forgotten, and when: a store must not grow for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model import ActionKind

if TYPE_CHECKING:
    from penstock.settings import StoreSettings
    from penstock.store.base import Store

PER_BATCH_KINDS = (ActionKind.READ_LIMIT, ActionKind.KEEP_RATIO, ActionKind.STREAM_KEEP)
"""Decisions that may come with every batch or report; all others are rare, and stay."""

_DAY_S = 86_400.0


def forget_old(store: Store, settings: StoreSettings, *, now_s: float) -> int:
    """Delete old observations, and old decisions of every batch that others have replaced; gives how many rows went."""
    points = store.delete_points(before_s=now_s - settings.series_days * _DAY_S)
    return points + store.delete_actions(before_s=now_s - settings.action_days * _DAY_S, kinds=PER_BATCH_KINDS)
