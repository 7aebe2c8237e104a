"""The dashboard in a real browser, over a query that runs: every view, its states, and goals changed from the page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from live.helpers import costly, load_rows, wait_until
from patience import PATIENCE_S, wait_for
from penstock import Goal
from penstock.bench.serve_load import begin, grow, query_names, write_history
from penstock.model import ActionKind, QueryName
from penstock.process.ports import free_port
from penstock.serve.engine import ServedEngine
from penstock.serve.service import Service, open_engines
from penstock.store import MemoryStore, SqliteStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from pyspark.sql import SparkSession

    from penstock import Penstock

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

ARTIFACTS = Path(__file__).parents[2] / "artifacts" / "dashboard"
SIZES = {"light": (1400, 900, "light"), "dark": (1400, 900, "dark"), "phone": (390, 844, "light")}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium of the system; tests are left out where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: 'scripts/apt-install chromium' as root installs it")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where there is a browser

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@dataclass
class Tab:
    """A page, and what went wrong on it."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def look(self, name: str) -> None:
        """Keep a picture, and hold the page against the rules of axe-core."""
        from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - only where there is a browser

        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(ARTIFACTS / f"{name}.png"), full_page=True)
        found = Axe().run(self.page).response["violations"]
        serious = [
            f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in {"serious", "critical"}
        ]
        assert serious == [], f"{name}: {serious}"


@contextmanager
def tab(browser: Browser, service: Service, size: str = "light") -> Iterator[Tab]:
    """The page of a service, with its token; it must not complain, nor ask anybody else."""
    width, height, scheme = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    own = Tab(page, service.url)
    page.on("console", lambda line: own.complaints.append(line.text) if line.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: own.complaints.append(str(error)))
    page.on("request", lambda request: own.outside.append(request.url))
    page.goto(service.page_url)
    yield own
    assert own.complaints == []
    assert [url for url in own.outside if not url.startswith((f"{service.url}/", "data:", "blob:"))] == []
    context.close()


@pytest.fixture
def running(stopping: SparkSession, attach: Callable[..., Penstock], tmp_path: Path) -> tuple[Penstock, Service]:
    """A guarded query under steady load, governed and served, of which some batches are done."""
    port = free_port()
    pen = attach(store=SqliteStore(tmp_path / "shop.db"), settings={"dashboard.port": port})
    assert pen.serve().server.port == port
    rows = pen.guard(load_rows(stopping, "constant:rate=4000"), key="key", arrival="timestamp")
    writer = costly(rows, 4).writeStream.format("noop").queryName("clicks")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    pen.govern(writer, Goal(latency="10 seconds", minimum_accuracy=0.5)).start()
    wait_until(lambda: len(pen.store.actions(query=QueryName("clicks"))) > 4 or None, "some decisions")
    return pen, pen.serve()


def query_page(own: Tab, engine: str, query: str) -> None:
    own.page.goto(f"{own.url}/#/query/{engine}/{query}")
    own.page.wait_for_selector(".plot .main-svg")
    own.page.wait_for_selector(".why li:not(.soft)")
    own.page.wait_for_timeout(800)


def newest_goal(pen: Penstock) -> float | None:
    entry = pen.store.actions(query=QueryName("clicks"), kinds=(ActionKind.GOVERN,), last=1)[0]
    return entry.action.details.get("latency_s")


