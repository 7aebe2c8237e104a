"""Sessions: which can be governed, and how one ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import UnsupportedSessionError, UnsupportedSparkError
from penstock.extras import is_supported_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM_ENDS_WITHIN_S = 30.0


def require_classic_session(spark: SparkSession) -> None:
    """Refuse a session that has no JVM to talk to."""
    if not hasattr(spark, "_jvm") or not hasattr(spark, "_jsparkSession"):
        kind = f"{type(spark).__module__}.{type(spark).__name__}"
        raise UnsupportedSessionError(
            f"{kind} is not a classic Spark session. A Spark Connect client has no driver of its own, so Penstock "
            "cannot act there: attach in the application that hosts the queries (without SPARK_REMOTE or .remote(...))"
        )


def require_supported_engine(spark: SparkSession) -> None:
    """Refuse a session whose JVM runs a Spark that Penstock was not tried on, whatever PySpark talks to it.

    With ``SPARK_HOME`` or on a cluster of another version, both may start queries together for a long time, until the
    first of what Penstock acts through is missing.
    """
    version = str(spark.version)
    if not is_supported_spark(version):
        raise UnsupportedSparkError(
            f"the JVM of this session runs Spark {version}, which is not supported: Penstock runs on 4.2 (4.1 and "
            "older lack what it acts through, newer ones were not tried); unset SPARK_HOME or point it at a Spark 4.2"
        )


def open_session() -> SparkSession | None:
    """The session of this program whose driver runs; None where there is none."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - Spark is imported only where it is used

    found = SparkSession._instantiatedSession  # noqa: SLF001 - what this package is for
    return found if found is not None and found.sparkContext._jsc is not None else None  # noqa: SLF001 - as above


def end_session(spark: SparkSession) -> None:
    """Stop a session and wait for the end of its JVM, which else outlives the program by a moment."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used

    gateway = SparkContext._gateway  # noqa: SLF001 - what this package is for
    spark.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return  # somebody else's JVM
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - the next session starts a JVM of its own
    gateway.shutdown()
    process.stdin.close()
    process.wait(timeout=_JVM_ENDS_WITHIN_S)


def is_same_session(one: SparkSession, other: SparkSession) -> bool:
    """Whether two handles are of one session, and so of the same queries."""
    if one is other:
        return True
    try:
        return bool(one._jsparkSession == other._jsparkSession)  # noqa: SLF001 - what this package is for
    except Exception:  # noqa: BLE001 - the JVM of one of them is gone, and raises whatever it likes
        return False
