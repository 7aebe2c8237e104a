"""What notebooks show."""

from __future__ import annotations

import time

from penstock.bench.serve_load import grow, query_names
from penstock.model import QueryName
from penstock.report import application_status
from penstock.serve.figure import query_figure
from serve_helpers import Served, store_with_queries


def test_a_status_has_its_states_as_colour_and_word() -> None:
    """The word is in the table, with a mark in front of it, and names of queries are escaped."""
    store = store_with_queries()
    grow(store, [*query_names(2), QueryName("<b>fine</b>")], time.time(), 1)
    page = application_status(store)._repr_html_()
    assert "&#9679; infeasible</span>" in page or "&#9679; fine</span>" in page
    assert "<b>" not in page


def test_a_figure_has_the_goal_and_every_series() -> None:
    """Load, latency, what is kept and what waits, with the goal as a line."""
    store = store_with_queries()
    now_s = time.time()
    for step in range(20):
        grow(store, query_names(2), now_s - 100.0 + 5.0 * step, step)
    figure = query_figure(store, query_names(1)[0], hours=0.05, now_s=now_s)
    assert {trace.name for trace in figure.data} >= {"arrival rows per s", "oldest row age s", "keep ratio", "lag rows"}
    assert any("goal 10 s" in note.text for note in figure.layout.annotations)


def test_a_service_shows_itself_as_a_link(recorded: Served) -> None:
    """In a notebook the address can be followed; as text the token is not shown."""
    assert recorded.service.url in recorded.service._repr_html_()
    assert recorded.service.token not in repr(recorded.service)
