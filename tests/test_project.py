"""What holds for the project as a whole: pins, boundaries, exports, and files that a stranger can use."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import penstock
from penstock.bench.constants import MODULES as FAST_TIER
from penstock.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGE = ROOT / "src" / "penstock"

# Put together here, so that this file does not contain what it looks for.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in [
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("maven", "google", "com"),
        ("deb", "debian", "org"),
        ("registry", "npmjs", "org"),
        ("conda", "anaconda", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
    ]
]
# Homes of users, but for the one that examples name, and where this checkout lies.
MACHINE_PATHS = re.compile(rf"(?<![\w.$}}])(?:/root|/(?:home|Users)/(?!me/)[\w.-]+|{re.escape(str(ROOT))})/")


def project_files() -> list[Path]:
    """Files that are in the repository or would be with the next commit."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        places = [ROOT / name for name in ("src", "tests", "docs", "scripts", "examples")]
        found = [path for place in places for path in place.rglob("*") if "__pycache__" not in path.parts]
        return [path for path in [*ROOT.glob("*.*"), *found] if path.is_file()]
    return [ROOT / name for name in listed if (ROOT / name).is_file()]


def texts() -> dict[str, str]:
    """Text of every file that is text."""
    contents = {path: path.read_bytes() for path in project_files()}
    return {
        str(path.relative_to(ROOT)): content.decode("utf-8", "replace")
        for path, content in contents.items()
        if b"\0" not in content
    }


def constraints(name: str) -> dict[str, str]:
    """Pinned versions of a constraints file."""
    lines = (ROOT / name).read_text(encoding="utf-8").split()
    pairs = [line.split("==") for line in lines]
    assert all(len(pair) == 2 for pair in pairs), f"{name} must pin every package with =="
    return {canonicalize_name(package): version for package, version in pairs}


def test_no_registry_hosts() -> None:
    """Where packages come from is the user's configuration, not ours."""
    found = {(name, host) for name, text in texts().items() for host in REGISTRY_HOSTS if host in text}
    assert found == set()


def test_no_paths_of_one_machine() -> None:
    """No file names a directory that only exists where it was written."""
    found = {(name, line) for name, text in texts().items() for line in text.splitlines() if MACHINE_PATHS.search(line)}
    assert found == set()


