"""One description of an engine, and the settings that Standalone, YARN and Kubernetes need for it."""

from __future__ import annotations

import pytest

from penstock.cluster.engine_settings import engine_settings
from penstock.cluster.engine_spec import EngineSpec, Kubernetes, Place, Standalone, Yarn
from penstock.errors import ClusterError
from penstock.model import ExecutorBounds

SPEC = EngineSpec(
    "clicks", ExecutorBounds(1, 8, 3), cores=2, memory="4g", memory_overhead="1g", driver_memory="2g",
    release_within_s=90, jars=("a.jar", "b.jar"), settings={"spark.sql.shuffle.partitions": "16"},
)  # fmt: skip
PLACES: list[Place] = [
    Standalone("spark://master:7077"),
    Yarn("streams"),
    Kubernetes("https://k8s:6443", "registry/penstock:1", "streams", "spark"),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: type(place).__name__)
def test_every_place_gets_size_and_graceful_removal(place: Place) -> None:
    """Executors of the size that was described, which leave without losing a task; no other hand on their number."""
    settings = engine_settings(SPEC, place)
    assert settings["spark.executor.cores"] == "2"
    assert settings["spark.executor.memory"] == "4g"
    assert settings["spark.executor.memoryOverhead"] == "1g"
    assert settings["spark.driver.memory"] == "2g"
    assert settings["spark.dynamicAllocation.enabled"] == "false"
    assert settings["spark.decommission.enabled"] == "true"
    assert settings["spark.storage.decommission.enabled"] == "true"
    assert settings["spark.storage.decommission.shuffleBlocks.enabled"] == "true"
    assert settings["spark.executor.decommission.forceKillTimeout"] == "90s"
    assert settings["spark.jars"] == "a.jar,b.jar"
    assert settings["spark.sql.shuffle.partitions"] == "16"


def test_standalone_is_capped_at_the_maximum() -> None:
    """In cores, because Standalone knows no number of executors; the cap stands for as long as the engine runs."""
    settings = engine_settings(SPEC, PLACES[0])
    assert settings["spark.master"] == "spark://master:7077"
    assert settings["spark.cores.max"] == "16"
    assert "spark.executor.instances" not in settings


def test_standalone_tells_where_the_page_of_its_master_is() -> None:
    """Where it is known: whoever scales the application asks there what the cluster can give."""
    key, page = "spark.penstock.master.page", "http://master:8080"
    assert engine_settings(SPEC, Standalone("spark://master:7077", page))[key] == page
    assert all(key not in engine_settings(SPEC, place) for place in PLACES)
    with pytest.raises(ClusterError, match=key):
        engine_settings(EngineSpec("clicks", settings={key: page}), Yarn())


def test_yarn_starts_with_the_first_size() -> None:
    """In its queue, and failures are counted against the largest size."""
    settings = engine_settings(SPEC, PLACES[1])
    assert settings["spark.master"] == "yarn"
    assert settings["spark.yarn.queue"] == "streams"
    assert settings["spark.submit.deployMode"] == "client"
    assert settings["spark.executor.instances"] == "3"
    assert settings["spark.executor.maxNumFailures"] == "16"
    assert "spark.cores.max" not in settings


def test_kubernetes_starts_with_the_first_size() -> None:
    """In its namespace, from its image, and a jump to the maximum is one round."""
    settings = engine_settings(SPEC, PLACES[2])
    assert settings["spark.master"] == "k8s://https://k8s:6443"
    assert settings["spark.kubernetes.namespace"] == "streams"
    assert settings["spark.kubernetes.container.image"] == "registry/penstock:1"
    assert settings["spark.kubernetes.authenticate.driver.serviceAccountName"] == "spark"
    assert settings["spark.kubernetes.executor.request.cores"] == "2"
    assert settings["spark.kubernetes.allocation.batch.size"] == "8"
    assert settings["spark.executor.instances"] == "3"


def test_what_follows_from_the_description_cannot_be_set() -> None:
    """Two truths about one size would end in a surprise."""
    spec = EngineSpec("clicks", settings={"spark.cores.max": "99", "spark.dynamicAllocation.enabled": "true"})
    with pytest.raises(ClusterError, match=r"engine clicks: spark.cores.max, spark.dynamicAllocation.enabled follow"):
        engine_settings(spec, Yarn())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EngineSpec(" "), "needs a name"),
        (lambda: EngineSpec("x", cores=0), "0 cores"),
        (lambda: EngineSpec("x", memory="much"), "memory 'much'"),
        (lambda: EngineSpec("x", memory_overhead="1"), "memory_overhead '1'"),
        (lambda: EngineSpec("x", release_within_s=0), "at least 1 s"),
        (lambda: Standalone("127.0.0.1:7077"), "write spark://HOST:PORT"),
        (lambda: Yarn(deploy_mode="remote"), "client or cluster"),
        (lambda: Kubernetes("k8s:6443", "image"), "write https://HOST:PORT"),
        (lambda: Kubernetes("https://k8s:6443", ""), "needs an image"),
    ],
)
def test_an_engine_that_cannot_be_is_refused(build: object, message: str) -> None:
    """By the part that is wrong."""
    assert callable(build)
    with pytest.raises(ClusterError, match=message):
        build()
