"""What is made of measured batches."""

from __future__ import annotations

import pytest

from penstock.cluster.calibrate import calibrate, line_through
from penstock.errors import ClusterError


def test_batches_that_say_nothing_are_an_error() -> None:
    """A row that costs nothing, or less, is the machine's doing and must not be written down as a figure."""
    with pytest.raises(ClusterError, match="measure again on a quiet machine"):
        line_through([1000, 1000, 200_000, 200_000], [0.9, 1.0, 0.8, 0.8])


def test_too_few_repeats_are_refused() -> None:
    """Before anything is started."""
    with pytest.raises(ClusterError, match="at least 1 and 2"):
        calibrate(repeats=0)
