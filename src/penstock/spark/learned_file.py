"""What the scaler learned, in a file beside the store: forecast and batch times outlive the driver."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from penstock.process.daemon import write_private
from penstock.store import SqliteStore

if TYPE_CHECKING:
    from penstock.control.scaling_tier import ScalingTier
    from penstock.store import Store

logger = logging.getLogger("penstock")

_SUFFIX = ".learned.json"


class LearnedFile:
    """The file of one application; a store that is no file has none, and nothing is kept.

    Parameters
    ----------
    store
        The store of the application.
    every_s
        How often what was learned is written.
    """

    def __init__(self, store: Store, *, every_s: float = 300.0) -> None:
        self.path = store.path.with_name(store.path.name + _SUFFIX) if isinstance(store, SqliteStore) else None
        self._every_s = every_s
        self._written_s: float | None = None

    def read(self) -> dict[str, Any] | None:
        """What an earlier run left; None where there is nothing, or nothing that can be read."""
        if self.path is None or not self.path.is_file():
            return None
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            logger.warning("%s cannot be read (%s): the scaler learns anew", self.path, error)
            return None
        return content if isinstance(content, dict) else None

    def write_when_due(self, scaling: ScalingTier | None, now_s: float) -> None:
        """Write what is known now, once in a while."""
        if self._written_s is None:
            self._written_s = now_s
        if now_s - self._written_s >= self._every_s:
            self._written_s = now_s
            self.write(scaling)

    def write(self, scaling: ScalingTier | None) -> None:
        """Write what is known now: whole or not at all, and for this user alone.

        A disk that fails costs a warning and no decision.
        """
        learned = None if scaling is None else scaling.remembered()
        if self.path is None or learned is None:
            return
        try:
            write_private(self.path, json.dumps(learned))
        except OSError as error:
            logger.warning("what the scaler learned was not written to %s: %s", self.path, error)
