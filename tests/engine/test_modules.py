"""Application modules come from configured paths, and every mistake in one is a sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.engine.modules import ApplicationModules
from penstock.errors import ModuleRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[ApplicationModules]:
    apps = tmp_path / "apps"
    (apps / "fleet_shop").mkdir(parents=True)
    (apps / "fleet_shop" / "__init__.py").write_text("")
    (apps / "fleet_shop" / "queries.py").write_text("def clicks(spark, options):\n    return options\nlimit = 3\n")
    (apps / "fleet_shop" / "torn.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "fleet_elsewhere.py").write_text("raise SystemError('it ran')\n")
    before, path = set(sys.modules), list(sys.path)
    loader = ApplicationModules([apps], setting="modules of [engines.left]")
    loader.open()
    yield loader
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_function_of_a_configured_path_is_loaded(modules: ApplicationModules) -> None:
    """What lies in a configured path is imported and given."""
    assert modules.load("fleet_shop.queries:clicks")(None, {"topic": "a"}) == {"topic": "a"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("os:getcwd", "module 'os' of 'os:getcwd' is not in .*add its directory to modules of \\[engines.left\\]"),
        ("penstock.cli:main", "module 'penstock' .* is not in"),
        ("fleet_elsewhere:run", "module 'fleet_elsewhere' .* is not in"),
        ("fleet_shop.torn:run", "does not import .ModuleNotFoundError: No module named 'no_such_package_at_all'"),
        ("fleet_shop.queries:views", "has no function 'views'"),
        ("fleet_shop.queries:limit", "has no function 'limit'"),
        ("fleet_shop.missing:run", "does not import .ModuleNotFoundError"),
        ("fleet_shop.queries", "names no function: write 'package.module:function'"),
        ("../fleet_shop:run", "names no function"),
    ],
)
def test_whatever_cannot_be_loaded_says_why(modules: ApplicationModules, entry: str, said: str) -> None:
    """Each mistake names the module and what to do; nothing outside of the paths is run."""
    with pytest.raises(ModuleRefusedError, match=said):
        modules.load(entry)


def test_a_link_out_of_the_path_is_refused(modules: ApplicationModules, tmp_path: Path) -> None:
    """A link in a configured path does not let in what lies elsewhere."""
    (tmp_path / "apps" / "fleet_linked.py").symlink_to(tmp_path / "fleet_elsewhere.py")
    with pytest.raises(ModuleRefusedError, match="is not in"):
        modules.load("fleet_linked:run")


def test_no_path_lets_nothing_in() -> None:
    """An engine without configured paths runs no module at all."""
    with pytest.raises(ModuleRefusedError, match="is not in any configured path"):
        ApplicationModules([], setting="modules of [engines.left]").load("json:loads")
