"""What every shedding strategy is: rows in, a decision with keep probabilities out.

A strategy reads no clock and draws no random number. Arrival times and one uniform number per row come in with the
rows, so that a simulation and a replay of a live batch decide alike. The loops over rows are compiled functions that
the simulator calls row by row and the live operator batch by batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from penstock.control.shedding.accuracy import KEPT, OFFERED
from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.estimate.sketch_state import SyncReply, SyncRequest

Snapshot = dict[str, "NDArray[np.float64]"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to decide on, in the order in which the operator would take them.

    Parameters
    ----------
    keys
        64-bit hashes of the attribute that drives the execution time.
    arrival_s
        Seconds from the first row of the stream to the arrival of each row; never falling.
    uniforms
        One number from 0 up to 1 for each row: random, or a hash of the row's identity where a replay must agree.
    costs_s
        Exact execution times, for the strategies that are told them.
    utility
        What each row is worth to the user, for the strategies that ask.
    age_s
        How old each row already was on arrival, for the strategies that ask.
    """

    keys: NDArray[np.uint64]
    arrival_s: NDArray[np.float64]
    uniforms: NDArray[np.float64]
    costs_s: NDArray[np.float64] | None = None
    utility: NDArray[np.float64] | None = None
    age_s: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in ("arrival_s", "uniforms", "costs_s", "utility", "age_s"):
            column = getattr(self, name)
            if column is not None and column.shape != self.keys.shape:
                raise ValueError(f"{name} has {column.size} values for {self.keys.size} keys: give one for each row")

    def required(self, name: str, strategy: str) -> NDArray[np.float64]:
        """Give a column that a strategy cannot do without."""
        column: NDArray[np.float64] | None = getattr(self, name)
        if column is None:
            raise ValueError(f"strategy {strategy!r} needs {name!r} for every row; pass it with the rows")
        return column


@dataclass(frozen=True, slots=True)
class Decision:
    """Which rows stay, and with what probability each of them was to stay.

    Parameters
    ----------
    keep
        True for the rows that stay.
    probability
        Above 0 and up to 1 for every row.
    drawn
        True where the probability was fixed before the row's number was looked at: weights of ``1 / probability`` then
        give unbiased sums (Horvitz and Thompson). False where the row was dropped for the moment it came in; the
        probability is then the share of the batch that stayed.
    sync
        A question to the operator, to travel with the row it names.
    """

    keep: NDArray[np.bool_]
    probability: NDArray[np.float64]
    drawn: bool
    sync: SyncRequest | None = None

    @property
    def weights(self) -> NDArray[np.float64]:
        """How many offered rows each kept row stands for."""
        return np.asarray(1.0 / self.probability[self.keep])


class Shedder(ABC):
    """A strategy with its state.

    Parameters
    ----------
    minimum_accuracy
        Share of all rows offered so far that stays at any time, whatever the strategy would rather do.
    """

    name: ClassVar[str]

    def __init__(self, *, minimum_accuracy: float = 0.0, state_size: int = 2) -> None:
        if not 0 <= minimum_accuracy <= 1:
            raise InvalidSettingError("minimum accuracy", minimum_accuracy, "a share from 0 to 1")
        self.minimum_accuracy = minimum_accuracy
        self._state = np.zeros(state_size)

    @abstractmethod
    def decide(self, rows: Rows) -> Decision:
        """Decide on rows, in order, and remember what was decided."""

    def learn(self, cells: NDArray[np.float64]) -> None:  # noqa: B027 - strategies without a cost model ignore it
        """Take a newer sketch of the operator's execution times."""

    def correct(self, reply: SyncReply) -> None:  # noqa: B027 - strategies without a queue estimate ignore it
        """Take the operator's answer to :attr:`Decision.sync`."""

    @property
    def rows_offered(self) -> int:
        """Rows decided on so far."""
        return int(self._state[OFFERED])

    @property
    def rows_kept(self) -> int:
        """Rows kept so far."""
        return int(self._state[KEPT])

    def snapshot(self) -> Snapshot:
        """Give all that is needed to decide on from here."""
        return {"state": self._state.copy()}

    def restore(self, snapshot: Snapshot) -> None:
        """Decide on from a snapshot of a strategy of the same kind."""
        if snapshot["state"].shape != self._state.shape:
            raise ValueError(
                f"a snapshot of {snapshot['state'].size} numbers cannot be restored into strategy {self.name!r}, "
                f"which keeps {self._state.size}; it was taken from another strategy"
            )
        self._state = snapshot["state"].copy()


def kept_share(keep: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Probability of every row of a batch that was thinned by moment, not by lot: the share that stayed."""
    share = max(int(keep.sum()), 1) / keep.size if keep.size else 1.0
    return np.full(keep.size, share)
