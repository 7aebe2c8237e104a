"""A real Prometheus scrapes the service, and Penstock reads back from it."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from patience import PATIENCE_S, wait_for
from penstock.bench.serve_load import write_history
from penstock.model import QueryName
from penstock.process.ports import free_port
from penstock.serve.prometheus import NODE_CPU, Prometheus
from penstock.serve.service import Service, open_engines
from penstock.spark.prometheus import prometheus_figure

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMETHEUS, NODE_EXPORTER = shutil.which("prometheus"), shutil.which("prometheus-node-exporter")
CORES_IN_USE = 'sum(rate(node_cpu_seconds_total{mode!="idle"}[10s]))'

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        PROMETHEUS is None, reason="there is no Prometheus: 'scripts/apt-install prometheus' as root installs it"
    ),
]


def is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").is_success
    except httpx.HTTPError:
        return False


@contextmanager
def stopped_at_the_end(command: list[str]) -> Iterator[None]:
    """A server for as long as the block lasts."""
    started = subprocess.Popen(command)
    try:
        yield
    finally:
        started.terminate()
        started.wait(timeout=PATIENCE_S)


@contextmanager
def running_prometheus(place: Path, config: str) -> Iterator[httpx.Client]:
    """A Prometheus with this configuration, and a client of it."""
    assert PROMETHEUS is not None
    (place / "prometheus.yml").write_text(config, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    files = (f"--config.file={place / 'prometheus.yml'}", f"--storage.tsdb.path={place / 'data'}")
    with (
        stopped_at_the_end([PROMETHEUS, *files, f"--web.listen-address={address}", "--log.level=error"]),
        httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=PATIENCE_S) as client,
    ):
        assert wait_for(lambda: is_up(client))
        yield client


def test_a_backlog_that_was_scraped_is_read_back(tmp_path: Path) -> None:
    """The value that the page shows comes back through PromQL, and the alert rules are loaded and evaluated."""
    write_history(tmp_path / "shop.db", queries=3, seconds=60.0, until_s=time.time())
    rules = (Path(__file__).parents[2] / "deploy" / "prometheus" / "penstock-alerts.yml").read_text(encoding="utf-8")
    (tmp_path / "rules.yml").write_text(rules, encoding="utf-8")
    engines = open_engines([tmp_path / "shop.db"])
    with Service(engines, token_file=tmp_path / "token") as service:
        config = (
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"
            "scrape_configs: [{job_name: penstock, static_configs: "
            f"[{{targets: ['127.0.0.1:{service.server.port}']}}]}}]\n"
        )
        with running_prometheus(tmp_path, config) as client:
            source = Prometheus(str(client.base_url))
            row = next(row for row in service.fleet.models[0].rows.values() if row["query"] == "clicks-0000")
            name = QueryName("clicks-0000")
            assert wait_for(lambda: source.figures(name).backlog_rows is not None)
            assert source.figures(name).backlog_rows == pytest.approx(row["backlog_rows"])
            assert source.value('up{job="penstock"}') == 1.0
            groups = client.get("/api/v1/rules").json()["data"]["groups"]
            assert {rule["health"] for group in groups for rule in group["rules"]} <= {"ok", "unknown"}
            source.close()
    engines[0].store.close()


@pytest.mark.skipif(
    NODE_EXPORTER is None,
    reason="there is no node exporter: 'scripts/apt-install prometheus-node-exporter' as root installs it",
)
def test_how_busy_a_host_is_comes_from_its_node_exporter(tmp_path: Path) -> None:
    """Cores in use, as a fleet asks for them, are some; their part of all cores is a part."""
    assert NODE_EXPORTER is not None
    port = free_port()
    config = (
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: node, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
    )
    only_cpu = ("--collector.disable-defaults", "--collector.cpu")
    with (
        stopped_at_the_end([NODE_EXPORTER, f"--web.listen-address=127.0.0.1:{port}", *only_cpu, "--log.level=error"]),
        running_prometheus(tmp_path, config) as client,
    ):
        host_busy_cores = prometheus_figure(str(client.base_url), CORES_IN_USE)
        assert wait_for(lambda: host_busy_cores() is not None)
        assert (host_busy_cores() or 0.0) > 0.0
        source = Prometheus(str(client.base_url))
        assert 0.0 <= (source.value(NODE_CPU) or 0.0) <= 1.0
        source.close()