def test_every_view_shows_a_running_query_and_changes_it(browser: Browser, running: tuple[Penstock, Service]) -> None:
    """Fleet, query and actions have its live figures; a goal and observe-only set on the page hold for the query."""
    pen, service = running
    engine = pen.application_name
    with tab(browser, service) as own:
        page = own.page
        page.wait_for_selector("tbody tr th a:has-text('clicks')")
        assert page.inner_text("#link") == "live"
        own.look("live-fleet")
        query_page(own, engine, "clicks")
        own.look("live-query")
        page.fill(".side input[name=latency_s]", "6.5")
        page.fill(".side input[name=minimum_accuracy]", "40")
        page.click("button:has-text('Set goal')")
        assert wait_for(lambda: newest_goal(pen) == 6.5)
        page.wait_for_selector(".why li:has-text('results within 6.5 s')")
        logic = pen.loop.logic.query(QueryName("clicks"))
        assert logic is not None
        assert (logic.goal.latency_s, logic.goal.minimum_accuracy) == (6.5, 0.4)
        page.goto(f"{service.url}/#/actions")
        page.wait_for_selector("tbody tr:has-text('asked by page'), tbody tr:has-text('govern')")
        own.look("live-actions")
        page.goto(f"{service.url}/#/")
        page.click("button.switch")
        assert wait_for(lambda: pen.observe_only)
        page.wait_for_selector("button.switch[aria-checked=true]")
        page.wait_for_selector("tbody .state[data-state=observed]")
        page.click("button.switch")
        assert wait_for(lambda: not pen.observe_only)
        page.wait_for_selector("button.switch[aria-checked=false]")
        seen = pen.store.newest_point_id()
        assert wait_for(lambda: pen.store.newest_point_id() > seen)
        assert [row.action.reason for row in pen.store.actions(kinds=(ActionKind.FAULT,))] == []


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A recorded run of sixty queries, served."""
    directory = tmp_path_factory.mktemp("history")
    write_history(directory / "clickstream.db", queries=60, seconds=600.0, until_s=time.time())
    engines = open_engines([directory])
    with Service(engines, token_file=directory / "token") as service:
        yield service
    for engine in engines:
        engine.store.close()


@pytest.mark.parametrize("size", sorted(SIZES))
def test_every_view_is_drawn_light_dark_and_small(browser: Browser, history: Service, size: str) -> None:
    """No complaint of the browser or of axe-core, no request that leaves the host, no sideways scrolling."""
    with tab(browser, history, size) as own:
        own.page.wait_for_selector("tbody tr")
        own.look(f"fleet-{size}")
        query_page(own, "clickstream", "clicks-0000")
        own.look(f"query-{size}")
        assert own.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        own.page.goto(f"{history.url}/#/actions")
        own.page.wait_for_selector("tbody tr")
        own.look(f"actions-{size}")


def test_a_mark_on_a_chart_says_why(browser: Browser, history: Service) -> None:
    """Hovering over an action on the time axis shows its reason."""
    with tab(browser, history) as own:
        query_page(own, "clickstream", "clicks-0000")
        plot = "document.querySelector('.plot.js-plotly-plot')"
        place = own.page.evaluate(f"{plot}.data.findIndex((trace) => trace.name === 'actions')")
        own.page.evaluate(f"Plotly.Fx.hover({plot}, [{{curveNumber: {place}, pointNumber: 0}}], ['xy2'])")
        own.page.wait_for_selector(".hoverlayer text:has-text('read_limit'), .hoverlayer text:has-text('keep_ratio')")


def test_the_fleet_is_sorted_searched_and_used_by_keyboard(browser: Browser, history: Service) -> None:
    """Headings sort, the search finds, states filter, pages turn; and a query is reached with the keyboard alone."""
    with tab(browser, history) as own:
        page = own.page
        page.wait_for_selector("tbody tr")
        assert page.locator("tbody tr").count() == 50
        page.click("button:has-text('Next')")
        assert page.locator("tbody tr").count() == 10
        page.click("th button:has-text('Backlog')")
        assert page.get_attribute("th[aria-sort] >> nth=0", "aria-sort") == "descending"
        page.fill("input[type=search]", "payments-00")
        page.wait_for_function("document.querySelectorAll('tbody tr').length === 12")
        page.fill("input[type=search]", "nothing like it")
        page.wait_for_selector("text=No query matches.")
        page.fill("input[type=search]", "clicks-0000")
        page.wait_for_function("document.querySelectorAll('tbody tr').length === 1")
        page.focus("input[type=search]")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "clicks-0000":
                break
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('clicks-0000')")


@pytest.mark.slow
def test_what_if_draws_both_curves(browser: Browser, history: Service) -> None:
    """A goal that is tried on the page gives a table and charts with both runs."""
    with tab(browser, history) as own:
        query_page(own, "clickstream", "clicks-0000")
        own.page.fill(".section input[name=hours]", "0.15")
        own.page.fill(".section input[name=latency_s]", "3")
        own.page.click("button:has-text('Play')")
        own.page.wait_for_selector(".compare")
        own.page.wait_for_selector("[data-name=executors] .main-svg")
        names = own.page.evaluate("document.querySelector('[data-name=latency]').data.map((trace) => trace.name)")
        assert names == ["as it is", "what if"]
        own.look("what-if")


def test_an_empty_fleet_and_a_lost_service_are_designed(browser: Browser, tmp_path: Path) -> None:
    """An empty store says what to do, and a service that ended is told with the age of its figures."""
    store = MemoryStore()
    service = Service([ServedEngine("empty", store)], token_file=tmp_path / "token").start()
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    own = Tab(page, service.url)
    page.goto(service.url)
    page.wait_for_selector("text=No queries yet")
    own.look("empty")
    begin(store, query_names(1), time.time())
    grow(store, query_names(1), time.time(), 1)
    page.wait_for_selector("tbody tr th a")
    page.click("#unlock")
    page.wait_for_selector("dialog[open]")
    own.look("unlock")
    page.keyboard.press("Escape")
    service.stop()
    page.wait_for_selector("#banner[data-kind=stale]:not([hidden])")
    assert "No news for" in page.inner_text("#banner")
    own.look("lost")
    context.close()
