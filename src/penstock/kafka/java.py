"""The Java that starts brokers and resolves jars: the one that Spark would start."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from penstock.errors import EnvironmentCheckError

if TYPE_CHECKING:
    from collections.abc import Mapping


def required_java(environment: Mapping[str, str] | None = None) -> str:
    """Path of Java: the one in ``JAVA_HOME`` if that is set, else the one on ``PATH``; an error where there is none."""
    surroundings = os.environ if environment is None else environment
    home = surroundings.get("JAVA_HOME")
    places = os.path.join(home, "bin") if home else surroundings.get("PATH")  # noqa: PTH118 - which wants a text
    found = shutil.which("java", path=places)
    if found is None:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise EnvironmentCheckError(f"no java {where}: Kafka needs Java 17 or later; 'penstock doctor' says more")
    return found
