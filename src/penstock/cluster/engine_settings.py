"""Settings of Spark for an engine: the same description for Standalone, YARN and Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cluster.engine_spec import Kubernetes, Standalone, Yarn
from penstock.errors import ClusterError
from penstock.spark.standalone_master import PAGE_KEY
from penstock.spark.state_locality import LOCALITY_KEY, NO_WAIT

if TYPE_CHECKING:
    from penstock.cluster.engine_spec import EngineSpec, Place

# What an engine's size and graceful removal are made of; see docs/adr/0011-executors-leave-gracefully.md.
_OWN = frozenset(
    {
        "spark.master", "spark.app.name", "spark.cores.max", "spark.executor.cores", "spark.executor.memory",
        "spark.executor.instances", "spark.dynamicAllocation.enabled", "spark.decommission.enabled",
        "spark.storage.decommission.enabled", "spark.storage.decommission.shuffleBlocks.enabled",
        "spark.storage.decommission.rddBlocks.enabled", "spark.executor.decommission.forceKillTimeout", PAGE_KEY,
    }
)  # fmt: skip
_LEAST_FAILURES = 3


def engine_settings(spec: EngineSpec, place: Place) -> dict[str, str]:
    """All settings of an engine at a place.

    Examples
    --------
    >>> from penstock.cluster.engine_spec import EngineSpec
    >>> from penstock.model.executors import ExecutorBounds
    >>> spec = EngineSpec("clicks", ExecutorBounds(1, 6, 2), cores=2, memory="2g")
    >>> engine_settings(spec, Standalone("spark://127.0.0.1:7077"))["spark.cores.max"]
    '12'
    >>> engine_settings(spec, Yarn())["spark.executor.instances"]
    '2'
    """
    taken = sorted(_OWN & set(spec.settings))
    if taken:
        raise ClusterError(
            f"engine {spec.name}: {', '.join(taken)} follow from the engine's description; leave them out"
        )
    return {**_common(spec), **_of_place(spec, place), **spec.settings}


def _common(spec: EngineSpec) -> dict[str, str]:
    settings = {
        "spark.app.name": spec.name,
        "spark.driver.memory": spec.driver_memory,
        "spark.executor.cores": str(spec.cores),
        "spark.executor.memory": spec.memory,
        # Spark's own allocation would undo every decision that is not its own.
        "spark.dynamicAllocation.enabled": "false",
        # An executor that leaves finishes its tasks and passes shuffle and cached blocks on, so that no task fails.
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        # Spark looks every 30 s whether blocks are still to be passed on; an executor would leave that much later.
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        # A task of a stateful stage prefers the executor that has its state, and waits this long for it (3 s by
        # default): as long as old executors are free within that time, new ones get nothing to do.
        LOCALITY_KEY: NO_WAIT,
        # One whose blocks nobody can take would stay for ever.
        "spark.executor.decommission.forceKillTimeout": f"{spec.release_within_s:.0f}s",
    }
    if spec.memory_overhead is not None:
        settings["spark.executor.memoryOverhead"] = spec.memory_overhead
    if spec.python is not None:
        settings["spark.pyspark.python"] = spec.python
    if spec.jars:
        settings["spark.jars"] = ",".join(spec.jars)
    return settings


def _of_place(spec: EngineSpec, place: Place) -> dict[str, str]:
    if isinstance(place, Standalone):
        # Whoever scales the application asks there what the cluster can give.
        page = {} if place.ui_url is None else {PAGE_KEY: place.ui_url}
        return {
            "spark.master": place.master_url,
            **page,
            # The cap cannot be raised while the application runs, so it is that of the maximum; the application
            # starts with all of it, and what is above the first size is released at once.
            "spark.cores.max": str(spec.bounds.max_executors * spec.cores),
        }
    first = {
        "spark.executor.instances": str(spec.bounds.first),
        "spark.submit.deployMode": place.deploy_mode,
        # Spark's default is twice the first size, which an engine that has grown since would soon reach.
        "spark.executor.maxNumFailures": str(max(_LEAST_FAILURES, 2 * spec.bounds.max_executors)),
    }
    if isinstance(place, Yarn):
        return {"spark.master": "yarn", "spark.yarn.queue": place.queue, **first}
    return {**first, **_of_kubernetes(spec, place)}


def _of_kubernetes(spec: EngineSpec, place: Kubernetes) -> dict[str, str]:
    settings = {
        "spark.master": f"k8s://{place.api_server}",
        "spark.kubernetes.namespace": place.namespace,
        "spark.kubernetes.container.image": place.image,
        "spark.kubernetes.executor.request.cores": str(spec.cores),
        # A jump to the maximum is one round of requests, not several with a pause between them.
        "spark.kubernetes.allocation.batch.size": str(spec.bounds.max_executors),
    }
    if place.service_account is not None:
        settings["spark.kubernetes.authenticate.driver.serviceAccountName"] = place.service_account
    return settings
