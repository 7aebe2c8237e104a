"""The Java of this machine: the one that Spark would start, and that starts brokers and resolves jars."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from penstock.errors import EnvironmentCheckError

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
        raise EnvironmentCheckError(f"no java {where}: Kafka needs Java 17 or later; 'penstock doctor' says more")
    return found
