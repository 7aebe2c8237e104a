"""The errors that Penstock raises, and what each one asks of the person who sees it.

::

    PenstockError                 every error below; its text names the thing and the remedy
    ├── InvalidGoalError          a goal that cannot mean anything (latency below zero, accuracy above one)
    ├── InvalidSettingError       a setting that is unknown or outside its bounds
    ├── InvalidDeclarationError   a file that declares an application, with the line that must change
    ├── InvalidProfileError       a load profile or trace that cannot be read
    ├── InvalidGraphError         a graph of elements that cannot run: a cycle, a stream nobody produces
    ├── InfeasibleError           minima that do not fit the engines, with what to relax
    ├── InvalidGuardError         a guard or operator on columns that are not there or do not serve
    ├── UnknownQueryError         no streaming query goes by that name
    ├── UnsupportedSessionError   a session that cannot be governed, such as Spark Connect
    ├── UnsupportedSparkError     a version of Spark that Penstock was not tried on
    ├── AlreadyAttachedError      a session that is attached to already
    ├── RepayError                dropped rows that cannot be had again as they were
    ├── StoreError                the action log cannot be opened, written or understood
    ├── EventLogError             an event log of Spark that cannot be read
    ├── EnvironmentCheckError     Java, Python or memory is not what Spark needs
    ├── ServiceError              a page or an API that cannot be served: a port, a token file, a lease
    ├── MissingExtraError         a package that only some parts need, with the command that installs it
    ├── ArtifactError             jars that cannot be resolved or found
    ├── BrokerError               a Kafka broker, topic or group that does not do what was asked
    ├── ClusterError              a Spark cluster or engine that does not start, stop, answer or fit
    └── FleetError                several engines: one that does not answer, or is asked for what it must not do
        ├── ModuleRefusedError    an application module that is not in the configured paths, or does not import
        ├── CheckpointOwnerError  a checkpoint that belongs to another query, or to a later run
        ├── AgentError            what an engine's agent refused, in its words
        └── AgentUnreachableError an engine whose agent does not answer
"""

from __future__ import annotations


class PenstockError(Exception):
    """Base of all errors that are meant to be read by a person."""


class InvalidGoalError(PenstockError, ValueError):
    """A goal that cannot be met by anything, because it does not mean anything."""


class InvalidSettingError(PenstockError, ValueError):
    """A setting whose name is unknown or whose value is not allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key = key
        self.value = value
        self.allowed = allowed
        super().__init__(f"setting {key!r} = {value!r} is not allowed: {allowed}")


class InvalidDeclarationError(PenstockError, ValueError):
    """A file that declares an application and cannot be meant as it is written.

    Examples
    --------
    >>> str(InvalidDeclarationError("penstock.toml", 3, "priority is 'high', a text", "write a whole number"))
    "penstock.toml, line 3: priority is 'high', a text: write a whole number"
    >>> str(InvalidDeclarationError("penstock.toml", None, "there is no such file", "write one"))
    'penstock.toml: there is no such file: write one'
    """

    def __init__(self, path: str, line: int | None, problem: str, remedy: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        self.remedy = remedy
        place = path if line is None else f"{path}, line {line}"
        super().__init__(f"{place}: {problem}: {remedy}")


class InvalidProfileError(PenstockError, ValueError):
    """A load profile or trace file that cannot be used, with the place where it goes wrong."""


class InvalidGraphError(PenstockError, ValueError):
    """A graph of elements on engines that cannot run as it is written, with the element, stream or engine at fault."""


class InfeasibleError(PenstockError):
    """What is asked for does not fit the engines; ``remedies`` are the ways out, each of which suffices."""

    def __init__(self, problem: str, remedies: tuple[str, ...]) -> None:
        self.problem = problem
        self.remedies = remedies
        super().__init__(f"{problem}; {'; or '.join(remedies)}")


class InvalidGuardError(PenstockError, ValueError):
    """A guard or operator on columns that are not there, or not of a kind that serves."""


class InvalidMomentError(PenstockError, ValueError):
    """A text that names no moment."""

    def __init__(self, text: object) -> None:
        allowed = "write a time such as '2026-01-05T10:00:00', or how long ago, such as '10 minutes'"
        super().__init__(f"{text!r} is not a time: {allowed}")


class UnknownQueryError(PenstockError, LookupError):
    """No streaming query of that name is running or recorded."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name = name
        self.known = known
        listing = ", ".join(sorted(known)) if known else "none; start one with .queryName(...) first"
        super().__init__(f"no streaming query named {name!r}; known queries: {listing}")


class UnsupportedSessionError(PenstockError, TypeError):
    """The Spark session is of a kind that Penstock cannot act on."""


class UnsupportedSparkError(PenstockError, ImportError):
    """PySpark, or the Spark in its JVM, is of a version that Penstock was not tried on."""


class AlreadyAttachedError(PenstockError, RuntimeError):
    """The session has a hold on it already; two would each take the other's limits for the query's own."""


class RepayError(PenstockError):
    """Rows that were dropped and cannot be had again as they were, with what to do instead.

    ``may_pass`` says whether they perhaps can be later, though nobody does anything about it.
    """

    def __init__(self, text: str, *, may_pass: bool = False) -> None:
        self.may_pass = may_pass
        super().__init__(text)


class StoreError(PenstockError):
    """The action log cannot be opened, written or understood."""


class UnstorableError(StoreError):
    """What is to be recorded cannot be by any store, now or later: a NaN, or text that is no text."""


class ServiceError(PenstockError):
    """A page or an API that cannot be served as it was asked for."""


class EventLogError(PenstockError):
    """An event log of Spark that is not there, or not as it is read here."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}: {remedy}")


class EnvironmentCheckError(PenstockError):
    """The machine lacks something that Spark needs."""


class MissingExtraError(PenstockError, ImportError):
    """A package that only some parts of Penstock need is not installed."""

    def __init__(self, extra: str, purpose: str, packages: list[str]) -> None:
        self.extra = extra
        self.packages = packages
        listing = ", ".join(packages)
        self._given = (extra, purpose, packages)
        super().__init__(f"{purpose} needs what is not installed ({listing}): pip install 'penstock[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, list[str]]]:
        """Let the error come out of a worker process: one that cannot be unpickled leaves its pool waiting for ever."""
        return type(self), self._given


class ArtifactError(PenstockError):
    """Jars that are needed cannot be resolved or found."""


class BrokerError(PenstockError):
    """A Kafka broker that does not start, stop or answer, or a topic or group that is not as it was taken to be."""


class ClusterError(PenstockError):
    """A Spark cluster that does not start, stop or answer, or an engine that cannot be as it is described."""


class FleetError(PenstockError):
    """Engines that do not start or answer, or that are asked for what they must not do."""


class ModuleRefusedError(FleetError):
    """An application module that is not in the configured paths, does not import, or has no such function."""


class CheckpointOwnerError(FleetError):
    """A checkpoint that belongs to another query, or that a later run has taken over."""


class AgentError(FleetError):
    """What an engine's agent refused; ``kind`` is the error that it had."""

    def __init__(self, text: str, *, kind: str = "AgentError") -> None:
        self.kind = kind
        super().__init__(text)


class AgentUnreachableError(FleetError):
    """An engine whose agent does not answer; nobody knows whether it did what it was asked for."""
