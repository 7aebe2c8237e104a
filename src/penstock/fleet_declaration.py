"""The file that declares several engines and the applications that share them.

Queries stand below their application (``[applications.ads.queries.clicks]``) with the keys of a single application and
with what they are made of; engines stand in ``[engines.NAME]``. Mistakes are told as in
:mod:`penstock.declaration`: file, line, what to write.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.declaration import DeclarationReader, described, parse_toml
from penstock.errors import InvalidDeclarationError
from penstock.model.application import Application, QueryDeclaration
from penstock.model.toml_lines import KeyPath, line_of
from penstock.settings import FLEET_SECTIONS, Settings, overlaid, suggestion

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.model.query import QueryName

KINDS = ("local", "standalone", "yarn", "kubernetes")
_COMMON_KEYS = (
    "kind", "memory", "modules", "listen", "address", "token_file", "jars", "spark", "prometheus", "host_busy",
)  # fmt: skip
_EXECUTOR_KEYS = ("executors", "executor_cores", "executor_memory")
_KEYS_OF: Mapping[str, tuple[str, ...]] = {
    "local": ("cores", "pin"),
    "standalone": ("master", "page", "conf", *_EXECUTOR_KEYS),
    "yarn": ("queue", *_EXECUTOR_KEYS),
    "kubernetes": ("api_server", "image", "namespace", "service_account", *_EXECUTOR_KEYS),
}
_NEEDED: Mapping[str, Mapping[str, str]] = {
    "local": {},
    "standalone": {"master": 'master = "spark://HOST:7077"'},
    "yarn": {},
    "kubernetes": {"api_server": 'api_server = "https://HOST:6443"', "image": 'image = "REGISTRY/penstock:latest"'},
}
_APPLICATION_KEYS = ("modules", "checkpoints", "queries")
_RUN_KEYS = ("run", "options", "checkpoint", "prefers", "task")
_ENTRY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_LOOPBACK, _LARGEST_PORT = "127.0.0.1:0", 65_535


@dataclass(frozen=True, slots=True)
class EngineDeclaration:
    """One engine as it is declared.

    Parameters
    ----------
    name, kind
        What it is called, and how it gets its cores: one of :data:`KINDS`.
    cores
        Cores that its queries may keep busy: task slots of a local engine, those of all executors of any other.
    pin
        Numbers of the cores that a local engine is pinned to, JVM and Python workers alike.
    memory
        Heap of the driver.
    modules
        Directories that it takes application modules from.
    listen
        Address and port of its agent; port 0 is any that is free.
    address, token_file
        Where the agent of an engine answers that somebody else starts, and the file with its token.
    place, executors, executor_cores, executor_memory
        What its kind needs: master, queue, image, and the executors of one that is not local.
    spark
        Any further settings of Spark.
    prometheus, host_busy
        Address of a Prometheus, and the PromQL that tells how many cores of its hosts are busy, where it cannot look.
    """

    name: str
    kind: str = "local"
    cores: int = 1
    pin: tuple[int, ...] = ()
    memory: str = "1g"
    modules: tuple[str, ...] = ()
    listen: str = _LOOPBACK
    address: str | None = None
    token_file: str | None = None
    place: Mapping[str, str] = field(default_factory=dict)
    executors: int = 1
    executor_cores: int = 1
    executor_memory: str = "1g"
    jars: tuple[str, ...] = ()
    spark: Mapping[str, str] = field(default_factory=dict)
    prometheus: str | None = None
    host_busy: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is started and ended with the fleet, on this machine."""
        return self.address is None

    @property
    def listen_at(self) -> tuple[str, int]:
        """Address and port of its agent."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class DeclaredRun:
    """What a query is made of, wherever it runs.

    ``entry`` is the function that builds it, ``prefers`` are engines that are tried first, ``task`` is what it is an
    instance of, beside others that read other partitions of the same streams.
    """

    application: str
    query: QueryDeclaration
    entry: str
    checkpoint: str
    options: Mapping[str, Any] = field(default_factory=dict)
    prefers: tuple[str, ...] = ()
    task: str = ""


@dataclass(frozen=True, slots=True)
class FleetDeclaration:
    """Engines, queries of all applications, and settings."""

    path: Path
    engines: Mapping[str, EngineDeclaration]
    queries: Mapping[QueryName, DeclaredRun]
    settings: Settings


def read_fleet(
    path: str | Path,
    *,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, object] | None = None,
) -> FleetDeclaration:
    """Read a file that declares engines and applications; environment variables and arguments win over its settings.

    Raises
    ------
    InvalidDeclarationError
        With the file, the line, what is wrong and what to write.
    """
    file = Path(path)
    tree, lines = parse_toml(file)
    return _FleetReader(file, tree, lines).fleet(environment, arguments)


class _FleetReader:
    """Makes a fleet of a TOML tree, or says on which line that cannot be done."""

    def __init__(self, path: Path, tree: Mapping[str, Any], lines: Mapping[KeyPath, int]) -> None:
        self._path, self._tree, self._lines = path, tree, lines
        self._folder = path.resolve().parent

    def fleet(self, environment: Mapping[str, str] | None, arguments: Mapping[str, object] | None) -> FleetDeclaration:
        self._check_sections()
        tree = {name: part for name, part in self._tree.items() if name not in FLEET_SECTIONS}
        # A file of engines alone has no settings, which is no mistake.
        settings = DeclarationReader(str(self._path), tree, self._lines).settings() if tree else Settings()
        modules = self._modules()
        engines = {name: self._engine(name, part, modules) for name, part in self._tables(("engines",)).items()}
        queries: dict[QueryName, DeclaredRun] = {}
        for name in self._tables(("applications",)):
            self._add_queries(name, queries, engines)
        whole = overlaid(settings, environment=environment, arguments=arguments)
        return FleetDeclaration(self._path, engines, queries, whole)

    def _check_sections(self) -> None:
        for section, what in (("engines", "engine"), ("applications", "application")):
            if not self._tree.get(section):
                remedy = f"write [{section}.NAME] for each, or start a single application without 'penstock up'"
                self._refuse((), f"no {what} is declared", remedy)
        for section, remedy in (
            ("queries", "write [applications.NAME.queries.QUERY]"),
            ("executors", "write executors = NUMBER below [engines.NAME]"),
        ):
            if section in self._tree:
                problem = f"[{section}] belongs to no application of a file with engines"
                self._refuse((section,), problem, remedy)

    # Engines

    def _engine(self, name: str, content: Mapping[str, Any], modules: tuple[str, ...]) -> EngineDeclaration:
        path = ("engines", name)
        if not _NAME.fullmatch(name):
            self._refuse(path, f"engine name {name!r} has signs in it", "use letters, digits, '-', '_' and '.' only")
        kind = content.get("kind", KINDS[0])
        if kind not in KINDS:
            known = suggestion(kind, KINDS) if isinstance(kind, str) else f"known: {', '.join(KINDS)}"
            self._refuse((*path, "kind"), f"kind of engine {name!r} is {described(kind)}", known)
        self._check_keys(path, content, (*_COMMON_KEYS, *_KEYS_OF[kind]), f"engine {name!r} of kind {kind!r}")
        for key, example in _NEEDED[kind].items():
            if key not in content:
                self._refuse(path, f"engine {name!r} of kind {kind!r} has no {key}", f"write {example}")
        pin = tuple(self._numbers((*path, "pin"), content.get("pin", []), least=0))
        executors, each = (self._whole(path, content, key, 1) for key in ("executors", "executor_cores"))
        cores = self._whole(path, content, "cores", len(pin) or 1) if kind == "local" else executors * each
        texts = {key: self._text(path, content, key) for key in _KEYS_OF[kind] if key not in _NOT_TEXTS}
        return EngineDeclaration(
            name,
            kind,
            cores=cores,
            pin=pin,
            memory=self._memory(path, content, "memory"),
            modules=(*modules, *self._paths(path, content, "modules")),
            listen=self._listen(path, content),
            address=self._address(path, content),
            token_file=self._token_file(path, content),
            place={key: text for key, text in texts.items() if text is not None},
            executors=executors,
            executor_cores=each,
            executor_memory=self._memory(path, content, "executor_memory"),
            jars=self._paths(path, content, "jars"),
            spark=self._spark(path, content.get("spark", {})),
            **self._told_by_prometheus(path, content),
        )

    def _told_by_prometheus(self, path: KeyPath, content: Mapping[str, Any]) -> dict[str, str | None]:
        told = {key: self._text(path, content, key) for key in ("prometheus", "host_busy")}
        if (told["prometheus"] is None) is not (told["host_busy"] is None):
            self._refuse(path, f"engine {path[1]!r} has one of prometheus and host_busy", "write both, or neither")
        if not (told["prometheus"] or "http://").startswith(("http://", "https://")):
            self._refuse((*path, "prometheus"), f"prometheus is {told['prometheus']!r}", "write http://HOST:PORT")
        return told

    def _memory(self, path: KeyPath, content: Mapping[str, Any], key: str) -> str:
        text = self._text(path, content, key) or "1g"
        if not re.fullmatch(r"[1-9]\d*[kmgt]", text):
            self._refuse((*path, key), f"{key} is {text!r}", 'write a whole number and a unit, such as "512m" or "2g"')
        return text

    def _listen(self, path: KeyPath, content: Mapping[str, Any]) -> str:
        text = self._text(path, content, "listen") or _LOOPBACK
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > _LARGEST_PORT:
            self._refuse((*path, "listen"), f"listen is {text!r}", f"write ADDRESS:PORT, such as {_LOOPBACK!r}")
        return text

    def _address(self, path: KeyPath, content: Mapping[str, Any]) -> str | None:
        text = self._text(path, content, "address")
        if text is not None and not re.fullmatch(r"https?://[^/\s]+:\d+/?", text):
            self._refuse((*path, "address"), f"address is {text!r}", "write http://HOST:PORT of the engine's agent")
        return None if text is None else text.rstrip("/")

    def _token_file(self, path: KeyPath, content: Mapping[str, Any]) -> str | None:
        text = self._text(path, content, "token_file")
        if text is None and "address" in content:
            problem = f"engine {path[1]!r} answers at an address and has no token_file"
            self._refuse(path, problem, "write token_file = PATH of a copy of its token")
        return None if text is None else str(self._folder / text)

    def _spark(self, path: KeyPath, content: object) -> dict[str, str]:
        if not isinstance(content, dict):
            self._refuse((*path, "spark"), f"spark is {described(content)}", 'write spark = { "spark.KEY" = "VALUE" }')
        for key, value in content.items():
            if not isinstance(value, str) or not key.startswith("spark."):
                problem, remedy = f"{key!r} = {described(value)}", 'write "spark.KEY" = "VALUE", both in quotes'
                self._refuse((*path, "spark", key), problem, remedy)
        return dict(content)

    # Applications

    def _modules(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name, content in self._tables(("applications",)).items():
            path = ("applications", name)
            self._check_keys(path, content, _APPLICATION_KEYS, f"application {name!r}")
            found |= dict.fromkeys(self._paths(path, content, "modules"))
        return tuple(found)

    def _add_queries(
        self, name: str, queries: dict[QueryName, DeclaredRun], engines: Mapping[str, EngineDeclaration]
    ) -> None:
        above = ("applications", name)
        content = self._tree["applications"][name]
        tables = self._tables((*above, "queries"))
        if not tables:
            self._refuse(above, f"application {name!r} has no queries", f"write [applications.{name}.queries.QUERY]")
        reader = DeclarationReader(
            str(self._path), {"queries": tables}, self._lines, above=above, more_query_keys=_RUN_KEYS
        )
        checkpoints = self._text(above, content, "checkpoints")
        for query, declared in reader.application().queries.items():
            path = (*above, "queries", str(query))
            if query in queries:
                problem = f"query {str(query)!r} is in application {queries[query].application!r} as well"
                self._refuse(path, problem, "give one of the two another name: an engine knows queries by their names")
            queries[query] = self._run(path, name, declared, checkpoints, engines)
        self._check_graph(queries)

    def _run(
        self, path: KeyPath, application: str, declared: QueryDeclaration, checkpoints: str | None,
        engines: Collection[str],
    ) -> DeclaredRun:  # fmt: skip
        query = path[-1]
        content = self._tree[path[0]][path[1]][path[2]][query]
        if not _NAME.fullmatch(query):
            # It is a part of addresses and of file names.
            self._refuse(path, f"query name {query!r} has signs in it", "use letters, digits, '-', '_' and '.' only")
        entry = content.get("run")
        if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
            told = "missing" if entry is None else described(entry)
            remedy = f'write the function that builds it, such as run = "{application}.queries:{query}"'
            self._refuse((*path, "run"), f"run of query {query!r} is {told}", remedy)
        options = content.get("options", {})
        if not isinstance(options, dict):
            self._refuse((*path, "options"), f"options is {described(options)}", "write options = { KEY = VALUE }")
        self._require_json((*path, "options"), options)
        given = self._text(path, content, "checkpoint")
        if given is None and checkpoints is None:
            problem = f"query {query!r} has no checkpoint"
            remedy = f"write checkpoint = PATH, or checkpoints = PATH of a directory below [applications.{application}]"
            self._refuse(path, problem, remedy)
        prefers = self._texts((*path, "prefers"), content.get("prefers", []))
        for engine in prefers:
            if engine not in engines:
                problem = f"query {query!r} prefers engine {engine!r}, which is not declared"
                self._refuse((*path, "prefers"), problem, suggestion(engine, engines))
        checkpoint = self._place(given) if given is not None else f"{self._place(checkpoints or '')}/{query}"
        task = self._text(path, content, "task") or ""
        return DeclaredRun(application, declared, entry, checkpoint, options, prefers, task)

    def _require_json(self, path: KeyPath, options: Mapping[str, Any]) -> None:
        """Options travel to engines as JSON, which has no dates and no infinity."""
        for key, value in options.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):
                remedy = "write a text, a number, true or false, or a list or table of these"
                self._refuse((*path, key), f"option {key!r} is {described(value)}", remedy)

    def _check_graph(self, queries: Mapping[QueryName, DeclaredRun]) -> None:
        try:
            Application({name: run.query for name, run in queries.items()})
        except ValueError as error:
            self._refuse(("applications",), str(error), "take a stream out of the reads or writes of one of them")

    # Values

    def _tables(self, path: KeyPath) -> Mapping[str, Mapping[str, Any]]:
        content: Any = self._tree
        for key in path:
            content = content.get(key, {})
        if not isinstance(content, dict):
            self._refuse(path, f"{path[-1]!r} is {described(content)}", f"write [{'.'.join(path)}.NAME] for each")
        for name, part in content.items():
            if not isinstance(part, dict):
                self._refuse((*path, name), f"{name!r} is {described(part)}", f"write [{'.'.join(path)}.{name}]")
        return content

    def _text(self, path: KeyPath, content: Mapping[str, Any], key: str) -> str | None:
        value = content.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            self._refuse((*path, key), f"{key} is {described(value)}", f'write {key} = "TEXT"')
        return value

    def _texts(self, path: KeyPath, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) and each.strip() for each in value):
            self._refuse(path, f"{path[-1]} is {described(value)}", f'write {path[-1]} = ["TEXT", ...]')
        return tuple(value)

    def _paths(self, path: KeyPath, content: Mapping[str, Any], key: str) -> tuple[str, ...]:
        return tuple(self._place(each) for each in self._texts((*path, key), content.get(key, [])))

    def _place(self, text: str) -> str:
        """A path as seen from the file; what has a scheme of its own is left as it is."""
        return text.rstrip("/") if re.match(r"[a-z][a-z0-9+.-]*:", text) else str((self._folder / text).resolve())

    def _whole(self, path: KeyPath, content: Mapping[str, Any], key: str, default: int) -> int:
        value = content.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self._refuse((*path, key), f"{key} is {described(value)}", "write a whole number from 1 up")
        return value

    def _numbers(self, path: KeyPath, value: object, *, least: int) -> list[int]:
        remedy = f"write {path[-1]} = [0, 1], the numbers of the cores"
        if not isinstance(value, list):
            self._refuse(path, f"{path[-1]} is {described(value)}", remedy)
        for each in value:
            if not isinstance(each, int) or isinstance(each, bool) or each < least:
                self._refuse(path, f"{path[-1]} holds {described(each)}", remedy)
        return value

    def _check_keys(self, path: KeyPath, content: Mapping[str, Any], known: Collection[str], owner: str) -> None:
        for key in content:
            if key not in known:
                self._refuse((*path, key), f"{owner} has no key {key!r}", suggestion(key, known))

    def _refuse(self, path: KeyPath, problem: str, remedy: str) -> NoReturn:
        raise InvalidDeclarationError(str(self._path), line_of(self._lines, path), problem, remedy)


_NOT_TEXTS = frozenset({"cores", "pin", "executors", "executor_cores"})
