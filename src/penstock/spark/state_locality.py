"""Whether new executors get tasks of stateful queries: the wait for the executor that has the state."""

from __future__ import annotations

LOCALITY_KEY = "spark.locality.wait"
NO_WAIT = "0s"
_ZERO = frozenset({"0", "0s", "0ms", "0m", "0us", "0min", "0h", "0d"})


def why_state_stays(locality_wait: str | None) -> str | None:
    """One sentence why tasks of stateful queries stay on old executors, with the remedy; None where they do not.

    The scheduler offers a task to any executor only after this wait, and a state store names the executor that it was
    loaded on. With batches shorter than the wait times the partitions of an executor, new ones stay idle.

    Examples
    --------
    >>> why_state_stays("0s") is None
    True
    >>> why_state_stays(None)
    'tasks of stateful queries wait 3s for the executor that has their state, so new executors get few of them: \
set spark.locality.wait to 0s before the session starts'
    """
    wait = (locality_wait or "3s").strip().lower()
    if wait in _ZERO:
        return None
    return (
        f"tasks of stateful queries wait {wait} for the executor that has their state, so new executors get few of "
        f"them: set {LOCALITY_KEY} to {NO_WAIT} before the session starts"
    )
