"""Jars of the Kafka broker and of Spark's Kafka connector, resolved once by the Ivy inside PySpark and then kept.

Java is all that is needed: no Maven, no download address. Ivy asks the repository that it is set up for (its default
is Maven Central). A set is a directory in the cache that appears only when it is complete, so a second start resolves
nothing and needs no network. See docs/adr/0008-kafka-from-jars.md.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ArtifactError
from penstock.extras import SPARK_REMEDY, spark_version
from penstock.process.java import required_java, spark_jars

if TYPE_CHECKING:
    from collections.abc import Mapping

_RESOLVED_WITHIN_S = 600.0
_SCALA = "2.13"
_DEFAULT_DIRECTORY = ".cache"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One published jar."""

    organisation: str
    name: str
    revision: str

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


@dataclass(frozen=True, slots=True)
class ArtifactSet:
    """Jars that belong together; ``transitive`` brings what they depend on as well."""

    name: str
    artifacts: tuple[Artifact, ...]
    transitive: bool

    def module_file(self) -> str:
        """The set as an Ivy module."""
        dependencies = "\n".join(
            f'    <dependency org="{item.organisation}" name="{item.name}" rev="{item.revision}"'
            f' transitive="{str(self.transitive).lower()}"/>'
            for item in self.artifacts
        )
        # Without transitive jars only a module's own jar is wanted; with them, what it needs to run.
        configuration = "default->default" if self.transitive else "default->master"
        return (
            '<ivy-module version="2.0">\n'
            f'  <info organisation="penstock" module="{self.name}"/>\n'
            '  <configurations><conf name="default"/></configurations>\n'
            f'  <dependencies defaultconf="{configuration}">\n{dependencies}\n  </dependencies>\n'
            "</ivy-module>\n"
        )


BROKER = ArtifactSet("kafka-broker-4.2.0", (Artifact("org.apache.kafka", f"kafka_{_SCALA}", "4.2.0"),), transitive=True)

# Kafka's own command-line tools, which run beside the broker's jars.
TOOLS = ArtifactSet("kafka-tools-4.2.0", (Artifact("org.apache.kafka", "kafka-tools", "4.2.0"),), transitive=False)

# By version of Spark, the jars one by one: all else that they depend on is in Spark already. The token provider is of
# an older Spark because no newer one can be resolved; it matters to Kerberos only, and works beside the newer jar.
CONNECTORS: Mapping[str, ArtifactSet] = {
    "4.2.0": ArtifactSet(
        "spark-kafka-connector-4.2.0",
        (
            Artifact("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", "4.2.0"),
            Artifact("org.apache.spark", f"spark-token-provider-kafka-0-10_{_SCALA}", "4.0.0"),
            Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
            Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
        ),
        transitive=False,
    )
}


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where resolved jars are kept: ``$XDG_CACHE_HOME/penstock``, or ``~/.cache/penstock``.

    Examples
    --------
    >>> cache_directory({"XDG_CACHE_HOME": "/var/cache"}).as_posix()
    '/var/cache/penstock'
    """
    surroundings = os.environ if environment is None else environment
    return Path(surroundings.get("XDG_CACHE_HOME") or Path.home() / _DEFAULT_DIRECTORY) / "penstock"


def connector_set(version: str | None = None) -> ArtifactSet:
    """The connector for a version of Spark, by default for the PySpark that is installed.

    A version without a line of its own gets the newest connector that differs from it in the last number only: such
    releases of Spark mend faults, and keep what a connector calls.

    Examples
    --------
    >>> connector_set("4.2.0").artifacts[0].name
    'spark-sql-kafka-0-10_2.13'
    >>> connector_set("4.2.3").name
    'spark-kafka-connector-4.2.0'
    """
    found = version or spark_version()
    if found is None:
        raise ArtifactError(f"no PySpark is installed that a Kafka connector could be for: {SPARK_REMEDY}")
    alike = [known for known in CONNECTORS if known.split(".")[:2] == found.split(".")[:2]]
    if not alike:
        raise ArtifactError(
            f"no Kafka connector is known for Spark {found} (known: {', '.join(sorted(CONNECTORS))}): put the one of "
            "your distribution on spark.jars.packages yourself"
        )
    return CONNECTORS[found if found in CONNECTORS else max(alike, key=_numbers)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".") if number.isdigit())


def resolved(wanted: ArtifactSet, cache: Path | None = None) -> list[Path]:
    """Paths of the set's jars, resolving them first if the cache does not have them."""
    place = (cache or cache_directory()) / "jars" / wanted.name
    if not place.is_dir():
        _resolve(wanted, place)
    return sorted(place.glob("*.jar"))


def _resolve(wanted: ArtifactSet, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{wanted.name}-", dir=place.parent) as scratch:
        complete = Path(scratch) / "jars"
        _run_ivy(wanted, Path(scratch), complete)
        try:
            complete.rename(place)
        except OSError:
            # Somebody else resolved the same set meanwhile: theirs is as good.
            if not place.is_dir():
                raise


def _run_ivy(wanted: ArtifactSet, scratch: Path, target: Path) -> None:
    module = scratch / "ivy.xml"
    module.write_text(wanted.module_file(), encoding="utf-8")
    # The cache of Ivy itself goes with the scratch directory: the jars would be on the disk twice.
    arguments = ["-ivy", str(module), "-cache", str(scratch / "ivy"), "-confs", "default"]
    pattern = f"{target}/[artifact]-[revision].[ext]"
    jars = f"{spark_jars('ivy-*.jar')}/*"
    command = [required_java(), "-cp", jars, "org.apache.ivy.Main", *arguments, "-retrieve", pattern]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_RESOLVED_WITHIN_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ArtifactError(_failure(wanted, f"no answer within {_RESOLVED_WITHIN_S:g} s")) from error
    if done.returncode != 0 or not list(target.glob("*.jar")):
        raise ArtifactError(_failure(wanted, _last_words(done.stdout + done.stderr)))
    for source in target.glob("*-sources.jar"):
        source.unlink()


def _failure(wanted: ArtifactSet, why: str) -> str:
    names = ", ".join(map(str, wanted.artifacts))
    return f"{names} could not be resolved ({why}): the first start needs a network that reaches a Maven repository"


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "not found" in line.lower() or "error" in line.lower() or "refused" in line]
    return (telling or lines or ["Ivy said nothing"])[-1]
