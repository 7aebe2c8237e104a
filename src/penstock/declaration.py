"""The file that declares an application: goals of queries, what they read and write, executors, settings.

Every mistake is an error that names the file, the line and what to write there. The file may change while queries run:
:class:`DeclarationWatch` notices, :func:`difference` gives the goals that are new, and :func:`needs_restart` says what
has to wait.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.errors import InvalidDeclarationError, InvalidGoalError, InvalidSettingError
from penstock.model.application import (
    REPAY_CHOICES,
    REPAY_NEVER,
    Application,
    ExecutorsDeclaration,
    QueryDeclaration,
    way_back,
)
from penstock.model.executors import ExecutorBounds
from penstock.model.goal import MAX_PRIORITY, MIN_PRIORITY, Goal
from penstock.model.query import QueryName
from penstock.model.scaling import ONLINE_POLICIES
from penstock.model.toml_lines import KeyPath, line_of, toml_lines
from penstock.settings import (
    DECLARATION_SECTIONS,
    FLEET_SECTIONS,
    Settings,
    allowed_values,
    closest,
    overlaid,
    suggestion,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

HOURS_A_DAY = 24

_GOAL_KEYS = {
    "latency": "a duration such as '5 seconds'",
    "minimum_accuracy": "a number from 0 to 1",
    "priority": f"a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}",
    "weight": "a number above zero",
}
_STREAM_KEYS = ("reads", "writes")
_REPAY = "repay"
_QUERY_KEYS = (*_GOAL_KEYS, *_STREAM_KEYS, _REPAY)
_COUNT_KEYS = ("minimum", "maximum", "first", "standby")
_BUDGET = "budget_executor_hours_per_day"
_EXECUTORS_KEYS = (*_COUNT_KEYS, "policy", _BUDGET)
_LATER = "takes hold when the application starts again"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a file declares, and where.

    Parameters
    ----------
    application
        Queries with their goals and streams, and executors.
    settings
        Every other section.
    path
        The file, as it was named.
    lines
        Line of every table and key.
    """

    application: Application
    settings: Settings
    path: Path
    lines: Mapping[KeyPath, int] = field(default_factory=dict, compare=False, repr=False)

    def place(self, *keys: str) -> str:
        """File and line of a key, or of the table around it: ``penstock.toml, line 3``."""
        return f"{self.path}, line {line_of(self.lines, keys)}"


@dataclass(frozen=True, slots=True)
class GoalChange:
    """Another goal for one query; ``old`` is None for a query that is new, ``new`` for one that is gone."""

    query: QueryName
    old: Goal | None
    new: Goal | None


def read_declaration(
    path: str | Path,
    *,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, object] | None = None,
) -> Declaration:
    """Read a file that declares an application; environment variables and arguments win over its settings.

    Raises
    ------
    InvalidDeclarationError
        With the file, the line, what is wrong and what to write.
    InvalidSettingError
        For a bad value of an environment variable or argument.
    """
    return _parsed(_content(Path(path)), Path(path), environment, arguments)


def difference(old: Application, new: Application) -> list[GoalChange]:
    """Goals that are not what they were, in the order of the file; queries that are gone come last.

    Examples
    --------
    >>> old = Application.of_goals({"clicks": Goal(latency="5 seconds"), "views": Goal()})
    >>> new = Application.of_goals({"clicks": Goal(latency="2 seconds"), "views": Goal()})
    >>> [(change.query, change.old.latency_s, change.new.latency_s) for change in difference(old, new)]
    [('clicks', 5.0, 2.0)]
    """
    names = [*new.queries, *(name for name in old.queries if name not in new.queries)]
    changes = [GoalChange(name, _goal(old, name), _goal(new, name)) for name in names]
    return [change for change in changes if change.old != change.new]


def needs_restart(old: Declaration, new: Declaration) -> list[str]:
    """Sentences about what changed and cannot take hold while queries run: streams, executors, settings."""
    return [*_stream_changes(old, new), *_executor_changes(old, new), *_setting_changes(old, new)]