def test_every_ignored_rule_has_its_reason() -> None:
    """Whoever switches a rule off in pyproject.toml says why."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lint = PYPROJECT["tool"]["ruff"]["lint"]
    rules = [*lint["ignore"], *(rule for listed in lint["per-file-ignores"].values() for rule in listed)]
    assert [rule for rule in rules if not re.search(rf'^ +"{rule}", +# \S+', text, re.MULTILINE)] == []


def test_every_silenced_line_has_its_reason() -> None:
    """Whoever silences a rule on one line of code says why, behind a dash."""
    mark = "# no" + "qa"
    silenced = [
        f"{name}: {line.strip()}"
        for name, text in texts().items()
        if name.endswith(".py")
        for line in text.splitlines()
        if mark in line and not re.search(mark + r": [A-Z]+\d+(, [A-Z]+\d+)* - \S+", line)
    ]
    assert silenced == []


def direct_requirements() -> list[Requirement]:
    project = PYPROJECT["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    found = [Requirement(line) for line in [*project["dependencies"], *extras]]
    return [requirement for requirement in found if requirement.name != "penstock"]


def test_every_extra_brings_what_the_code_asks_for() -> None:
    """The packages that a missing extra is told by are those that it installs, and whoever develops has them all."""
    extras = {
        name: [Requirement(line) for line in lines]
        for name, lines in PYPROJECT["project"]["optional-dependencies"].items()
    }

    def brought(name: str) -> set[str]:
        inner = {package for each in extras[name] for extra in each.extras for package in brought(extra)}
        return inner | {each.name.replace("-", "_") for each in extras[name] if not each.extras}

    assert {name: brought(name) for name in extras if name != "dev"} == {
        name: set(packages) for name, packages in EXTRAS.items()
    }
    assert set().union(*EXTRAS.values()) <= brought("dev")


def test_pins_satisfy_the_direct_dependencies() -> None:
    """Every direct dependency is pinned, to a version that pyproject.toml allows."""
    pins = constraints("constraints.txt")
    for requirement in direct_requirements():
        assert Version(pins[canonicalize_name(requirement.name)]) in requirement.specifier, requirement


def test_pins_cover_what_the_dependencies_bring() -> None:
    """Whatever a dependency pulls in on this machine is pinned too, so that no two set-ups differ."""
    pins, seen = constraints("constraints.txt"), set[str]()
    waiting = direct_requirements()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for line in [] if name in seen else metadata.requires(name) or []:
            brought = Requirement(line)
            if brought.marker is None or brought.marker.evaluate({"extra": ",".join(requirement.extras)}):
                waiting.append(brought)
        seen.add(name)
    assert seen - set(pins) == set()


def test_build_tools_are_pinned() -> None:
    """What builds the package is pinned as well, to versions that pyproject.toml allows."""
    pins = constraints("scripts/build-constraints.txt")
    for line in PYPROJECT["build-system"]["requires"]:
        requirement = Requirement(line)
        assert Version(pins[canonicalize_name(requirement.name)]) in requirement.specifier, requirement


def imported_names(tree: ast.AST) -> set[str]:
    """Top-level names of all modules that a file imports, inside functions too."""
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    partly = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return {name.split(".")[0] for name in plain | partly}


def test_decisions_import_no_world() -> None:
    """Model, estimates and control import nothing that import-linter forbids them, not even inside a function."""
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["type"] == "forbidden"]
    forbidden = set(contract["forbidden_modules"])
    found = {
        (str(path.relative_to(PACKAGE)), name)
        for module in contract["source_modules"]
        for path in (PACKAGE / module.split(".")[1]).rglob("*.py")
        for name in imported_names(ast.parse(path.read_text(encoding="utf-8"))) & forbidden
    }
    assert {"pyspark", "sqlite3", "time", "random"} <= forbidden
    assert found == set()


@pytest.mark.parametrize("module", [*FAST_TIER, "penstock.control.engine", "penstock.control.workload"])
def test_every_constant_of_the_fast_tier_says_where_it_comes_from(module: str) -> None:
    """A number that decides about batches has a docstring, of its own or with those right above it."""
    body = ast.parse((PACKAGE.parent / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")).body
    undocumented = [
        ast.unparse(statement)
        for place, statement in enumerate(body)
        if isinstance(statement, ast.Assign) and is_number(statement.value) and not has_docstring(body[place:])
    ]
    assert undocumented == []


def is_number(value: ast.expr) -> bool:
    """Whether it is a number, a tuple of them, or reckoned from such."""
    kinds = (ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)
    parts = list(ast.walk(value))
    texts_or_none = [
        part for part in parts if isinstance(part, ast.Constant) and not isinstance(part.value, int | float)
    ]
    return all(isinstance(part, kinds) for part in parts) and not texts_or_none


def has_docstring(statements: list[ast.stmt]) -> bool:
    """Whether the assignments at the beginning are followed by a text at once."""
    following = next((each for each in statements if not isinstance(each, ast.Assign)), None)
    return isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)


def test_private_members_of_spark_are_used_in_one_package() -> None:
    """Whatever PySpark hides behind an underscore is touched in ``spark/internals`` alone."""
    private = re.compile(r"\._(?:jvm|jsc|jsq|jdf|jwrite|jlistenerobj|jsparkSession|gateway|sc)\b")
    using = {path for path in PACKAGE.rglob("*.py") if private.search(path.read_text(encoding="utf-8"))}
    assert using
    assert {path.parent for path in using} == {PACKAGE / "spark" / "internals"}


def test_changelog_has_a_place_for_the_next_change() -> None:
    """The changelog begins with what is not released, and the newest release is the package's version or older."""
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    released = [Version(heading) for heading in headings[1:]]
    assert released == sorted(released, reverse=True)
    assert all(version <= Version(penstock.__version__) for version in released)


def test_version_is_told_once() -> None:
    """The package, its metadata and pyproject.toml agree."""
    assert penstock.__version__ == PYPROJECT["project"]["version"] == metadata.version("penstock")


def modules() -> list[str]:
    return ["penstock", *(module.name for module in pkgutil.walk_packages(penstock.__path__, "penstock."))]


@pytest.mark.parametrize("name", [name for name in modules() if not name.endswith("__main__")])
def test_exports_exist(name: str) -> None:
    """A module can be imported alone, and what it says it exports is there, once."""
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert [export for export in exported if not hasattr(module, export)] == []
    assert len(exported) == len(set(exported))


def test_scripts_can_be_run() -> None:
    """Every script is executable, is valid shell, and begins by saying what it is for."""
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.suffix == ""]
    assert scripts
    for script in scripts:
        assert os.access(script, os.X_OK), script
        assert script.read_text(encoding="utf-8").splitlines()[1].startswith("# "), script
        subprocess.run(["bash", "-n", script], check=True)


def test_help_lists_every_target() -> None:
    """``make`` without a target lists the targets and does nothing else."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    shown = subprocess.run(
        ["make", "--no-print-directory", "-C", ROOT], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert {line.split()[1] for line in shown.splitlines()} == set(phony.group(1).split())


@pytest.mark.parametrize("path", sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")}), ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    """A relative link in the documentation points to a file that exists."""
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []
