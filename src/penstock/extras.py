"""Packages that only some parts of Penstock need, and that are installed with an extra; and the versions of Spark.

::

    charts     pictures: of the demo's report, of replays
    kafka      offsets, topics, groups and load of Kafka
    research   the experiments of the papers, concave utilities; charts as well
    serve      the dashboard, its HTTP API and metrics

A module that needs one of them calls :func:`require` before it imports it, where it is used. Who lacks the package then
reads what to install, and who needs nothing of it never waits for its import.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import MissingExtraError, UnsupportedSparkError

EXTRAS: dict[str, tuple[str, ...]] = {
    "charts": ("matplotlib",),
    "kafka": ("confluent_kafka",),
    "research": ("cvxpy", "matplotlib"),
    "serve": ("fastapi", "httpx", "plotly", "prometheus_client", "uvicorn"),
}
"""Names under which the packages of each extra are imported."""


def require(extra: str, purpose: str, *packages: str) -> None:
    """Refuse to go on without what a purpose needs of an extra.

    Parameters
    ----------
    extra
        Name of the extra, a key of :data:`EXTRAS`.
    purpose
        What needs it, as the beginning of a sentence.
    packages
        Which of its packages are needed, under the names by which they are imported; all where none is named.

    Raises
    ------
    MissingExtraError
        With the missing packages, and the command that installs them.
    """
    missing = [package for package in packages or EXTRAS[extra] if not is_installed(package)]
    if missing:
        raise MissingExtraError(extra, purpose, missing)


def is_installed(package: str) -> bool:
    """Whether a package is there to be imported.

    Examples
    --------
    >>> is_installed("json"), is_installed("no_such_package")
    (True, False)
    """
    return find_spec(package) is not None


SPARK_FROM, SPARK_BELOW = (4, 2), (4, 3)
"""Versions of PySpark that live tests run on; a test holds them to the bounds of the package."""

SPARK_REMEDY = "pip install 'pyspark>=4.2,<4.3'"


def require_spark(version: str | None = None) -> None:
    """Refuse a PySpark that Penstock was not tried on, before its import fails at something that was added since.

    Raises
    ------
    UnsupportedSparkError
        With the version that is there, those that are supported and the command that installs one.

    Examples
    --------
    >>> require_spark("4.2.1")
    >>> require_spark("3.5.3")
    Traceback (most recent call last):
        ...
    penstock.errors.UnsupportedSparkError: PySpark 3.5.3 is not supported: Penstock runs on 4.2 (4.1 and older lack \
what it acts through, newer ones were not tried); pip install 'pyspark>=4.2,<4.3'
    """
    found = version or spark_version()
    if found is not None and not is_supported_spark(found):
        raise UnsupportedSparkError(
            f"PySpark {found} is not supported: Penstock runs on 4.2 (4.1 and older lack what it acts through, newer "
            f"ones were not tried); {SPARK_REMEDY}"
        )


def is_supported_spark(version: str) -> bool:
    """Whether live tests run on that version, or on one that differs in its last number only.

    Examples
    --------
    >>> [is_supported_spark(version) for version in ("4.2.0", "4.2.1.dev0", "4.1.1", "4.3.0", "unknown")]
    [True, True, False, False, False]
    """
    numbers = version.split(".")[:2]
    if not all(number.isdigit() for number in numbers):
        return False
    return SPARK_FROM <= tuple(map(int, numbers)) < SPARK_BELOW


def spark_version() -> str | None:
    """Version of the PySpark that would be imported; None where there is none."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    # Read and not imported: of another version the import itself may fail. One that lies in SPARK_HOME is not a
    # package that was installed, so nobody else knows its version.
    path = Path(spec.origin).parent / "version.py"
    try:
        found = re.search(r"^__version__[^=]*= *[\"']([^\"']+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else found[1]
