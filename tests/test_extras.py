"""Without its extras Penstock imports, governs and shows its demo; what needs one says which."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from patience import PATIENCE_S
from penstock.apps.report import write_report
from penstock.control.allocation import allocate
from penstock.control.utility import Utility, UtilityKind
from penstock.errors import MissingExtraError
from penstock.estimate.change import FixedThreshold
from penstock.extras import EXTRAS, require, spark_version
from penstock.kafka.load_sinks import KafkaTarget
from penstock.model.graph import Element, ElementGraph, Engine, InputStream

PACKAGES = sorted(set().union(*EXTRAS.values()))
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({PACKAGES!r}))\n"
# Where the extras begin to matter: whatever governs queries, and the demo, is before this line.
CORE = ("penstock", "penstock.functions", "penstock.spark.attach", "penstock.apps.demo", "penstock.cli",
        "penstock.cluster.engine", "penstock.policies", "penstock.sim.replay_table")  # fmt: skip


def run_blocked(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + program], capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture
def _without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        monkeypatch.delitem(sys.modules, name)
    for package in PACKAGES:
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "penstock.control.allocation_convex", raising=False)


def test_the_core_imports_without_any_extra() -> None:
    """In an interpreter that has none of the packages, all modules of the core can be imported."""
    lines = [f"import {name}" for name in CORE]
    ended = run_blocked("\n".join([*lines, "penstock.attach", "print('there')"]))
    assert (ended.returncode, ended.stdout) == (0, "there\n"), ended.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["experiment", "las", "--runs", "1"], "research"),
        (["experiment", "aces"], "research"),
        (["experiment", "elastic", "--changes"], "research"),
        (["replay", "--trace", "day.csv", "--policy", "hpa", "--out", "charts"], "charts"),
        (["serve", "--store", "penstock.db"], "serve"),
        (["kafka", "lag", "nowhere", "--bootstrap", "127.0.0.1:1"], "kafka"),
        (["load", "--topic", "t", "--bootstrap", "127.0.0.1:1", "--profile", "constant:rate=1"], "kafka"),
    ],
)
def test_a_command_of_an_absent_extra_says_what_to_install(words: list[str], extra: str) -> None:
    """One line on the error stream that ends with the command, exit code 2, and nothing begun."""
    ended = run_blocked(f"from penstock.cli import main; sys.exit(main({words!r}))")
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(f"pip install 'penstock[{extra}]'")


def test_help_of_the_experiments_needs_no_extra() -> None:
    """Whoever wonders what an experiment does need not install anything to read about it."""
    ended = run_blocked("from penstock.cli import main; sys.exit(main(['experiment', 'las', '--help']))")
    assert ended.returncode == 0, ended.stderr
    assert "load-aware shedding" in ended.stdout


def concave() -> object:
    graph = ElementGraph((Engine("e"),), (InputStream("s", 100.0),), (Element("a", "e", ("s",), 100.0, weight=1.0),))
    return allocate(graph, Utility(UtilityKind.LOG, 0.01))


@pytest.mark.usefixtures("_without_extras")
@pytest.mark.parametrize(
    ("use", "package", "extra"),
    [
        (concave, "cvxpy", "research"),
        (lambda: KafkaTarget("127.0.0.1:1", "t", "1").open(0), "confluent_kafka", "kafka"),
        (lambda: require("charts", "a picture"), "matplotlib", "charts"),
    ],
)
def test_what_needs_an_extra_says_so_where_it_is_used(use: Callable[[], object], package: str, extra: str) -> None:
    """The error is Penstock's own and an ImportError, and names package and extra."""
    with pytest.raises(MissingExtraError) as refusal:
        use()
    assert isinstance(refusal.value, ImportError)
    assert (refusal.value.packages, refusal.value.extra) == ([package], extra)
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)  # noqa: S301 - from a worker process


@pytest.mark.usefixtures("_without_extras")
def test_the_report_is_written_without_charts(tmp_path: Path) -> None:
    """Figures are there, and a note tells what the charts need."""
    path = tmp_path / "report.html"
    write_report(path, title="T", introduction="i", rows=[("rows", ["1"])], runs=[])
    text = path.read_text(encoding="utf-8")
    assert "<svg" not in text
    assert "penstock[charts]" in text


@pytest.mark.usefixtures("_without_extras")
def test_a_fixed_threshold_needs_nothing() -> None:
    """A detector that is three lines long does not wait for a library."""
    assert FixedThreshold(0.5).update(1.0) == 0


def test_importing_changes_nothing_of_the_program() -> None:
    """Hooks, signals and warnings are the program's own."""
    program = (
        "import signal, warnings\n"
        "def seen(): return sys.excepthook, signal.getsignal(signal.SIGTERM), list(warnings.filters)\n"
        "before = seen()\nimport penstock\nassert seen() == before\n"
    )
    ended = run_blocked(program)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("version", ["3.5.3", "4.0.1", "4.1.1", "4.3.0"])
def test_versions_of_spark_that_were_not_tried_are_refused_in_one_sentence(version: str, tmp_path: Path) -> None:
    """Whatever else such a version lacks, the error names it, what is supported and the command that helps."""
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text("raise AttributeError('nothing of this is there')\n", encoding="utf-8")
    (package / "version.py").write_text(f'__version__: str = "{version}"\n', encoding="utf-8")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import penstock; penstock.attach"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"penstock.errors.UnsupportedSparkError: PySpark {version} is not supported")
    assert last.endswith("pip install 'pyspark>=4.2,<4.3'")


def test_the_installed_version_of_spark_is_read_without_importing_it() -> None:
    """And is the one that pip knows."""
    assert spark_version() == metadata.version("pyspark")
