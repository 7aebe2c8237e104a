"""Python objects that the JVM calls, and what it may call of them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.spark.internals.handles import JavaObject

_ID_BYTES = 16


class OnlyCallbacks:
    """What the JVM may call of an object, and nothing else of it.

    The port on which the JVM calls Python takes any method of an object whose id is known, with arguments of the
    caller's choice: a method that takes a report as text would take a forged one.

    Parameters
    ----------
    target
        What is called.
    interface
        The interface that it has in Java.
    names
        The methods of it that may be called.
    """

    __slots__ = ("_java", "_names", "_target")

    def __init__(self, target: object, interface: str, names: Collection[str]) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_names", frozenset(names))
        object.__setattr__(self, "_java", type("Java", (), {"implements": (interface,)}))

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - what Py4J asks for
        if name == "Java":
            return object.__getattribute__(self, "_java")
        if name in object.__getattribute__(self, "_names"):
            return getattr(object.__getattribute__(self, "_target"), name)
        if name == "__class__":
            return OnlyCallbacks  # Py4J asks whether the object is a collection
        raise AttributeError(name)


def callback_gateway() -> JavaObject:
    """The way to the JVM of this process, on which the JVM can call back."""
    from pyspark import SparkContext  # noqa: PLC0415 - Spark is imported only where it is used
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - imported only where it is used

    gateway = SparkContext._gateway  # noqa: SLF001 - what this package is for
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    make_ids_unguessable(gateway.gateway_property.pool)
    return gateway


def make_ids_unguessable(pool: Any) -> None:  # noqa: ANN401 - Py4J has no types
    """Give objects that the JVM calls ids that nobody can guess, from now on; Py4J counts them: p0, p1, p2.

    Whoever may connect to a port of loopback reaches the port on which the JVM calls Python, and Spark asks for no
    password there: the id of the object is the only secret that a caller must have.
    """
    if "put" in vars(pool):
        return
    counted = pool.put

    def put(python_object: object, force_id: str | None = None) -> str:
        return str(counted(python_object, force_id or f"p{secrets.token_hex(_ID_BYTES)}"))

    pool.put = put
