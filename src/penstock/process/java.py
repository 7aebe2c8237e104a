"""The Java that starts daemons and resolves jars, which is the one that Spark would start, and Spark's own jars."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ArtifactError, EnvironmentCheckError

if TYPE_CHECKING:
    from collections.abc import Mapping


def java_command(environment: Mapping[str, str] | None = None) -> str | None:
    """Path of Java: the one in ``JAVA_HOME`` if that is set, else the one on ``PATH``; None where there is none."""
    surroundings = os.environ if environment is None else environment
    home = surroundings.get("JAVA_HOME")
    places = os.path.join(home, "bin") if home else surroundings.get("PATH")  # noqa: PTH118 - which wants a text
    return shutil.which("java", path=places)


def required_java(environment: Mapping[str, str] | None = None) -> str:
    """Path of that Java, or an error that says where it was looked for."""
    found = java_command(environment)
    if found is None:
        home = (os.environ if environment is None else environment).get("JAVA_HOME")
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise EnvironmentCheckError(f"no java {where}: Java 17 or later is needed; 'penstock doctor' says more")
    return found


def spark_jars(containing: str = "spark-core_*.jar", environment: Mapping[str, str] | None = None) -> Path:
    """Directory of Spark's jars: that of ``SPARK_HOME`` if it has what is looked for, else that of PySpark itself."""
    import pyspark  # noqa: PLC0415 - Spark is imported only where it is used

    home = (os.environ if environment is None else environment).get("SPARK_HOME")
    places = [Path(home) / "jars"] if home else []
    places.append(Path(pyspark.__file__).parent / "jars")
    for place in places:
        if any(place.glob(containing)):
            return place
    where = ", ".join(map(str, places))
    raise ArtifactError(f"no {containing} among Spark's jars in {where}: install pyspark from PyPI")
