"""Every option of Penstock, with its default, unit, bounds and one sentence.

Values come from, weakest first: the defaults here, a TOML file, ``PENSTOCK_SECTION_KEY`` environment variables, and
arguments. The reference page is generated from this module (``penstock settings --markdown``).
"""

from __future__ import annotations

import logging
import math
import tomllib
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock.errors import InvalidSettingError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

ENVIRONMENT_PREFIX = "PENSTOCK_"
FLEET_SECTIONS = ("engines", "applications")
"""Sections of a file that declares several engines: :func:`penstock.fleet_declaration.read_fleet` reads them."""

DECLARATION_SECTIONS = ("queries", "executors", *FLEET_SECTIONS)
"""Sections that a file may hold beside the settings: :func:`penstock.declaration.read_declaration` reads them."""

_VARIABLES_OF_COMMANDS = frozenset({"PENSTOCK_TRACES"})
"""Variables with the prefix that are no settings, but are read by a command: nobody mistyped them."""

logger = logging.getLogger("penstock")


def _option(
    default: float | str | bool,  # noqa: FBT001 - an option's default is its first fact
    help_text: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:  # noqa: ANN401 - the dataclass machinery wants a field where the annotation says a plain value
    return field(
        default=default, metadata={"help": help_text, "unit": unit, "low": low, "high": high, "choices": choices}
    )


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How the read limit of a governed query follows its goal."""

    first_batch_rows: int = _option(
        1000, "Rows that the first batch of a governed start may read, before anything is known of their cost.",
        unit="rows", low=1, high=100_000_000,
    )  # fmt: skip
    first_batch_bytes: int = _option(
        1_048_576, "Bytes that the first batch of a governed start may read from a source limited in bytes.",
        unit="bytes", low=1, high=1e12,
    )  # fmt: skip
    growth_factor: float = _option(
        4.0, "How many times the largest batch seen or under way the next one may be: a cost is not trusted further.",
        unit="ratio", low=1.1, high=100,
    )  # fmt: skip
    batch_share_of_goal: float = _option(
        0.5, "Part of the latency goal that a batch may take at the most; the rest is the wait for it to begin.",
        unit="ratio", low=0.05, high=1,
    )  # fmt: skip
    late_ratio: float = _option(
        0.015, "Part of the kept rows that may be out later than the goal: batches are as long as that allows.",
        unit="ratio", low=0, high=0.5,
    )  # fmt: skip
    dead_band: float = _option(
        0.03, "A new limit that differs from the one in force by less than this share is not set.",
        unit="ratio", low=0, high=0.5,
    )  # fmt: skip
    speed_drift: float = _option(
        0.03, "How much the machine's speed is taken to change from one batch to the next, as a part of it.",
        unit="ratio", low=0, high=1,
    )  # fmt: skip
    cost_drift: float = _option(
        0.02, "How much overhead and costs of rows are taken to change from one batch to the next, each by itself.",
        unit="ratio", low=0, high=1,
    )  # fmt: skip
    overhead_part: float = _option(
        0.05, "Part of a batch that is overhead at which longer ones gain nothing: no load needs longer ones.",
        unit="ratio", low=0.001, high=0.5,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SheddingSettings:
    """How much a guarded query drops when more arrives than fits."""

    drain_batches: float = _option(
        2.0, "Batches within which a backlog is to be gone; it counts as demand spread over these.",
        unit="batches", low=0.5, high=1000,
    )  # fmt: skip
    bridge_late_ratio: float = _option(
        0.0005, "Part of the kept rows that may be late while executors can come: that is soon over, and accuracy pays "
        "for it.",
        unit="ratio", low=0, high=0.5,
    )  # fmt: skip
    smallest_keep: float = _option(
        0.001, "A keep ratio is never below this: a weight is one over it, and must stay a number.",
        unit="ratio", low=1e-6, high=1,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where decisions and observations are kept."""

    path: str = _option("penstock.db", "File of the action log and the time series.", unit="path")
    series_days: float = _option(7.0, "Age at which observations are deleted.", unit="days", low=0.01, high=3650)
    action_days: float = _option(
        30.0, "Age at which read limits and keep ratios that others have replaced are deleted; other actions stay.",
        unit="days", low=0.01, high=3650,
    )  # fmt: skip
    patience_s: float = _option(
        60.0, "How long decisions may wait for a store that cannot be written; then queries have their own limits, "
        "until it can.",
        unit="s", low=0, high=86_400,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """What is watched, and whether Penstock may act."""

    only: bool = _option(False, "Decide and record, but do not act.")
    executors_every_s: float = _option(
        5.0, "How often CPU, heap and garbage collection of the executors are read.", unit="s", low=0.5, high=3600
    )
    reports_every_s: float = _option(
        2.0, "How often reports of batches are looked for that Spark's listener bus has not brought, as when another "
        "listener holds it up.",
        unit="s", low=0.1, high=3600,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """When the number of executors is looked at, and what it is decided by."""

    every_s: float = _option(1.0, "How often the executors are looked at.", unit="s", low=0.1, high=3600)
    interval_s: float = _option(15.0, "Length of a sample that policies decide by.", unit="s", low=0.1, high=3600)
    start_s: float = _option(
        30.0, "Time that an executor is expected to take from being asked for to its first task, until it is measured.",
        unit="s", low=0.1, high=3600,
    )  # fmt: skip
    down_every_s: float = _option(60.0, "Least time between two steps down.", unit="s", low=0, high=86_400)
    down_after_s: float = _option(
        120.0, "How long fewer executors must have sufficed before 'proactive' lets any go.",
        unit="s", low=0, high=86_400,
    )  # fmt: skip
    quantile: float = _option(
        0.99, "Part of loads that the upper forecast of 'proactive' is to cover; more of it is fewer late rows and "
        "more executors.",
        unit="ratio", low=0.5, high=1,
    )  # fmt: skip
    memory_s: float = _option(
        1800.0, "Time in which what 'proactive' learned of batch times fades by half.", unit="s", low=60, high=604_800
    )
    utilisation: float = _option(0.8, "Busy part of the time that 'hpa' aims at.", unit="ratio", low=0.05, high=1)
    rows_for_each: float = _option(
        5500.0, "Rows of lag for each executor, the threshold of 'keda'.", unit="rows", low=1, high=1e12
    )
    bound_by_partitions: bool = _option(
        True, "Ask for no more executors than the partitions of sources and state have tasks for; false where Kafka "
        "partitions are split by minPartitions.",
    )  # fmt: skip
    warm_up_s: float = _option(
        30.0, "Time after a start or a new executor of which policies do not learn.", unit="s", low=0, high=3600
    )


@dataclass(frozen=True, slots=True)
class DirectiveSettings:
    """How a batch asks for its keep ratio when it is planned."""

    enabled: bool = _option(
        True, "Let a batch ask the driver; where false, the keep ratio comes one batch late by a property."
    )
    timeout_s: float = _option(
        0.5, "Longest wait for an answer; after it the last recorded keep ratio holds.", unit="s", low=0.01, high=60
    )


@dataclass(frozen=True, slots=True)
class RepaySettings:
    """What is kept of batches that shed, so that what they dropped can be processed later."""

    keep_days: float = _option(
        7.0, "Age at which a batch that shed and is not repaid is given up; as long as sources keep rows.",
        unit="days", low=0.01, high=3650,
    )  # fmt: skip
    idle_below: float = _option(
        0.5, "Part of the time that arriving rows may take where a query repays when idle: half leaves a core of two.",
        unit="ratio", low=0, high=1,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """How queries that read what others write are planned together."""

    plan_every_s: float = _option(
        10.0, "How often the targets of all queries of the graph are planned anew.", unit="s", low=0.1, high=3600
    )
    batch_s: float = _option(
        2.0, "Length of a batch that the plan counts on until batches are measured.", unit="s", low=0.01, high=600
    )
    policy: str = _option(
        "max", "Which of its readers a query follows: the fastest ('max'), or the slowest ('min') as a chain would.",
        choices=("max", "min"),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """How queries of several applications share several engines."""

    every_s: float = _option(
        5.0, "How often engines, accuracies and moves are planned anew when nothing happens in between.",
        unit="s", low=0.1, high=3600,
    )  # fmt: skip
    react_s: float = _option(1.0, "Least time between two plans, however much happens.", unit="s", low=0, high=3600)
    waiting_s: float = _option(
        0.5, "Seconds of input that may wait for a query's next batch without counting as a backlog.",
        unit="s", low=0, high=600,
    )  # fmt: skip
    drain_s: float = _option(
        10.0, "Time within which a backlog is to be gone; it counts as demand spread over it.",
        unit="s", low=0.1, high=3600,
    )  # fmt: skip
    utilisation: float = _option(
        0.9, "Part of an engine's cores that is given out; the rest keeps waiting times short.",
        unit="ratio", low=0.1, high=1,
    )  # fmt: skip
    share_by: str = _option(
        "accuracy", "What queries of equal priority get alike: the same part of what lies between minimum and full "
        "accuracy ('accuracy'), or the same CPU ('cpu').",
        choices=("accuracy", "cpu"),
    )  # fmt: skip
    dead_band: float = _option(
        0.02, "A keep ratio that differs by less than this from the one in force is not sent.",
        unit="ratio", low=0, high=0.5,
    )  # fmt: skip
    memory_s: float = _option(
        20.0, "Time in which what was measured of costs fades by half.", unit="s", low=0.1, high=86_400
    )
    rate_memory_s: float = _option(
        3.0, "Time in which what was measured of rates fades by half.", unit="s", low=0.1, high=86_400
    )
    warm_up_s: float = _option(
        60.0, "Longest time after a start or a move in which the neighbours run at their minimum accuracy.",
        unit="s", low=0, high=3600,
    )  # fmt: skip
    downtime_s: float = _option(
        10.0, "Time that a move is expected to keep a query from running, until moves are measured.",
        unit="s", low=0, high=3600,
    )  # fmt: skip
    payback_s: float = _option(
        300.0, "Time within which a move must bring more than it costs.", unit="s", low=0, high=86_400
    )
    move_after_s: float = _option(
        15.0, "How long an engine must have been short of CPU before a query moves away from it.",
        unit="s", low=0, high=3600,
    )  # fmt: skip
    stay_s: float = _option(
        300.0, "How long a query that moved does not go back to the engine that it left.",
        unit="s", low=0, high=86_400,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How the control side and the agents of engines deal with one another."""

    every_s: float = _option(1.0, "How often every engine is asked how it is.", unit="s", low=0.1, high=3600)
    lost_after_s: float = _option(
        12.0, "An engine that has not answered for so long is given up: it is killed where that is possible, and its "
        "queries start elsewhere.",
        unit="s", low=1, high=3600,
    )  # fmt: skip
    lease_s: float = _option(
        15.0, "How long an engine that cannot be killed from here lets its queries run without being asked; they start "
        "elsewhere when that is over.",
        unit="s", low=1, high=3600,
    )  # fmt: skip
    drain_s: float = _option(
        2.0, "How long a query that is to stop may take to finish its batch; a batch that is cut off runs again.",
        unit="s", low=0, high=3600,
    )  # fmt: skip
    start_s: float = _option(
        120.0, "How long an engine may take to start, until it answers.", unit="s", low=5, high=3600
    )
    retry_s: float = _option(
        30.0, "How long a query that failed on its engine waits before it is started again; doubled each time it fails "
        "at once.",
        unit="s", low=1, high=86_400,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """The page of an application, its HTTP API and metrics; needs the extra 'serve'."""

    port: int = _option(
        0, "Port on which the application serves its dashboard; 0 serves none until pen.serve() is called.",
        unit="port", low=0, high=65_535,
    )  # fmt: skip
    host: str = _option(
        "127.0.0.1", "Address on which it listens; beyond loopback, reading needs the token as well.", unit="address"
    )
    token_file: str = _option(
        "beside the store", "File with the token that changes need; made where there is none.", unit="path"
    )


@dataclass(frozen=True, slots=True)
class SizingSettings:
    """How large executors are to be, and whether that is only recommended."""

    mode: str = _option(
        "off", "Whether sizes are not looked at ('off'), decided and recorded ('recommend'), or applied too ('apply').",
        choices=("off", "recommend", "apply"),
    )  # fmt: skip
    window_s: float = _option(15.0, "Length of a window that policies go by.", unit="s", low=1, high=3600)
    gc_limit: float = _option(
        0.1, "Part of the time in garbage collection from which on the heap is too small.",
        unit="ratio", low=0.01, high=0.9,
    )  # fmt: skip
    memory_limit: float = _option(
        0.95, "Part of its memory that an executor may use before it is given more.", unit="ratio", low=0.1, high=1
    )
    cpu_limit: float = _option(
        0.8, "Part of the cores, or of the task slots, that may be busy before there are more.",
        unit="ratio", low=0.1, high=1,
    )  # fmt: skip
    dead_band: float = _option(
        0.08, "How far above a limit use has to be before there is more, so that steps up and down take no turns.",
        unit="ratio", low=0, high=1,
    )  # fmt: skip
    step_limit: float = _option(2.0, "Most that one step multiplies a resource by.", unit="ratio", low=1.1, high=10)
    quantile: float = _option(
        0.98, "Part of the windows whose use a smaller size has to cover.", unit="ratio", low=0.5, high=1
    )
    margin: float = _option(
        0.03, "What a smaller size has above the use that it has to cover.", unit="ratio", low=0, high=2
    )
    min_saving: float = _option(
        0.08, "Part of a resource that a step down has to save, or it is not worth the change.",
        unit="ratio", low=0.01, high=0.9,
    )  # fmt: skip
    down_after_s: float = _option(
        120.0, "How long use is watched after a start or a step up before anything is made smaller.",
        unit="s", low=1, high=604_800,
    )  # fmt: skip
    heap_looks: int = _option(
        4, "Times that all garbage is collected before the heap is made smaller, to see what lives in it; 0: never.",
        unit="collections", low=0, high=100,
    )  # fmt: skip
    half_life_s: float = _option(
        86_400.0, "Time in which what was seen of use counts half.", unit="s", low=60, high=31_536_000
    )
    rising_windows: int = _option(
        4, "Windows through which the backlog has to rise before there are more task slots.",
        unit="windows", low=2, high=1000,
    )  # fmt: skip
    correlation: float = _option(
        0.6, "Correlation of the backlog with a remote service from which on the service is held responsible.",
        unit="ratio", low=0.1, high=1,
    )  # fmt: skip
    max_lag: int = _option(
        4, "Windows by which a backlog may follow a remote service.", unit="windows", low=0, high=1000
    )
    hands_off: str = _option(
        "none", "Resources that the operator sizes by hand: 'heap', 'memory', 'cpu', 'parallelism', by commas.",
        unit="names",
    )  # fmt: skip
    restart: str = _option(
        "never", "When an application that can be started again may be, for a shape that its executors cannot take on "
        "while queries run: 'never', 'any time', or hours of the driver's clock such as '02:00-04:30', by commas.",
        unit="hours",
    )  # fmt: skip
    host_cores: int = _option(
        0, "Most cores of one executor; 0 is what the hosts have.", unit="cores", low=0, high=4096
    )
    host_memory_mb: int = _option(
        0, "Most memory of one executor; 0 is what the hosts have.", unit="MB", low=0, high=1e9
    )
    quota_cores: int = _option(0, "Most cores of the application; 0 is no quota.", unit="cores", low=0, high=1e9)
    quota_memory_mb: int = _option(0, "Most memory of the application; 0 is no quota.", unit="MB", low=0, high=1e12)


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections."""

    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    shedding: SheddingSettings = field(default_factory=SheddingSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    observe: ObserveSettings = field(default_factory=ObserveSettings)
    scaling: ScalingSettings = field(default_factory=ScalingSettings)
    directives: DirectiveSettings = field(default_factory=DirectiveSettings)
    repay: RepaySettings = field(default_factory=RepaySettings)
    graph: GraphSettings = field(default_factory=GraphSettings)
    fleet: FleetSettings = field(default_factory=FleetSettings)
    agents: AgentSettings = field(default_factory=AgentSettings)
    dashboard: DashboardSettings = field(default_factory=DashboardSettings)
    sizing: SizingSettings = field(default_factory=SizingSettings)

    def __post_init__(self) -> None:
        for key, option, value in self.options():
            _check(key, option, value)

    def options(self) -> Iterator[tuple[str, Field[Any], Any]]:
        """Give every option as ``section.key`` with its field and value."""
        for section in fields(self):
            holder = getattr(self, section.name)
            for option in fields(holder):
                yield f"{section.name}.{option.name}", option, getattr(holder, option.name)

    def with_values(self, values: Mapping[str, object]) -> Settings:
        """Give a copy with ``section.key`` values replaced; unknown keys and bad values are errors.

        Examples
        --------
        >>> Settings().with_values({"admission.growth_factor": 2}).admission.growth_factor
        2.0
        >>> Settings().with_values({"admission.growth": 2})
        Traceback (most recent call last):
            ...
        penstock.errors.InvalidSettingError: setting 'admission.growth' = 2 is not allowed: \
no such setting; did you mean 'admission.growth_factor'?
        """
        known = {key: option for key, option, _ in self.options()}
        changed: dict[str, dict[str, object]] = {}
        for key, value in values.items():
            if key not in known:
                raise InvalidSettingError(key, value, _unknown(key, list(known)))
            section, name = key.split(".", 1)
            changed.setdefault(section, {})[name] = _convert(key, known[key], value)
        sections = {name: replace(getattr(self, name), **new) for name, new in changed.items()}
        return replace(self, **sections)


def load_settings(
    path: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, object] | None = None,
) -> Settings:
    """Settings from a TOML file, then environment variables, then arguments; later ones win.

    The sections of a declaration, ``[queries.NAME]`` and ``[executors]``, may stand in the same file. A variable that
    begins with ``PENSTOCK_`` and is no setting is told to the logger ``penstock`` and otherwise ignored: it may belong
    to another program.
    """
    settings = Settings() if path is None else Settings().with_values(_from_toml(Path(path)))
    return overlaid(settings, environment=environment, arguments=arguments)


def overlaid(
    settings: Settings,
    *,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, object] | None = None,
) -> Settings:
    """The same settings with those of environment variables, then of arguments, in their place.

    Examples
    --------
    >>> overlaid(Settings(), environment={"PENSTOCK_STORE_PATH": "a.db"}, arguments={"graph.batch_s": 1}).store.path
    'a.db'
    """
    if environment is not None:
        settings = settings.with_values(_from_environment(environment))
    return settings.with_values(arguments) if arguments else settings


def _from_toml(path: Path) -> dict[str, object]:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidSettingError("file", str(path), f"cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettingError("file", str(path), f"not valid TOML ({error})") from error
    values: dict[str, object] = {}
    sections = [section.name for section in fields(Settings)]
    for section, content in tree.items():
        if section in DECLARATION_SECTIONS:
            continue
        if not isinstance(content, dict):
            raise InvalidSettingError(section, content, f"a top-level key must be a section: [{section}]")
        if section not in sections:
            known = [*DECLARATION_SECTIONS, *sections]
            raise InvalidSettingError(section, content, f"no such section; {suggestion(section, known)}")
        values.update({f"{section}.{key}": value for key, value in content.items()})
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    by_variable = {environment_variable(key): key for key, _, _ in Settings().options()}
    values: dict[str, object] = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable not in by_variable:
            if variable not in _VARIABLES_OF_COMMANDS:
                # Without the prefix: what all variables share would make any two of them look alike.
                close = closest(variable.removeprefix(ENVIRONMENT_PREFIX), _without_prefix(by_variable))
                meant = f"did you mean '{ENVIRONMENT_PREFIX}{close}'?"
                hint = meant if close else "'penstock settings --json' lists all variables"
                logger.warning("environment variable %r is no setting and is ignored; %s", variable, hint)
            continue
        values[by_variable[variable]] = text
    return values


def _without_prefix(variables: Iterable[str]) -> list[str]:
    return [variable.removeprefix(ENVIRONMENT_PREFIX) for variable in variables]


def environment_variable(key: str) -> str:
    """Name of the environment variable of a setting.

    Examples
    --------
    >>> environment_variable("store.path")
    'PENSTOCK_STORE_PATH'
    """
    return ENVIRONMENT_PREFIX + key.replace(".", "_").upper()


def allowed_values(option: Field[Any]) -> str:
    """Say in words what an option may be."""
    kind: type[object] = type(option.default)
    if kind is bool:
        return "true or false"
    if option.metadata["choices"]:
        return " or ".join(repr(choice) for choice in option.metadata["choices"])
    if kind is str:
        return "a text that is not empty"
    noun = "a whole number" if kind is int else "a number"
    return f"{noun} from {option.metadata['low']:g} to {option.metadata['high']:g} {option.metadata['unit']}".rstrip()


def _convert(key: str, option: Field[Any], value: object) -> object:
    kind: type[object] = type(option.default)
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        raise InvalidSettingError(key, value, allowed_values(option))
    if kind is str:
        return str(value)
    try:
        number = float(cast("str", value)) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidSettingError(key, value, allowed_values(option)) from error
    if kind is int:
        if not math.isfinite(number) or number != int(number):
            raise InvalidSettingError(key, value, allowed_values(option))
        return int(number)
    return number


def _check(key: str, option: Field[Any], value: object) -> None:
    if isinstance(value, bool) or isinstance(option.default, bool):
        acceptable = isinstance(value, bool) and isinstance(option.default, bool)
    elif isinstance(option.default, str):
        choices = option.metadata["choices"]
        acceptable = isinstance(value, str) and (value in choices if choices else bool(value.strip()))
    else:
        low, high = option.metadata["low"], option.metadata["high"]
        acceptable = isinstance(value, int | float) and math.isfinite(value) and low <= value <= high
    if not acceptable:
        raise InvalidSettingError(key, value, allowed_values(option))


def _unknown(key: str, known: list[str]) -> str:
    return f"no such setting; {suggestion(key, known)}"


def closest(name: str, known: Collection[str]) -> str | None:
    """The known name that was most likely meant, or None where none is close.

    Examples
    --------
    >>> closest("latancy", ["latency", "weight"]), closest("colour", ["latency", "weight"])
    ('latency', None)
    """
    import difflib  # noqa: PLC0415 - only a mistake needs it

    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def suggestion(name: str, known: Collection[str]) -> str:
    """What to say of a name that nobody knows: the one that was most likely meant, else all that there are.

    Examples
    --------
    >>> suggestion("latancy", ["latency", "weight"])
    "did you mean 'latency'?"
    >>> suggestion("colour", ["latency", "weight"])
    'known: latency, weight'
    """
    close = closest(name, known)
    return f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