def unstarted(
    declaration: Declaration, started_names: Collection[str], *, declared_s: float, now_s: float, patience_s: float
) -> list[str]:
    """Sentences about queries that are declared and that nobody has started within the patience.

    Parameters
    ----------
    declaration
        What was read, with its lines.
    started_names
        Names of all queries that have started, those that have ended since included.
    declared_s, now_s
        When the declaration was read, and the present, by the same clock.
    patience_s
        Time in which nothing is said.

    Examples
    --------
    >>> application = Application.of_goals({"clicks": Goal()})
    >>> lines = {("queries",): 3, ("queries", "clicks"): 3}
    >>> declaration = Declaration(application, Settings(), Path("penstock.toml"), lines)
    >>> for sentence in unstarted(declaration, ["views"], declared_s=0.0, now_s=60.0, patience_s=60.0):
    ...     print(sentence)
    penstock.toml, line 3: query 'clicks' is declared but no query of that name has started within 60 s: start it \
with queryName("clicks"), or remove it from the file
    """
    if now_s - declared_s < patience_s:
        return []
    queries = declaration.application.queries
    undeclared = sorted(name for name in started_names if name not in queries)
    sentences = []
    for name in (name for name in queries if name not in started_names):
        close = closest(name, undeclared)
        hint = f"; query {close!r} has started and is not declared: did you mean that one?" if close else ""
        sentences.append(
            f"{declaration.place('queries', name)}: query {str(name)!r} is declared but no query of that name has "
            f"started within {patience_s:g} s: start it with queryName({json.dumps(name, ensure_ascii=False)}), or "
            f"remove it from the file{hint}"
        )
    return sentences


