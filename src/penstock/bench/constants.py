"""What each constant of the fast tier moves: halved and doubled, in simulated loops, each in a process of its own.

A constant that moves nothing is one too many, or stands for a case that these loops do not have; one that moves much
must be derived from what it depends on, or be a setting.
"""

from __future__ import annotations

import ast
import importlib
import itertools
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.bench.loops import GOAL_S, SAME_OF_PLAIN, LoopCase, run_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

MODULES = tuple(
    f"penstock.{name}"
    for name in (
        "control.batch_cut", "control.batch_length", "control.feasibility", "control.keep_choice",
        "control.keep_curve", "control.keep_ratio", "control.lateness", "control.limits", "control.lookahead",
        "control.query_logic", "control.read_budget", "control.target", "control.wanted_length", "control.whole_or_cut",
        "estimate.arrival", "estimate.batch_time", "estimate.cost_hypotheses", "estimate.bisection",
    )
)  # fmt: skip
"""Where the law of one query stands, and what it learns by."""
FACTORS = (0.5, 2.0)
_MOST_OF_IT = 0.5
"""A part that is more than half is varied by what is left to one: twice nine tenths is no part."""
_DIGITS_ONLY = 1e-6
"""What is smaller keeps rounding errors away, and is nobody's choice."""


@dataclass(frozen=True, slots=True)
class Varied:
    """A constant at one factor; without a name all of them as they are, on seeds that begin elsewhere."""

    module: str = ""
    name: str = ""
    factor: float = 1.0
    first_seed: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """What the loops came to."""

    varied: Varied
    value: float
    runs: int
    late_ratio: float
    kept_of_fitting_ratio: float
    useful_rows_per_s: float
    runs_within_goal: int
    constant_loads_below_plain: int

    def row(self, base: Moved) -> dict[str, object]:
        """The figures beside those of the constants as they are, units in the keys."""
        return {
            "constant": f"{self.varied.module.removeprefix('penstock.')}.{self.varied.name}"
            if self.varied.name
            else "",
            "value": self.value,
            "factor": self.varied.factor,
            "late_ratio": round(self.late_ratio, 5),
            "more_late_ratio": round(self.late_ratio - base.late_ratio, 5),
            "kept_of_fitting_ratio": round(self.kept_of_fitting_ratio, 4),
            "useful_rows_ratio": round(self.useful_rows_per_s / base.useful_rows_per_s, 4),
            "more_runs_within_goal": self.runs_within_goal - base.runs_within_goal,
            "constant_loads_below_plain": self.constant_loads_below_plain,
        }


def numbers_of(module: str) -> Iterator[tuple[str, float]]:
    """The constants of a module that are one number of its own, by name, and are read while decisions are made.

    One that is read only when the module is imported, by a default or by another constant, cannot be changed later.

    Examples
    --------
    >>> dict(numbers_of("penstock.control.keep_choice"))
    {'_LONGEST_PART': 0.5}
    >>> "_FIRST_NOISE" in dict(numbers_of("penstock.estimate.batch_time"))
    False
    """
    loaded = importlib.import_module(module)
    for name in _own_names(loaded):
        value = vars(loaded).get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not name.strip("_").isupper():
            continue
        if abs(value) > _DIGITS_ONLY and any(name in _read_names(each) for each in _users(module, name)):
            yield name, value


def _users(module: str, name: str) -> Iterator[ModuleType]:
    """The module of a constant, and those that have imported it: there it has a name of its own."""
    for other in MODULES:
        loaded = importlib.import_module(other)
        if other == module or (name in vars(loaded) and name not in _own_names(loaded)):
            yield loaded


@cache
def _own_names(module: ModuleType) -> tuple[str, ...]:
    """Names that a module gives a value itself, in their order: others are imported."""
    targets = (each for node in _tree(module).body if isinstance(node, ast.Assign) for each in node.targets)
    return tuple(name.id for each in targets for name in ast.walk(each) if isinstance(name, ast.Name))


@cache
def _read_names(module: ModuleType) -> frozenset[str]:
    """Names that the bodies of its functions read."""
    functions = (node for node in ast.walk(_tree(module)) if isinstance(node, ast.FunctionDef))
    lines = (line for function in functions for line in function.body)
    return frozenset(name.id for line in lines for name in ast.walk(line) if isinstance(name, ast.Name))


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))


