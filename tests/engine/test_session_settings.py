"""Settings of Spark for every kind of engine, with fair pools."""

from __future__ import annotations

import os

import pytest

from penstock.cluster.engine_settings import engine_settings
from penstock.engine.session import cluster_spec, local_settings, pin_to, place_of
from penstock.errors import FleetError
from penstock.fleet_declaration import EngineDeclaration

PLACES = {
    "standalone": ({"master": "spark://10.0.0.1:7077"}, "spark://10.0.0.1:7077"),
    "yarn": ({"queue": "streams"}, "yarn"),
    "kubernetes": ({"api_server": "https://10.0.0.1:6443", "image": "penstock:1"}, "k8s://https://10.0.0.1:6443"),
}


@pytest.mark.parametrize("kind", PLACES)
def test_every_kind_has_its_place_and_fair_pools(kind: str) -> None:
    """The declaration of an engine becomes Spark's settings for its master, size, pools and module paths."""
    place, master = PLACES[kind]
    declared = EngineDeclaration(
        "far", kind, place=place, executors=2, executor_cores=3, executor_memory="2g", modules=("/srv/apps",),
        spark={"spark.sql.shuffle.partitions": "6"},
    )  # fmt: skip
    settings = engine_settings(cluster_spec(declared), place_of(declared))
    assert settings["spark.master"] == master
    assert settings["spark.scheduler.mode"] == "FAIR"
    assert settings["spark.executor.cores"] == "3"
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.executorEnv.PYTHONPATH"].split(os.pathsep)[-1] == "/srv/apps"
    assert settings["spark.sql.shuffle.partitions"] == "6"


def test_a_local_engine_has_slots_and_loopback() -> None:
    """A local engine has as many slots as cores, and listens to nobody else."""
    settings = local_settings(EngineDeclaration("left", cores=2, pin=(0, 1), jars=("a.jar", "b.jar")))
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.jars"] == "a.jar,b.jar"


def test_a_core_that_is_not_there_is_told() -> None:
    """An engine cannot be pinned to a core that its process may not use."""
    with pytest.raises(FleetError, match=r"cannot be pinned to core 4096.*change pin of \[engines.left\]"):
        pin_to(EngineDeclaration("left", pin=(4096,)))