class DeclarationWatch:
    """Looks whether a declaration has changed; what was last read without a mistake is in ``declaration``.

    Parameters
    ----------
    path
        The file; it is read at once, and a mistake in it is raised.
    environment, arguments
        As for :func:`read_declaration`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        environment: Mapping[str, str] | None = None,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self.path = Path(path)
        self._environment = environment
        self._arguments = arguments
        # Before the content: a write between the two is then seen at the next look.
        self._stamp = _stamp(self.path)
        content = _content(self.path)
        self._digest: bytes | None = _digest(content)
        self.declaration = _parsed(content, self.path, environment, arguments)

    def changes(self) -> Declaration | None:
        """The new declaration where the content of the file is not what it was at the last look, else None.

        A content with a mistake is raised at the first look that sees it and not again; ``declaration`` stays what it
        was.
        """
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return None
        self._stamp, before, self._digest = stamp, self._digest, None
        content = _content(self.path)
        self._digest = _digest(content)
        if self._digest == before:
            return None
        self.declaration = _parsed(content, self.path, self._environment, self._arguments)
        return self.declaration


# -- the text ----------------------------------------------------------------------------------------------------------


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What differs when a file was written, replaced or made readable; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        remedy = "write it, with a section such as [queries.clicks], or give the right path"
        raise InvalidDeclarationError(str(path), None, "there is no such file", remedy) from error
    except OSError as error:
        remedy = "give the path of a TOML file that may be read"
        raise InvalidDeclarationError(str(path), None, f"cannot be read ({error.strerror})", remedy) from error


def _parsed(
    content: bytes, path: Path, environment: Mapping[str, str] | None, arguments: Mapping[str, object] | None
) -> Declaration:
    text = _text(content, str(path))
    tree, lines = _tree(text, str(path))
    reader = DeclarationReader(str(path), tree, lines)
    _refuse_fleet(reader, tree)
    application, settings = reader.application(), reader.settings()
    return Declaration(application, overlaid(settings, environment=environment, arguments=arguments), path, lines)


def _refuse_fleet(reader: DeclarationReader, tree: Mapping[str, Any]) -> None:
    for section in FLEET_SECTIONS:
        if section in tree:
            problem = f"[{section}] is for several engines, and this is one session"
            reader.refuse((section,), problem, "start the file with 'penstock up', or leave the section out")


def parse_toml(path: Path) -> tuple[dict[str, Any], Mapping[KeyPath, int]]:
    """The tree of a TOML file, and the line of every key in it; what cannot be read is told with its line."""
    return _tree(_text(_content(path), str(path)), str(path))


def _text(content: bytes, path: str) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"byte {content[error.start]:#04x} is not UTF-8"
        raise InvalidDeclarationError(path, line, problem, "save the file as UTF-8") from error


def _tree(text: str, path: str) -> tuple[dict[str, Any], Mapping[KeyPath, int]]:
    try:
        return tomllib.loads(text), toml_lines(text)
    except RecursionError as error:
        problem = "lists or tables are nested too deeply"
        raise InvalidDeclarationError(path, None, problem, "no key needs more than one list") from error
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise InvalidDeclarationError(path, _syntax_line(text, str(error)), *_syntax_problem(str(error))) from error


def _syntax_line(text: str, message: str) -> int | None:
    told = re.search(r"\(at line (\d+), column \d+\)$", message)
    if told:
        return int(told.group(1))
    return text.rstrip().count("\n") + 1 if message.endswith("(at end of document)") else None


def _syntax_problem(message: str) -> tuple[str, str]:
    what = re.sub(r" \(at (?:line \d+, column \d+|end of document)\)$", "", message)
    twice = re.fullmatch(r"Cannot (?:declare \((.+)\) twice|redefine namespace \((.+)\))", what)
    if twice:
        names = re.findall(r"'([^']*)'|\"([^\"]*)\"", twice.group(1) or twice.group(2))
        return f"[{'.'.join(one or other for one, other in names)}] is declared twice", "keep one of the two"
    if what == "Cannot overwrite a value":
        return "the name has a value already", "keep one of the two"
    return f"not valid TOML ({what})", "write KEY = VALUE with texts in quotes, and sections as [NAME]"


# -- what it says ------------------------------------------------------------------------------------------------------


class DeclarationReader:
    """Makes an application and settings of a TOML tree, or says on which line that cannot be done.

    Parameters
    ----------
    path, tree, lines
        The file, what is in it, and where.
    above
        Tables around the tree, where it is a part of the file.
    more_query_keys
        Keys of a query that somebody else reads.
    """

    def __init__(
        self,
        path: str,
        tree: Mapping[str, Any],
        lines: Mapping[KeyPath, int],
        *,
        above: KeyPath = (),
        more_query_keys: Collection[str] = (),
    ) -> None:
        self._path = path
        self._tree = tree
        self._lines = lines
        self._above = above
        self._query_keys = (*_QUERY_KEYS, *more_query_keys)
        self._check_sections()

    def application(self) -> Application:
        """Queries and executors."""
        queries = {QueryName(name): self._query(name, content) for name, content in self._queries().items()}
        way = way_back(queries)
        if way:
            problem = f"query {str(way[0])!r} reads what comes from itself: {' -> '.join(way)}"
            self.refuse(("queries", way[0]), problem, "take a stream out of the reads or writes of one of them")
        return Application(queries, self._executors())

    def settings(self) -> Settings:
        """All other sections."""
        values: dict[str, object] = {}
        for key, option, _ in Settings().options():
            section, name = key.split(".")
            if name not in self._tree.get(section, {}):
                continue
            value, allowed = self._tree[section][name], f"write {allowed_values(option)}"
            kind: type[object] = type(option.default)
            fits = isinstance(value, kind) if kind in {bool, str} else _is_number(value)
            if not fits:
                self.refuse((section, name), f"{key} is {described(value)}", allowed)
            try:
                Settings().with_values({key: value})
            except InvalidSettingError:
                self.refuse((section, name), f"{key} = {_shown(value)} is not allowed", allowed)
            values[key] = value
        return Settings().with_values(values)

    def _check_sections(self) -> None:
        """Every section and every key of a settings section is known, and something is declared at all."""
        keys: dict[str, list[str]] = {}
        for key, _, _ in Settings().options():
            keys.setdefault(key.split(".")[0], []).append(key.split(".")[1])
        known = [*DECLARATION_SECTIONS, *keys]
        for section, content in self._tree.items():
            if section not in known:
                if isinstance(content, dict | list):
                    self.refuse((section,), f"there is no section [{section}]", suggestion(section, known))
                self.refuse(
                    (section,), f"{section!r} stands outside any section", "write it below one such as [queries.NAME]"
                )
            if section != "queries" and not isinstance(content, dict):
                self.refuse((section,), f"{section!r} is {described(content)}", f"write [{section}], its keys below")
            if section in keys:
                self.check_keys((section,), content, keys[section], f"section [{section}]")
        if "executors" not in self._tree and not any(self._tree.values()):
            problem = "nothing is declared"
            self.refuse((), problem, 'write a section for each query: [queries.NAME] with latency = "5 seconds" below')

    def check_keys(self, path: KeyPath, content: Mapping[str, Any], known: Collection[str], owner: str) -> None:
        """Refuse a key that the owner does not have."""
        for key in content:
            if key not in known:
                self.refuse((*path, key), f"{owner} has no key {key!r}", suggestion(key, known))

    def _queries(self) -> Mapping[str, Any]:
        queries = self._tree.get("queries", {})
        if not isinstance(queries, dict):
            self.refuse(("queries",), f"'queries' is {described(queries)}", "write [queries.NAME] for each query")
        return queries

    def _query(self, name: str, content: object) -> QueryDeclaration:
        path = ("queries", name)
        if not name.strip():
            self.refuse(path, "a query has an empty name", "write [queries.NAME] with the name that queryName gives it")
        if not isinstance(content, dict):
            if name in self._query_keys:
                self.refuse(path, f"{name!r} belongs to no query", "write it below [queries.NAME]")
            self.refuse(path, f"query {name!r} is {described(content)}", f"write [queries.{name}], its keys below")
        self.check_keys(path, content, self._query_keys, f"query {name!r}")
        goal = Goal(**{key: self._goal_value(name, key, content[key]) for key in _GOAL_KEYS if key in content})
        reads, writes = (self._streams(name, key, content.get(key, [])) for key in _STREAM_KEYS)
        both = next((stream for stream in reads if stream in writes), None)
        if both is not None:
            problem = f"query {name!r} reads and writes {both!r}"
            self.refuse((*path, "writes"), problem, "let it write to another stream")
        return QueryDeclaration(goal, reads, writes, self._repay(name, content.get(_REPAY, REPAY_NEVER)))

    def _repay(self, name: str, value: object) -> str:
        if value not in REPAY_CHOICES:
            remedy = f"write one of {', '.join(map(json.dumps, REPAY_CHOICES))}"
            self.refuse(("queries", name, _REPAY), f"{_REPAY} of query {name!r} is {described(value)}", remedy)
        return str(value)

    def _goal_value(self, name: str, key: str, value: object) -> Any:  # noqa: ANN401 - as wide as the fields of a goal
        path = ("queries", name, key)
        fits = {"latency": _is_number(value) or isinstance(value, str), "priority": _is_whole(value)}
        if not fits.get(key, _is_number(value)):
            self.refuse(path, f"{key} of query {name!r} is {described(value)}", f"write {_GOAL_KEYS[key]}")
        if key in {"minimum_accuracy", "weight"}:
            value = _number(value)
        try:
            Goal(**{key: value})  # type: ignore[arg-type]
        except InvalidGoalError as error:
            problem, _, remedy = str(error).rpartition(": ")
            self.refuse(path, problem or str(error), remedy if problem else f"change {key} of query {name!r}")
        return value

    def _streams(self, name: str, key: str, value: object) -> tuple[str, ...]:
        path, owner = ("queries", name, key), f"{key} of query {name!r}"
        remedy = f'write a list of texts, such as {key} = ["topic:clicks"]'
        if not isinstance(value, list):
            self.refuse(path, f"{owner} is {described(value)}", remedy)
        for stream in value:
            if not isinstance(stream, str):
                self.refuse(path, f"{owner} holds {described(stream)}", remedy)
            if not stream.strip():
                self.refuse(path, f"{owner} holds an empty name", 'name the stream, such as "topic:clicks"')
        return tuple(value)

    def _executors(self) -> ExecutorsDeclaration | None:
        content = self._tree.get("executors")
        if content is None:
            return None
        self.check_keys(("executors",), content, _EXECUTORS_KEYS, "section [executors]")
        bounds = self._bounds({key: self._count(key, content[key]) for key in _COUNT_KEYS if key in content})
        policy = content.get("policy", ExecutorsDeclaration().policy)
        if policy not in ONLINE_POLICIES:
            close = closest(policy, ONLINE_POLICIES) if isinstance(policy, str) else None
            remedy = f"write one of {', '.join(ONLINE_POLICIES)}"
            hint = f"did you mean {close!r}? or {remedy}"
            self.refuse(("executors", "policy"), f"policy is {described(policy)}", hint if close else remedy)
        return ExecutorsDeclaration(bounds, policy, self._budget(content.get(_BUDGET), bounds.min_executors))

    def _count(self, key: str, value: object) -> int:
        least = 0 if key == "standby" else 1
        remedy = f"write a whole number from {least} up"
        if not isinstance(value, int) or isinstance(value, bool):
            self.refuse(("executors", key), f"{key} of [executors] is {described(value)}", remedy)
        if value < least:
            self.refuse(("executors", key), f"{key} of [executors] is {_shown(value)}", remedy)
        return value

    def _bounds(self, counts: Mapping[str, int]) -> ExecutorBounds:
        default = ExecutorBounds()
        low = counts.get("minimum", default.min_executors)
        high = counts.get("maximum", default.max_executors)
        first, standby = counts.get("first"), counts.get("standby", default.standby)
        told = f"maximum {high}" if "maximum" in counts else f"maximum {high}, the default"
        if low > high:
            self.refuse(("executors", "minimum"), f"minimum {low} is above {told}", "lower minimum or raise maximum")
        if first is not None and not low <= first <= high:
            problem = f"first {first} is not from minimum {low} to {told}"
            self.refuse(("executors", "first"), problem, "write a number between the two")
        if standby >= high:
            problem = f"standby {standby} is not below {told}, which counts those on standby too"
            self.refuse(("executors", "standby"), problem, "lower standby or raise maximum")
        return ExecutorBounds(low, high, first, standby)

    def _budget(self, value: object, minimum: int) -> float | None:
        if value is None:
            return None
        path, least = ("executors", _BUDGET), HOURS_A_DAY * minimum
        if not _is_number(value):
            self.refuse(path, f"{_BUDGET} is {described(value)}", f"write a number from {least} up")
        budget = _number(value)
        if not math.isfinite(budget):
            self.refuse(path, f"{_BUDGET} is {_shown(value)}", f"write a number from {least} up, or leave it out")
        if budget < least:
            problem = f"{_BUDGET} {_shown(value)} is less than the minimum of {minimum} takes in a day"
            self.refuse(path, problem, f"write {least} or more, or lower minimum")
        return budget

    def refuse(self, path: KeyPath, problem: str, remedy: str) -> NoReturn:
        """Say on which line something cannot be as it is written."""
        raise InvalidDeclarationError(self._path, line_of(self._lines, (*self._above, *path)), problem, remedy)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: object) -> float:
    """A number as a float; one that no float can hold is infinite, which nothing allows."""
    assert isinstance(value, int | float)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else reprlib.repr(value)


def described(value: object) -> str:
    """A value and its kind, as people call it.

    Examples
    --------
    >>> described("high"), described(True), described(["a"])
    ("'high', a text", 'true', 'a list')
    """
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    if isinstance(value, bool):
        return _shown(value)
    if isinstance(value, str):
        return f"{_shown(value)}, a text"
    if isinstance(value, int | float):
        return f"{_shown(value)}, a {'whole ' if isinstance(value, int) else ''}number"
    return f"{value}, a date or time"


# -- what is new in it -------------------------------------------------------------------------------------------------


def _goal(application: Application, name: QueryName) -> Goal | None:
    return application.queries[name].goal if name in application.queries else None


def _stream_changes(old: Declaration, new: Declaration) -> Iterator[str]:
    before, after = old.application.queries, new.application.queries
    for name, query in after.items():
        known = before.get(name, QueryDeclaration())
        changed = [key for key in (*_STREAM_KEYS, _REPAY) if getattr(query, key) != getattr(known, key)]
        for key in changed:
            was, now = (json.dumps(getattr(each, key), ensure_ascii=False) for each in (known, query))
            change = f"{key} of query {str(name)!r} changed from {was} to {now}"
            yield f"{new.place('queries', name, key)}: {change}; it {_LATER}"
    for name, query in before.items():
        if name not in after and (query.reads or query.writes):
            yield f"{new.path}: query {str(name)!r} is gone, but keeps its place in the graph; that {_LATER}"


def _executor_changes(old: Declaration, new: Declaration) -> Iterator[str]:
    before, after = old.application.executors, new.application.executors
    if before is None or after is None:
        if before != after:
            place = f"{new.path}" if after is None else new.place("executors")
            yield f"{place}: section [executors] is {'gone' if after is None else 'new'}; it {_LATER}"
        return
    was, now = _executor_values(before), _executor_values(after)
    for key in _EXECUTORS_KEYS:
        if was[key] != now[key]:
            change = f"{key} of [executors] changed from {was[key]} to {now[key]}"
            yield f"{new.place('executors', key)}: {change}; it {_LATER}"


def _executor_values(executors: ExecutorsDeclaration) -> dict[str, object]:
    bounds, budget = executors.bounds, executors.budget_executor_hours_per_day
    counts = (bounds.min_executors, bounds.max_executors, bounds.first, bounds.standby)
    hours = "none" if budget is None else f"{budget:g}"
    return dict(zip(_EXECUTORS_KEYS, (*counts, executors.policy, hours), strict=True))


def _setting_changes(old: Declaration, new: Declaration) -> Iterator[str]:
    before = {key: value for key, _, value in old.settings.options()}
    for key, _, value in new.settings.options():
        if value != before[key]:
            place = new.place(*key.split("."))
            yield f"{place}: {key} changed from {_shown(before[key])} to {_shown(value)}; it {_LATER}"
