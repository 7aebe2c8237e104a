"""Tells which private members of Spark this machine's version lacks: ``python -m penstock.apps.probe``.

A program of its own, so that whoever asks need not host a JVM for it. Writes one JSON object: ability to what it lacks.
"""

from __future__ import annotations

import json
import sys

from penstock.apps.session import local_session
from penstock.spark.internals import probe


def main() -> None:
    """Start a small session, look, and write what is missing."""
    with local_session("penstock probe", cores=1, memory="512m") as spark:
        missing = {str(ability): reason for ability, reason in probe(spark).items()}
    sys.stdout.write(json.dumps(missing) + "\n")


if __name__ == "__main__":
    main()
