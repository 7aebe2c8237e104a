"""A file with engines and applications means what it says, and every mistake has its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.declaration import read_declaration
from penstock.errors import InvalidDeclarationError
from penstock.fleet_declaration import read_fleet
from penstock.model import Goal
from penstock.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """\
[engines.left]
pin = [0, 2]
modules = ["shared"]

[engines.right]
kind = "standalone"
master = "spark://10.0.0.1:7077"
executors = 2
executor_cores = 3
spark = { "spark.sql.shuffle.partitions" = "6" }

[engines.far]
address = "http://10.0.0.5:8471"
token_file = "far.token"

[applications.ads]
modules = ["src"]
checkpoints = "state"

[applications.ads.queries.clicks]
run = "ads.queries:clicks"
options = { topic = "clicks", partitions = [0, 1] }
latency = "5 seconds"
minimum_accuracy = 0.3
priority = 5
reads = ["topic:clicks"]
prefers = ["right"]
task = "counting"

[applications.shop.queries.orders]
run = "shop:orders"
checkpoint = "hdfs://name/orders"

[agents]
lease_s = 20
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.toml"


def test_a_whole_file(path: Path) -> None:
    """Engines of several kinds, queries of several applications and settings are read, paths as seen from the file."""
    path.write_text(WHOLE)
    fleet = read_fleet(path)
    left, right, far = fleet.engines["left"], fleet.engines["right"], fleet.engines["far"]
    assert (left.kind, left.cores, left.pin, left.is_ours) == ("local", 2, (0, 2), True)
    assert left.modules == (str(path.parent / "src"), str(path.parent / "shared"))
    assert (right.cores, right.place, right.spark) == (
        6, {"master": "spark://10.0.0.1:7077"}, {"spark.sql.shuffle.partitions": "6"},
    )  # fmt: skip
    assert (far.is_ours, far.address, far.token_file) == (
        False, "http://10.0.0.5:8471", str(path.parent / "far.token"),
    )  # fmt: skip
    clicks, orders = (fleet.queries[name] for name in ("clicks", "orders"))  # type: ignore[index]
    assert clicks.query.goal == Goal("5 seconds", 0.3, 5)
    assert (clicks.application, clicks.entry, clicks.prefers) == ("ads", "ads.queries:clicks", ("right",))
    assert clicks.task == "counting"
    assert clicks.options == {"topic": "clicks", "partitions": [0, 1]}
    assert clicks.checkpoint == str(path.parent / "state" / "clicks")
    assert orders.checkpoint == "hdfs://name/orders"
    assert fleet.settings.agents.lease_s == 20


ENGINE = "[engines.left]\n"
QUERY = '[applications.ads]\ncheckpoints = "c"\n[applications.ads.queries.clicks]\nrun = "ads:clicks"\n'


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "no engine is declared"),
        (ENGINE, 1, "no application is declared"),
        (ENGINE + "[applications.ads]\n", 2, "application 'ads' has no queries"),
        ("[engines.left]\ncore = 2\n" + QUERY, 2, "has no key 'core': did you mean 'cores'?"),
        ("[engines.left]\nkind = 'standalon'\n" + QUERY, 2, "did you mean 'standalone'?"),
        ("[engines.left]\nkind = 'standalone'\n" + QUERY, 1, "has no master: write master = "),
        ("[engines.left]\nmaster = 'spark://a:1'\n" + QUERY, 2, "engine 'left' of kind 'local' has no key 'master'"),
        ("[engines.left]\ncores = 0\n" + QUERY, 2, "write a whole number from 1 up"),
        ("[engines.left]\npin = [0, 'b']\n" + QUERY, 2, "pin holds 'b', a text"),
        ("[engines.left]\npin = 1\n" + QUERY, 2, "pin is 1, a whole number"),
        ("[engines.left]\nlisten = 'here'\n" + QUERY, 2, "write ADDRESS:PORT"),
        ("[engines.left]\naddress = 'far'\n" + QUERY, 2, "write http://HOST:PORT"),
        ("[engines.left]\naddress = 'http://far:1'\n" + QUERY, 1, "has no token_file"),
        ("[engines.left]\nspark = { cores = '1' }\n" + QUERY, 2, 'write "spark.KEY" = "VALUE"'),
        ("[engines.'a b']\n" + QUERY, 1, "has signs in it"),
        ("engines = 3\n" + QUERY, 1, "'engines' is 3, a whole number"),
        ("[engines]\nleft = 3\n" + QUERY, 2, "'left' is 3, a whole number"),
        (ENGINE + QUERY.replace("run", "ran"), 5, "did you mean 'run'?"),
        (ENGINE + QUERY.replace('run = "ads:clicks"', "priority = 1"), 4, "run of query 'clicks' is missing"),
        (ENGINE + QUERY.replace("ads:clicks", "ads.clicks"), 5, "write the function that builds it"),
        (ENGINE + QUERY.replace('checkpoints = "c"\n', ""), 3, "query 'clicks' has no checkpoint"),
        (ENGINE + QUERY + "priority = 500\n", 6, "priority 500 must be a whole number from 1 to 100"),
        (ENGINE + QUERY + "latancy = 5\n", 6, "did you mean 'latency'?"),
        (ENGINE + QUERY + "options = 3\n", 6, "write options = { KEY = VALUE }"),
        (ENGINE + QUERY + "options = { day = 2026-01-05 }\n", 6, "option 'day' is 2026-01-05, a date or time"),
        ("[engines.left]\nmemory = '1 GB'\n" + QUERY, 2, "write a whole number and a unit"),
        (ENGINE + QUERY + "prefers = ['lift']\n", 6, "did you mean 'left'?"),
        (ENGINE + QUERY + "task = 3\n", 6, "task is 3, a whole number"),
        (ENGINE + "host_busy = 'sum(up)'\n" + QUERY, 1, "write both, or neither"),
        (ENGINE + "host_busy = 'sum(up)'\nprometheus = 'here:9090'\n" + QUERY, 3, "write http://HOST:PORT"),
        (ENGINE + QUERY + "[applications.b]\nmodule = []\n", 7, "did you mean 'modules'?"),
        (
            ENGINE + QUERY + QUERY.replace("applications.ads", "applications.b"), 8,
            "query 'clicks' is in application 'ads' as well",
        ),
        (ENGINE + QUERY + "[queries.views]\n", 6, r"write \[applications.NAME.queries.QUERY\]"),
        (ENGINE + QUERY + "[agents]\nlease = 3\n", 7, "did you mean 'lease_s'?"),
        (ENGINE + QUERY + "[agent]\nlease_s = 3\n", 6, "did you mean 'agents'?"),
    ],
)  # fmt: skip
def test_every_mistake_has_its_line_and_remedy(path: Path, text: str, line: int, said: str) -> None:
    """A mistake names the file, the line and what to write."""
    path.write_text(text)
    with pytest.raises(InvalidDeclarationError, match=said) as caught:
        read_fleet(path)
    assert caught.value.line == line


def test_one_session_does_not_take_a_file_of_engines(path: Path) -> None:
    """Whoever attaches with a file of engines is told what it is for; its settings can be read by everybody."""
    path.write_text(WHOLE)
    with pytest.raises(InvalidDeclarationError, match="start the file with 'penstock up'"):
        read_declaration(path)
    assert load_settings(path).agents.lease_s == 20


def test_a_single_application_stays_valid(path: Path) -> None:
    """A file without engines is read as before."""
    path.write_text("[queries.clicks]\npriority = 3\n")
    assert read_declaration(path).application.queries["clicks"].goal.priority == 3  # type: ignore[index]
