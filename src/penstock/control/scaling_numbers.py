"""What is set about scaling, as the slow tier needs it, and what a policy is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.control.scaling.by_name import ScalerSetup

if TYPE_CHECKING:
    from penstock.model.application import ExecutorsDeclaration


class ScalingNumbers(Protocol):
    """What is set about scaling.

    ``interval_s`` is the length of a sample, ``start_s`` how long an executor is expected to take until one was seen
    to, ``down_every_s`` the time between two steps down.
    ``warm_up_s`` is the time from the first complete observation in which nothing is decided, and from a change of size
    in which nothing is learned of what an executor does: first batches start workers and connections, and what they
    take says nothing of the load. The others are those of single policies, told in
    :class:`~penstock.settings.ScalingSettings`.
    """

    @property
    def interval_s(self) -> float: ...  # noqa: D102 - told above
    @property
    def start_s(self) -> float: ...  # noqa: D102 - as above
    @property
    def down_every_s(self) -> float: ...  # noqa: D102 - as above
    @property
    def down_after_s(self) -> float: ...  # noqa: D102 - as above
    @property
    def quantile(self) -> float: ...  # noqa: D102 - as above
    @property
    def memory_s(self) -> float: ...  # noqa: D102 - as above
    @property
    def utilisation(self) -> float: ...  # noqa: D102 - as above
    @property
    def rows_for_each(self) -> float: ...  # noqa: D102 - as above
    @property
    def bound_by_partitions(self) -> bool: ...  # noqa: D102 - as above
    @property
    def warm_up_s(self) -> float: ...  # noqa: D102 - as above


def scaler_setup(declaration: ExecutorsDeclaration, settings: ScalingNumbers) -> ScalerSetup:
    """What a policy and its guards must know of an application, from what is declared and set."""
    return ScalerSetup(
        declaration.bounds,
        interval_s=settings.interval_s,
        start_s=settings.start_s,
        down_every_s=settings.down_every_s,
        down_after_s=settings.down_after_s,
        quantile=settings.quantile,
        memory_s=settings.memory_s,
        utilisation=settings.utilisation,
        rows_for_each=settings.rows_for_each,
        budget_executor_hours=declaration.budget_executor_hours_per_day,
    )