def varied_value(value: float, factor: float) -> float:
    """A constant multiplied; of a part that is most of a thing, what is left of it.

    Examples
    --------
    >>> varied_value(0.1, 2.0), varied_value(0.9, 2.0), varied_value(3, 0.5), varied_value(1, 0.5)
    (0.2, 0.8, 2, 1)
    """
    if isinstance(value, int):
        return max(1, round(factor * value))
    return 1.0 - factor * (1.0 - value) if _MOST_OF_IT < value < 1.0 else factor * value


def loops_of(first_seed: int, seeds: int) -> tuple[list[LoopCase], list[LoopCase]]:
    """Steps of load, and constant loads."""
    every = range(first_seed, first_seed + seeds)
    steps = itertools.product((0.2, 0.5, 1.0, 1.3), (0.05, 0.3), (1.5, 5.0), ("none", "spells", "accidents"), every)
    constant = itertools.product((1.3, 1.8, 2.5), (0.8, 1.5, 3.0), every)
    return (
        [LoopCase(overhead, noise, load, kind, seed) for overhead, noise, load, kind, seed in steps],
        [LoopCase(overhead, 0.15, load, seed=seed, calm_load=load) for overhead, load, seed in constant],
    )


def change(module: str, name: str, value: float) -> None:
    """Change a constant for whoever goes by it."""
    for loaded in _users(module, name):
        setattr(loaded, name, value)


def run_varied(varied: Varied, *, seeds: int) -> Moved:
    """Run the loops with a constant changed, for good: the process is to end after it."""
    value = float("nan")
    if varied.name:
        old = getattr(importlib.import_module(varied.module), varied.name)
        value = varied_value(old, varied.factor)
        change(varied.module, varied.name, value)
    steps, constant = loops_of(varied.first_seed, seeds)
    found, level = [run_loop(case) for case in steps], [run_loop(case) for case in constant]
    return Moved(
        varied,
        value,
        runs=len(found) + len(level),
        late_ratio=float(np.mean([each.late_ratio for each in found])),
        kept_of_fitting_ratio=float(np.mean([each.kept_of_fitting_ratio for each in found])),
        useful_rows_per_s=sum(each.useful_rows_per_s for each in (*found, *level)),
        runs_within_goal=sum(each.p95_s <= GOAL_S for each in found),
        constant_loads_below_plain=sum(each.of_plain < SAME_OF_PLAIN for each in level),
    )


def run_constants(*, seeds: int, processes: int, say: Callable[[str], None]) -> list[dict[str, object]]:
    """All constants as they are, on these and on other seeds, then each of them halved and doubled."""
    each = [Varied(module, name, factor) for module in MODULES for name, _ in numbers_of(module) for factor in FACTORS]
    jobs = [Varied(), Varied(first_seed=1_000), *each]
    say(f"{len(jobs)} variants")
    # Not forked: what is worked out from constants once is kept, and a constant is changed for good.
    with get_context("spawn").Pool(processes, maxtasksperchild=1) as pool:
        found: list[Moved] = []
        for moved in pool.imap(partial(run_varied, seeds=seeds), jobs, chunksize=1):
            found.append(moved)
            if len(found) % 10 == 0:
                say(f"{len(found)} of {len(jobs)} done")
    return [moved.row(found[0]) for moved in found]


def unmoved(rows: Sequence[dict[str, object]]) -> list[str]:
    """Constants that neither halving nor doubling moves at all: these loops do not tell what they are for.

    Examples
    --------
    >>> same = {"more_late_ratio": 0.0, "useful_rows_ratio": 1.0}
    >>> later = {**same, "more_late_ratio": 0.1}
    >>> unmoved([{"constant": "a", **same}, {"constant": "b", **same}, {"constant": "b", **later}])
    ['a']
    """
    names = dict.fromkeys(str(row["constant"]) for row in rows if row["constant"])
    moved = {row["constant"] for row in rows if row["more_late_ratio"] != 0.0 or row["useful_rows_ratio"] != 1.0}
    return [name for name in names if name not in moved]
