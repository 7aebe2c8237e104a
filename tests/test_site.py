"""The documentation as a site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from penstock.model import ActionKind

ROOT = Path(__file__).parents[1]


def pages_of(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages_of(part)]  # type: ignore[attr-defined]


def test_every_guide_is_in_the_navigation() -> None:
    """A page that nobody can reach is not read; a page that is not there cannot be."""
    tree = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = set(pages_of(tree["nav"]))
    docs = ROOT / "docs"
    there = {str(path.relative_to(docs)) for path in docs.rglob("*.md") if path.parent.name != "adr"}
    assert listed - {"adr/README.md"} == there


def test_every_kind_of_decision_is_explained() -> None:
    """Whoever reads the log for the first time finds each of its kinds in the table."""
    text = (ROOT / "docs" / "guide" / "getting-started.md").read_text(encoding="utf-8")
    table = text[text.index("| kind | meaning |") :].split("\n\n", maxsplit=1)[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert named == {str(kind) for kind in ActionKind}


def test_every_record_of_a_decision_is_in_the_table() -> None:
    """The index of records names each page once, in order, with its title and status as they stand there."""
    records = ROOT / "docs" / "adr"
    text = (records / "README.md").read_text(encoding="utf-8")
    rows = text[text.index("| page |") :].split("\n\n", maxsplit=1)[0].splitlines()[2:]
    expected = []
    for number, path in enumerate(sorted(records.glob("[0-9]*.md")), start=1):
        title, _, status = path.read_text(encoding="utf-8").splitlines()[:3]
        assert title.startswith(f"# {number:04}: "), path.name
        assert status.startswith("Status: "), path.name
        expected.append(
            f"| [{number:04}]({path.name}) | {title.partition(': ')[2]} | {status.removeprefix('Status: ')} |"
        )
    assert rows == expected


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Every page is there, the reference has the docstrings, and nothing is loaded from another host."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert len(pages) > 20
    outside = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(?:https?:)?//")
    assert [path.name for path, text in pages.items() if outside.search(text)] == []
    assert "Observe every streaming query of a session" in pages[tmp_path / "reference" / "python.html"]
