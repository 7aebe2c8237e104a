"""Packages that only some parts of Penstock need, and that are installed with an extra.

::

    charts     pictures: of the demo's report, of replays
    kafka      offsets, topics, groups and load of Kafka
    research   the experiments of the papers, concave utilities; charts as well

A module that needs one of them calls :func:`require` before it imports it, where it is used. Who lacks the package then
reads what to install, and who needs nothing of it never waits for its import.
"""

from __future__ import annotations

from importlib.util import find_spec

from penstock.errors import MissingExtraError

EXTRAS: dict[str, tuple[str, ...]] = {
    "charts": ("matplotlib",),
    "kafka": ("confluent_kafka",),
    "research": ("cvxpy", "matplotlib"),
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
