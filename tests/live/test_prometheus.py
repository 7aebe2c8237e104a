"""A real Prometheus scrapes the service, and Penstock reads back from it."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from penstock.bench.serve_load import write_history
from penstock.model import QueryName
from penstock.process.ports import free_port
from penstock.serve.prometheus import Prometheus
from penstock.serve.service import Service, open_engines
from serve_helpers import wait_for

PROMETHEUS = shutil.which("prometheus")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        PROMETHEUS is None, reason="there is no Prometheus: 'scripts/apt-install prometheus' as root installs it"
    ),
]


def is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").is_success
    except httpx.HTTPError:
        return False


def test_a_backlog_that_was_scraped_is_read_back(tmp_path: Path) -> None:
    """The value that the page shows comes back through PromQL, and the alert rules are loaded and evaluated."""
    write_history(tmp_path / "shop.db", queries=3, seconds=60.0, until_s=time.time())
    rules = (Path(__file__).parents[2] / "deploy" / "prometheus" / "penstock-alerts.yml").read_text(encoding="utf-8")
    (tmp_path / "rules.yml").write_text(rules, encoding="utf-8")
    port = free_port()
    engines = open_engines([tmp_path / "shop.db"])
    with Service(engines, token_file=tmp_path / "token") as service:
        config = (
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"
            "scrape_configs: [{job_name: penstock, static_configs: "
            f"[{{targets: ['127.0.0.1:{service.server.port}']}}]}}]\n"
        )
        (tmp_path / "prometheus.yml").write_text(config, encoding="utf-8")
        assert PROMETHEUS is not None
        started = subprocess.Popen(
            [PROMETHEUS, f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
        )  # fmt: skip
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                assert wait_for(lambda: is_up(client), within_s=40.0)
                source = Prometheus(f"http://127.0.0.1:{port}")
                row = next(row for row in service.fleet.models[0].rows.values() if row["query"] == "clicks-0000")
                name = QueryName("clicks-0000")
                assert wait_for(lambda: source.figures(name).backlog_rows is not None, within_s=40.0)
                assert source.figures(name).backlog_rows == pytest.approx(row["backlog_rows"])
                assert source.value('up{job="penstock"}') == 1.0
                groups = client.get("/api/v1/rules").json()["data"]["groups"]
                assert {rule["health"] for group in groups for rule in group["rules"]} <= {"ok", "unknown"}
                source.close()
        finally:
            started.terminate()
            started.wait(timeout=20)
    engines[0].store.close()
