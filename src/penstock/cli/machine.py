"""The version of the Java that Spark would start on this machine."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from penstock.process.java import java_command

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANSWER_WITHIN_S = 20.0


def java_version(environment: Mapping[str, str] | None = None) -> str | None:
    """Version of that Java such as ``"17.0.15"``, or None where there is none that answers."""
    command = java_command(environment)
    if command is None:
        return None
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_ANSWER_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(answer.stderr + answer.stdout)


def parse_java_version(answer: str) -> str | None:
    """Version in what ``java -version`` writes.

    Examples
    --------
    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15')
    '17.0.15'
    """
    match = re.search(r'version "([^"]+)"', answer)
    return match.group(1) if match else None


def java_major(version: str) -> int:
    """First number that counts in a Java version; before Java 9 that was the second one.

    Examples
    --------
    >>> java_major("17.0.15"), java_major("1.8.0_392"), java_major("21")
    (17, 8, 21)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
