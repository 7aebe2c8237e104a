"""Effect: whether what was done has helped."""

from __future__ import annotations

from dataclasses import dataclass

_WORTH = 0.25
_RELIEF = 0.8


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a scale-up from some executors to more was to change, and when that can be judged."""

    time_s: float
    before: int
    after: int
    processed_rows_per_s: float
    backlog_ratio: float

    def has_helped(self, *, processed_rows_per_s: float, backlog_ratio: float, limit: float) -> bool:
        r"""Judge by what is seen once the executors serve.

        It has helped if the queue is below its limit, or a fifth shorter, or if throughput rose by at least a quarter
        of what the executors promise: :math:`p' \ge p\,(1 + 0.25\,(n'/n - 1))`.

        Examples
        --------
        >>> doubled = Expectation(0.0, before=4, after=8, processed_rows_per_s=1_000.0, backlog_ratio=2.0)
        >>> doubled.has_helped(processed_rows_per_s=1_300.0, backlog_ratio=2.5, limit=0.5)
        True
        >>> doubled.has_helped(processed_rows_per_s=1_020.0, backlog_ratio=2.5, limit=0.5)
        False
        """
        if backlog_ratio < limit or backlog_ratio <= _RELIEF * self.backlog_ratio:
            return True
        promised = self.after / self.before - 1.0
        return processed_rows_per_s >= self.processed_rows_per_s * (1.0 + _WORTH * promised)
