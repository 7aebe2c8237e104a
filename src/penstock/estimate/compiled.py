"""One place that turns per-row Python loops into machine code.

Every loop over rows in Penstock is written once, as a function over numpy arrays, and compiled by numba on its first
call. The machine code is kept beside the source (``__pycache__``), so that only the first process ever pays for it.

Numba notices when the file of a compiled function changes, but not when a compiled function that it calls changes in
another file. After editing a kernel that others call, delete the ``*.nbi`` files under ``__pycache__``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Without numba's run-time for references, which takes most of the time of a loop over many arrays.
_LEAN: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a loop over arrays on its first call, keeping its Python signature for the type checker.

    Division follows IEEE 754 here: a kernel tests for zero where zero can occur, and a branch per division is saved.

    Examples
    --------
    >>> import numpy as np
    >>> @compiled
    ... def total(values):
    ...     result = 0.0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> total(np.array([1.0, 2.5]))
    3.5
    """
    try:
        return cast("Callable[_P, _R]", numba.njit(cache=True, error_model="numpy")(function))
    except RuntimeError:
        # No file to keep machine code beside: a package imported from a zip, or a function typed into a shell.
        return cast("Callable[_P, _R]", numba.njit(error_model="numpy")(function))


def compiled_inline(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a part of a loop into each loop that calls it, for parts that take many arrays and make none.

    Handing over an array costs seven words and a count of references up and down, which is more than the work of a part
    that runs once an event. So the part is inlined and references are not counted; it must not create arrays.

    Examples
    --------
    >>> @compiled_inline
    ... def double(value):
    ...     return 2.0 * value
    >>> double(1.5)
    3.0
    """
    return cast("Callable[_P, _R]", numba.njit(**_LEAN, forceinline=True)(function))


def compiled_lean(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a loop that is made of inlined parts, and like them creates no arrays."""
    return cast("Callable[_P, _R]", numba.njit(**_LEAN, cache=True)(function))
