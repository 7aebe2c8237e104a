"""The examples run as they stand, end by themselves, and show what they promise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pyspark
import pytest
from nbclient import NotebookClient

from penstock.cluster.standalone import running_cluster
from penstock.cluster.standalone_config import StandaloneSpec
from penstock.model import ActionKind
from penstock.store import open_reader

EXAMPLES = Path(__file__).parents[2] / "examples"
BATCH = re.compile(r"^batch (\d+): ([\d,]+) rows in ([\d.]+) s$", re.MULTILINE)
BACKLOG_ROWS = 300_000
FIRST_BATCH_ROWS = 1000

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]


def run(name: str, directory: Path) -> str:
    """What an example prints, run as a user would run it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert list(directory.glob("*.db")) == []
    return done.stdout


def rows_of_batches(output: str) -> list[int]:
    return [int(rows.replace(",", "")) for _, rows, _ in BATCH.findall(output)]


@pytest.mark.slow
def test_the_dashboard_of_an_application_is_asked_and_changes_its_goal(tmp_path: Path) -> None:
    """The API tells how the query is doing, and the goal that it was given is the one that stands."""
    output = run("06-dashboard.py", tmp_path)
    assert re.search(r"dashboard: http://127\.0\.0\.1:\d+", output)
    assert re.search(r"^waves .*; goal 10 s$", output, re.MULTILINE)
    assert "results within 5 s" in output


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    """Executed from top to bottom, every object shows itself: tables, sentences, a chart, the address of the page."""
    notebook = nbformat.read(EXAMPLES / "08-notebook.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()
    shown = [
        output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output
    ]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert any("waves" in page and "&#9679;" in page for page in pages)
    assert any("results within 10 s" in page for page in pages)
    assert any("the dashboard is at" in page for page in pages)
    assert any("application/vnd.plotly.v1+json" in data for data in shown)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_recipe_for_spark_submit_runs_on_standalone(tmp_path: Path) -> None:
    """Submitted to a cluster with the package as a zip, the query is governed by the package from that zip."""
    package = shutil.make_archive(str(tmp_path / "penstock"), "zip", EXAMPLES.parent / "src", "penstock")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with running_cluster(StandaloneSpec(tmp_path / "cluster", workers=1, cores=2, memory="1g")) as cluster:
        environment = os.environ | {
            "SPARK_CONF_DIR": str(tmp_path / "cluster" / "conf"), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": "",
        }  # fmt: skip
        command = [submit, "--master", cluster.master_url, "--py-files", package]
        command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m"]
        command += [EXAMPLES / "07-spark-submit.py", tmp_path / "submitted.db"]
        done = subprocess.run(
            [str(word) for word in command], env=environment, capture_output=True, text=True, timeout=500, check=False
        )
    assert done.returncode == 0, done.stderr[-4000:]
    assert re.search(r"^penstock is at .*penstock\.zip/penstock/__init__\.py$", done.stdout, re.MULTILINE)
    assert re.search(r"^ticks +(fine|catching up|shedding)", done.stdout, re.MULTILINE)
    with open_reader(tmp_path / "submitted.db") as store:
        assert [entry.action.reason for entry in store.actions(kinds=(ActionKind.FAULT,))] == []


def test_every_example_has_a_test() -> None:
    """A new example must be added to this file."""
    source = Path(__file__).read_text(encoding="utf-8")
    examples = sorted((*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.ipynb")))
    assert [path.name for path in examples if f'"{path.name}"' not in source] == []


@pytest.mark.slow
def test_observing_leaves_the_query_as_it_is(tmp_path: Path) -> None:
    """Observed only, the first batch takes the whole backlog, and the limit that would have held is in the log."""
    output = run("01-observe.py", tmp_path)
    assert rows_of_batches(output)[0] >= BACKLOG_ROWS
    assert "[observe] read_limit 1,000 rows, start" in output
    assert "[act]" not in output


def test_goal_by_name_limits_the_first_batch(tmp_path: Path) -> None:
    """Governed from its start, a query reads no more than the first limit, although a backlog waits."""
    output = run("02-goal-by-name.py", tmp_path)
    rows = rows_of_batches(output)
    assert rows[0] == FIRST_BATCH_ROWS
    assert max(rows) < BACKLOG_ROWS
    assert re.search(r"\[act\] read_limit [\d,]+ rows, batch \d+", output)
    assert "fault" not in output


@pytest.mark.slow
def test_fluent_form_explains_itself(tmp_path: Path) -> None:
    """A goal given at the writer holds from the first batch on, and the explanation names it."""
    output = run("03-fluent.py", tmp_path)
    assert rows_of_batches(output)[0] == FIRST_BATCH_ROWS
    assert re.search(r"goal since .*: (results within 4 s|rows may be 4 s old)", output)
    assert re.search(r"reads at most [\d,]+ rows a batch from source 0", output)


@pytest.mark.slow
def test_adopted_query_is_limited_and_let_go(tmp_path: Path) -> None:
    """Before adoption a batch takes the backlog; the limit after it rests on finished batches, until the release."""
    output = run("04-adopt.py", tmp_path)
    assert rows_of_batches(output)[0] >= BACKLOG_ROWS
    assert "[act] govern, adopt" in output
    assert re.search(r"\[act\] read_limit [\d,]+ rows, batch \d+: batch \d+ took", output)
    assert output.rstrip().splitlines()[-1].startswith("[act] release, release")


@pytest.mark.slow
def test_graph_from_a_file_is_planned(tmp_path: Path) -> None:
    """All queries of the declared graph run, and a plan with a target for each of them is in the log."""
    output = run("05-graph.py", tmp_path)
    assert re.findall(r"^(\w+): [\d,]+ rows in", output, re.MULTILINE) == ["parse", "alerts", "counts", "archive"]
    plans = re.findall(r"^\[act\] graph_plan, .*rows/s: (.*)$", output, re.MULTILINE)
    assert plans
    assert all(name in plans[-1] for name in ("parse", "alerts", "counts", "archive"))
    assert "fault" not in output
