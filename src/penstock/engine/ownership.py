"""Whose checkpoint it is: a file beside what batches were told, ``<checkpoint>/penstock/owner.json``.

Spark keeps no word of which query a checkpoint belongs to, nor of who runs it: two runs on one checkpoint each write
what the other takes for its own. A run claims the checkpoint before it starts, with a number that counts the runs of
the query over all engines; whoever finds a larger number there than its own has been replaced and must not go on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock.errors import CheckpointOwnerError

if TYPE_CHECKING:
    from penstock.spark.folders import Folder

_NAME = "owner.json"


@dataclass(frozen=True, slots=True)
class Owner:
    """The query that a checkpoint belongs to, and the run that has it now."""

    application: str
    query: str
    engine: str
    number: int


def read_owner(folder: Folder) -> Owner | None:
    """Who claimed a checkpoint last; None where nobody has."""
    content = folder.read(_NAME)
    if content is None:
        return None
    try:
        tree = json.loads(content)
        return Owner(str(tree["application"]), str(tree["query"]), str(tree["engine"]), int(tree["number"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointOwnerError(
            f"{_NAME} beside the checkpoint cannot be read ({error}): delete it once no engine runs the query"
        ) from error


def claim(folder: Folder, owner: Owner, checkpoint: str) -> None:
    """Take a checkpoint over from an earlier run of the same query; anybody else's is refused.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from penstock.spark.folders import LocalFolder
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = LocalFolder(Path(place) / "penstock")
    ...     claim(folder, Owner("ads", "clicks", "left", 1), place)
    ...     claim(folder, Owner("ads", "clicks", "right", 2), place)
    ...     print(read_owner(folder))
    ...     claim(folder, Owner("ads", "views", "right", 3), "/data/clicks")
    Traceback (most recent call last):
        ...
    penstock.errors.CheckpointOwnerError: checkpoint /data/clicks belongs to query 'clicks' of application 'ads', and \
'views' of 'ads' may not go on from it: give 'views' a checkpoint of its own
    """
    found = read_owner(folder)
    if found is not None and (found.application, found.query) != (owner.application, owner.query):
        raise CheckpointOwnerError(
            f"checkpoint {checkpoint} belongs to query {found.query!r} of application {found.application!r}, and "
            f"{owner.query!r} of {owner.application!r} may not go on from it: give {owner.query!r} a checkpoint of its "
            "own"
        )
    if found is not None and found.number > owner.number:
        raise CheckpointOwnerError(
            f"run {owner.number} of query {owner.query!r} comes too late: run {found.number} on engine "
            f"{found.engine!r} has checkpoint {checkpoint}; ask for a run with a larger number"
        )
    folder.write(_NAME, json.dumps(asdict(owner)).encode())
