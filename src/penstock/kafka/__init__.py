"""Kafka: brokers for development, Spark's connector, offsets and lag, load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["jars"]


def jars(cache: Path | None = None) -> list[str]:
    """Jars of the Kafka connector that matches the installed Spark, for ``spark.jars``.

    The first call resolves them (Java and a network are needed); later ones find them in the cache.

    Examples
    --------
    ::

        SparkSession.builder.config("spark.jars", ",".join(penstock.kafka.jars()))
    """
    from penstock.kafka.artifacts import connector_set, resolved  # noqa: PLC0415 - imported only where it is used

    return [str(path) for path in resolved(connector_set(), cache)]
