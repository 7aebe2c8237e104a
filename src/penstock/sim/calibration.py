"""What the simulator of executors takes for true: measured on a live engine, or documented defaults."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from pathlib import Path

_MEASURED = frozenset({"executor_start_s_p50", "batch_overhead_s", "cost_s_per_row"})
_POSITIVE = frozenset({"rows_per_s", "goal_s"})


@dataclass(frozen=True, slots=True)
class Calibration:
    """An engine in numbers.

    The defaults are those of a small engine on Kubernetes: an executor serves half a minute after it was asked for (5
    to 10 s on Standalone, about a minute with a fresh machine), a batch has half a second of planning and committing,
    and batches begin every 5 seconds.

    Parameters
    ----------
    start_s
        From asking for an executor to its first task.
    overhead_s
        Time of a batch without rows.
    rows_per_s
        Rows that one executor does in a second of a batch; a trace is scaled to it.
    trigger_s
        How often a batch is to begin; 0 is batch after batch.
    goal_s
        Latency goal of the query. A batch reads no more than fits into half of it, as admission would have it.
    pause_s
        How long a change of size stops the query: 0 on Spark, minutes where a job restarts from a savepoint.
    noise
        Standard deviation of the logarithm of batch times.
    cost_per_hour
        Price of an executor, from the moment it is asked for.
    partitions
        Executors that there is work for: partitions of the topic or of the state over the cores of an executor; 0 is
        no bound.
    """

    start_s: float = 30.0
    overhead_s: float = 0.5
    rows_per_s: float = 1_000.0
    trigger_s: float = 5.0
    goal_s: float = 30.0
    pause_s: float = 0.0
    noise: float = 0.05
    cost_per_hour: float = 0.1
    partitions: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not is_number or value < 0 or (value == 0 and field.name in _POSITIVE):
                bound = "a number above 0" if field.name in _POSITIVE else "a number from 0 on"
                raise InvalidSettingError(f"calibration {field.name}", value, bound)
        if self.overhead_s >= self.goal_s / 4:
            raise InvalidSettingError("calibration overhead_s", self.overhead_s, "less than a quarter of goal_s")

    @property
    def sustainable_share(self) -> float:
        r"""Share of an executor's rows per second that it can take for ever within the goal.

        Batch after batch at utilisation :math:`u` has batches of :math:`D = o / (1 - u)` seconds, and the last row to
        miss one waits for two: :math:`2 D \le goal` gives :math:`u = 1 - 2\,o / goal`. Noise takes a little more.

        Examples
        --------
        >>> Calibration(overhead_s=0.5, goal_s=20.0, noise=0.0).sustainable_share
        0.95
        """
        return (1.0 - 2.0 * self.overhead_s / self.goal_s) / (1.0 + self.noise**2 / 2.0)

    def to_json(self) -> str:
        """Give the calibration as the text of a file."""
        return json.dumps(asdict(self), indent=2) + "\n"


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file; what it leaves out has its default.

    It is what ``penstock calibrate`` wrote on a live engine, or a JSON object with any of the fields.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettingError("calibration file", str(path), f"a file that can be read ({error})") from error
    except ValueError as error:
        raise InvalidSettingError("calibration file", str(path), f"a JSON object ({error})") from error
    if isinstance(content, dict) and set(content) >= _MEASURED:
        return _measured(content)
    known = [field.name for field in fields(Calibration)]
    unknown = set(content) - set(known) if isinstance(content, dict) else {"(no object)"}
    if unknown:
        raise InvalidSettingError("calibration file", str(path), f"{min(unknown)!r} is none of {', '.join(known)}")
    return Calibration(**content)


def _measured(figures: dict[str, float]) -> Calibration:
    """Take over what was measured on a live engine.

    Examples
    --------
    >>> figures = {"executor_start_s_p50": 6.0, "batch_overhead_s": 0.4, "cost_s_per_row": 0.0005, "release_s": 3.0}
    >>> found = _measured(figures)
    >>> found.start_s, found.overhead_s, found.rows_per_s
    (6.0, 0.4, 2000.0)
    """
    cost_s = figures["cost_s_per_row"]
    if not cost_s > 0:
        raise InvalidSettingError("calibration cost_s_per_row", cost_s, "a number above 0: calibrate again")
    return Calibration(
        start_s=figures["executor_start_s_p50"], overhead_s=figures["batch_overhead_s"], rows_per_s=1.0 / cost_s
    )
