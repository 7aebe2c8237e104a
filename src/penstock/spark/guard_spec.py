"""What decides on the rows of a guard, beside the directive: written down, so that the same draw can be made later."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECRET = re.compile(r"secret|password|token|jaas|access.?key|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SourceReading:
    """How a source was asked for: format, options, and the columns that came of it.

    Options that look like secrets are not written down; ``left_out`` has their names.

    Examples
    --------
    >>> reading = SourceReading.of("kafka", {"subscribe": "clicks", "kafka.ssl.key.password": "x"}, "{}")
    >>> reading.options, reading.left_out
    ({'subscribe': 'clicks'}, ('kafka.ssl.key.password',))
    """

    format: str
    options: dict[str, str]
    schema_json: str
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, options: Mapping[str, str], schema_json: str) -> SourceReading:
        """Without the secrets."""
        plain = {key: value for key, value in options.items() if not _SECRET.search(key)}
        return cls(name, plain, schema_json, tuple(sorted(set(options) - set(plain))))


@dataclass(frozen=True, slots=True)
class GuardSpec:
    """Where a guard stands, and by which columns it draws.

    Parameters
    ----------
    seed
        Of the hash.
    identity
        Columns that tell each row from all others; empty where rows are drawn by their key, or by chance.
    key
        Column whose values stay or go as a whole.
    arrival
        Column that says when a row arrived.
    utility
        Column or expression in SQL; None where there is none, or where it was given as a column object.
    has_utility
        Whether there is one.
    source
        The one source that the rows come from; None where there are several.
    is_at_source
        Whether nothing stands between source and guard.
    operators
        Operators of the query, with their strategies: they choose by what else is in their Arrow batch.
    guards
        How many guards the query has.
    """

    seed: int
    identity: tuple[str, ...] = ()
    key: str | None = None
    arrival: str | None = None
    utility: str | None = None
    has_utility: bool = False
    source: SourceReading | None = None
    is_at_source: bool = False
    operators: tuple[str, ...] = ()
    guards: int = 1

    @property
    def fingerprint(self) -> str:
        """The same for the same guard in every run."""
        return f"{zlib.crc32(self.to_json().encode()):08x}"

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> GuardSpec:
        """Read what :meth:`to_json` wrote; ValueError, TypeError or KeyError for anything else.

        Examples
        --------
        >>> spec = GuardSpec(7, ("offset",), source=SourceReading("kafka", {}, "{}"))
        >>> GuardSpec.from_json(spec.to_json()) == spec
        True
        """
        values: dict[str, Any] = json.loads(text)
        source = values["source"]
        if source is not None:
            source = SourceReading(**{**source, "left_out": tuple(source["left_out"])})
        listed = {name: tuple(values[name]) for name in ("identity", "operators")}
        return cls(**{**values, **listed, "source": source})


@dataclass(slots=True)
class GuardBook:
    """The guards and operators that this process has put into plans, by the names of their observations.

    Examples
    --------
    >>> book = GuardBook()
    >>> book.specs["penstock.guard.1"] = GuardSpec(7, ("offset",))
    >>> book.in_plan("... CollectMetrics penstock.guard.1, [count(1) ...").identity
    ('offset',)
    >>> book.in_plan("... CollectMetrics penstock.guard.11, [count(1) ...") is None
    True
    >>> book.specs["penstock.guard.by_chance.2"] = GuardSpec(7, ())
    >>> book.in_plan("... CollectMetrics penstock.guard.by_chance.2, [count(1) ...").identity
    ()
    """

    specs: dict[str, GuardSpec] = field(default_factory=dict)
    operators: dict[str, str] = field(default_factory=dict)

    def in_plan(self, plan: str) -> GuardSpec | None:
        """The guard that a plan has; with several, the first and how many there are; None where none is known."""
        named = set(re.findall(r"penstock\.guard(?:\.[a-z_]+)*\.\d+", plan))
        found = [self.specs[name] for name in sorted(named) if name in self.specs]
        operators = tuple(self.operators[name] for name in sorted(named) if name in self.operators)
        if not found and not operators:
            return None
        first = asdict(found[0]) if found else {"seed": 0}
        source = found[0].source if found else None
        return GuardSpec(**{**first, "source": source, "operators": operators, "guards": len(found)})


book = GuardBook()
