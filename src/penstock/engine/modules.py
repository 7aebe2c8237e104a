"""Functions of application modules, from configured paths and from nowhere else.

Whoever has the token of an engine may ask it to run a query. What code that runs is not theirs to say: it must lie
under one of the paths that the engine was started with.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ModuleRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


class ApplicationModules:
    """Loads what applications are made of.

    Parameters
    ----------
    paths
        Directories that hold the modules.
    setting
        Where these paths are configured, for messages.

    Examples
    --------
    >>> ApplicationModules(["/srv/apps"], setting="modules of [engines.left]").load("os:getcwd")
    Traceback (most recent call last):
        ...
    penstock.errors.ModuleRefusedError: module 'os' of 'os:getcwd' is not in /srv/apps: put it there, or add its \
directory to modules of [engines.left]
    """

    def __init__(self, paths: Sequence[str | Path], *, setting: str) -> None:
        self.paths = tuple(Path(path).resolve() for path in paths)
        self._setting = setting

    def open(self) -> None:
        """Let modules of these paths import one another, behind everything that is installed."""
        sys.path.extend(str(path) for path in self.paths if str(path) not in sys.path)

    def load(self, entry: str) -> Callable[..., Any]:
        """The function of an entry such as ``"ads.queries:clicks"``."""
        if not _ENTRY.fullmatch(entry):
            raise ModuleRefusedError(f"{entry!r} names no function: write 'package.module:function'")
        module_name, _, function_name = entry.partition(":")
        self._require_inside(entry, module_name)
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            raise ModuleRefusedError(
                f"module {module_name!r} of {entry!r} does not import ({_what(error)}): mend it, or install what it "
                "imports where the engine runs"
            ) from error
        self._require_origin(entry, module)
        function = getattr(module, function_name, None)
        if not callable(function):
            raise ModuleRefusedError(
                f"module {module_name!r} has no function {function_name!r}: give {entry!r} the name of one that takes "
                "a session and options"
            )
        return function  # type: ignore[no-any-return]

    def _require_inside(self, entry: str, module_name: str) -> None:
        """Refuse before anything of the module runs."""
        first = module_name.partition(".")[0]
        spec = PathFinder.find_spec(first, [str(path) for path in self.paths]) if self.paths else None
        known = sys.modules.get(first)
        # One that was imported from elsewhere would be taken in its place, whatever lies in the paths.
        if not self._is_inside(spec) or (known is not None and not self._is_inside(known.__spec__)):
            raise self._refused(entry, first)

    def _require_origin(self, entry: str, module: ModuleType) -> None:
        if not self._is_inside(module.__spec__):
            raise self._refused(entry, module.__name__)

    def _is_inside(self, spec: ModuleSpec | None) -> bool:
        if spec is None:
            return False
        places = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
        return bool(places) and all(
            any(Path(place).resolve().is_relative_to(path) for path in self.paths) for place in places
        )

    def _refused(self, entry: str, module_name: str) -> ModuleRefusedError:
        where = ", ".join(map(str, self.paths)) or "any configured path"
        return ModuleRefusedError(
            f"module {module_name!r} of {entry!r} is not in {where}: put it there, or add its directory to "
            f"{self._setting}"
        )


def _what(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
