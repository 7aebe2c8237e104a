"""A folder of small files that are written whole or not at all, wherever a checkpoint may be.

On this machine's own disks Python writes them. Anywhere else Spark's own checkpoint files do: whatever location Spark
can keep its offsets in serves.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from penstock.spark import internals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.internals import JavaObject


class Folder(Protocol):
    """Small files by name; a name may have folders in it."""

    def read(self, name: str) -> bytes | None:
        """What is in a file; None where there is none."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Put content in the place of whatever was there; a reader sees the one or the other, never a part."""
        ...

    def names(self, inside: str) -> list[str]:
        """Names of the files in a folder, without it; none where there is no such folder."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""
        ...


class LocalFolder:
    """A folder on this machine.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = LocalFolder(Path(place))
    ...     folder.write("batches/7.json", b"{}")
    ...     folder.names("batches"), folder.read("batches/7.json"), folder.read("batches/8.json")
    (['7.json'], b'{}', None)
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> bytes | None:
        """What is in a file; None where there is none."""
        try:
            return (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write beside and rename: a process that is killed in between leaves what was there."""
        path = self._path / name
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_bytes(content)
        except FileNotFoundError:
            if not self._path.parent.is_dir():
                # A deleted checkpoint must not come back with nothing but this in it: Spark would refuse it.
                raise
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(content)
        beside.replace(path)

    def names(self, inside: str) -> list[str]:
        """Names of the files in a folder."""
        try:
            return [entry.name for entry in os.scandir(self._path / inside) if not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""
        (self._path / name).unlink(missing_ok=True)


class SparkFolder:
    """A folder that Spark's own checkpoint files reach: HDFS, an object store, or whatever is mounted."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark, self._location = spark, location
        self._manager: JavaObject = internals.checkpoint_files(spark, location)

    def read(self, name: str) -> bytes | None:
        """What is in a file; None where there is none."""
        return internals.read_file(self._spark, self._manager, f"{self._location}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Write as Spark writes its offsets: in one step."""
        outside = self._location.rpartition("/")[0]
        internals.write_file(self._spark, self._manager, f"{self._location}/{name}", content, outside=outside)

    def names(self, inside: str) -> list[str]:
        """Names of the files in a folder."""
        found = internals.list_files(self._spark, self._manager, f"{self._location}/{inside}")
        return [name for name in found if not name.startswith(".")]

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""
        internals.delete_file(self._spark, self._manager, f"{self._location}/{name}")


def open_folder(location: str, spark: SparkSession | None = None) -> Folder:
    """The folder at a location: a path of this machine, or any address that Spark's file systems know.

    Only for the latter is a session needed.
    """
    path = local_path(location)
    if path is not None:
        return LocalFolder(path)
    if spark is None:
        raise FileNotFoundError(f"{location} is not on this machine: a Spark session is needed to reach it")
    return SparkFolder(spark, location.rstrip("/"))


def local_path(location: str) -> Path | None:
    """The path of a location on this machine; None for one elsewhere.

    Examples
    --------
    >>> str(local_path("file:/data/my%20query")), str(local_path("/data/my query")), local_path("hdfs://name/data")
    ('/data/my query', '/data/my query', None)
    """
    if location.startswith("/"):
        return Path(location)
    parts = urlsplit(location)
    if not parts.scheme:
        return Path(location)
    return Path(unquote(parts.path)) if parts.scheme == "file" and not parts.netloc else None
