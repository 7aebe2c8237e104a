"""Jars from the cache, and what is said when they cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ArtifactError, EnvironmentCheckError
from penstock.extras import require_spark
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


@pytest.mark.parametrize("version", ["4.2.0", "4.2.1", "4.2.10", "4.2.1.dev0"])
def test_every_supported_spark_has_a_connector(version: str) -> None:
    """Whatever the package can be installed with has one: that of its own version, else of the nearest."""
    require_spark(version)
    assert connector_set(version) is CONNECTORS["4.2.0"]


def test_the_newest_connector_of_the_same_line_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """By numbers and not by letters, and never one of another line, also where that is nearer."""
    names = ("4.2.0", "4.2.9", "4.2.10", "4.3.0")
    monkeypatch.setattr(artifacts, "CONNECTORS", {name: ArtifactSet(name, (), transitive=False) for name in names})
    assert [connector_set(name).name for name in ("4.2.9", "4.2.5", "4.2.11")] == ["4.2.9", "4.2.10", "4.2.10"]
    for other in ("4.1.9", "4.4.0", "5.2.0"):
        with pytest.raises(ArtifactError, match=other):
            connector_set(other)


def test_no_spark_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs one."""
    monkeypatch.setattr(artifacts, "spark_version", lambda: None)
    with pytest.raises(ArtifactError, match=r"no PySpark .*pip install"):
        connector_set()


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
