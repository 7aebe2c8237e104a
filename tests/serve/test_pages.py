"""The files of the page, and the pages of the reference."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.model import ActionKind
from penstock.serve.api import STATIC
from penstock.serve.reference import reference_page
from serve_helpers import Served

ROOT = Path(__file__).parents[2]


def test_the_page_loads_only_files_of_its_own(recorded: Served) -> None:
    """Every file that the page or one of its modules names is served, and none has an address of another host."""
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s\"'`)]+", text) == [], path.name
        for name in re.findall(r"/static/([\w.-]+)", text):
            assert recorded.client.get(f"/static/{name}").status_code == 200, (path.name, name)


def test_the_page_is_served_with_its_type(recorded: Served) -> None:
    """Browsers run no module that is sent as anything but a script."""
    assert recorded.client.get("/").headers["content-type"].startswith("text/html")
    assert "javascript" in recorded.client.get("/static/app.js").headers["content-type"]
    assert recorded.client.get("/static/style.css").headers["content-type"].startswith("text/css")


def test_the_log_can_be_narrowed_to_every_kind_of_action() -> None:
    """A kind of action that the program knows and the page does not could never be looked for there."""
    listed = re.search(r"const KINDS = \[(.*?)\]", (STATIC / "actions.js").read_text(encoding="utf-8"))
    assert listed is not None
    assert re.findall(r'"(\w+)"', listed[1]) == [kind.value for kind in ActionKind]


def test_no_file_beside_those_of_the_page_is_served(recorded: Served) -> None:
    """A path that leads elsewhere finds nothing."""
    for path in ("/static/../api.py", "/static/%2e%2e/api.py", "/static/..%2fapi.py", "/static//etc/passwd"):
        assert recorded.client.get(path).status_code == 404


def test_the_reference_of_the_api_is_current() -> None:
    """docs/reference/http.md is what the code says; 'make docs' writes it anew."""
    assert (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8") == reference_page()
