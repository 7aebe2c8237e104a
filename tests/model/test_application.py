"""An application's graph is checked for ways back, however many ways it has."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidGraphError
from penstock.model.application import Application, QueryDeclaration
from penstock.model.query import QueryName

LAYERS, WIDTH = 30, 4


def layered() -> dict[QueryName, QueryDeclaration]:
    """Every query of a layer reads what any of the layer before writes: 4 to the power of 30 ways."""
    return {
        QueryName(f"{layer}.{place}"): QueryDeclaration(reads=(f"s{layer}",), writes=(f"s{layer + 1}",))
        for layer in range(LAYERS)
        for place in range(WIDTH)
    }


@pytest.mark.timeout(10)
def test_a_graph_of_very_many_ways_is_checked_at_once() -> None:
    """The check looks at queries, not at ways."""
    assert len(Application(layered()).queries) == LAYERS * WIDTH


@pytest.mark.timeout(10)
def test_a_long_way_back_is_found() -> None:
    """One query from the last stream to one in the middle closes a circle, and the shortest way is told."""
    queries = {**layered(), QueryName("back"): QueryDeclaration(reads=(f"s{LAYERS}",), writes=(f"s{LAYERS - 2}",))}
    with pytest.raises(
        InvalidGraphError, match=r"'28\.0' reads what comes from itself: 28\.0 -> 29\.0 -> back -> 28\.0;"
    ):
        Application(queries)
