"""Jars from the cache, and what is said when they cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ArtifactError, EnvironmentCheckError
from penstock.kafka import artifacts
from penstock.kafka.artifacts import BROKER, CONNECTORS, Artifact, ArtifactSet, cache_directory, connector_set, resolved
from penstock.process.java import required_java

ONE = ArtifactSet("one", (Artifact("org.example", "thing", "1.0"),), transitive=False)


def test_a_set_in_the_cache_is_not_resolved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run where the directory of the set is there."""
    monkeypatch.setattr(artifacts, "_run_ivy", lambda *_: pytest.fail("Ivy was asked"))
    place = tmp_path / "jars" / "one"
    place.mkdir(parents=True)
    (place / "thing-1.0.jar").touch()
    assert resolved(ONE, tmp_path) == [place / "thing-1.0.jar"]


def test_a_failure_leaves_no_half_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was retrieved before the failure is gone, so that the next start tries again."""

    def fail(_: ArtifactSet, __: Path, target: Path) -> None:
        target.mkdir()
        (target / "thing-1.0.jar").touch()
        raise ArtifactError("the network went away")

    monkeypatch.setattr(artifacts, "_run_ivy", fail)
    with pytest.raises(ArtifactError, match="the network went away"):
        resolved(ONE, tmp_path)
    assert list((tmp_path / "jars").iterdir()) == []


def test_the_connector_is_four_jars_without_more() -> None:
    """Each jar is named with its version and nothing that it depends on comes along."""
    text = CONNECTORS["4.2.0"].module_file()
    assert text.count("<dependency ") == text.count('transitive="false"') == 4
    assert "default->master" in text
    assert "default->default" in BROKER.module_file()


def test_a_spark_without_a_known_connector_is_told() -> None:
    """The error names the version and the way out."""
    with pytest.raises(ArtifactError, match=r"no Kafka connector is known for Spark 9\.9\.9 .*spark\.jars\.packages"):
        connector_set("9.9.9")


def test_the_cache_is_where_the_user_keeps_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable of the desktop standard, else below the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory({}) == tmp_path / ".cache" / "penstock"
    assert cache_directory({"XDG_CACHE_HOME": "/elsewhere"}) == Path("/elsewhere/penstock")


@pytest.mark.parametrize(
    ("environment", "where"), [({"PATH": "/nowhere"}, "on PATH"), ({"JAVA_HOME": "/no"}, "JAVA_HOME=/no")]
)
def test_no_java_is_told(environment: dict[str, str], where: str) -> None:
    """With the place where it was looked for."""
    with pytest.raises(EnvironmentCheckError, match=f"no java .*{where}.*penstock doctor"):
        required_java(environment)
