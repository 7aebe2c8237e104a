"""``penstock bench serve``."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table
from penstock.extras import require


def serve(
    queries: Annotated[int, typer.Option(min=0, help="Queries of the fleet; 0 leaves this part out.")] = 1000,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long the fleet is watched.")] = 60.0,
    actions: Annotated[
        int, typer.Option(min=0, help="Actions of the large store; 0 leaves this part out.")
    ] = 1_000_000,
    points: Annotated[int, typer.Option(min=1, help="Observations of the large store.")] = 10_000_000,
    kills: Annotated[int, typer.Option(min=0, help="Leaders that are killed; 0 leaves this part out.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Measure the service: CPU, memory and time to an interactive page, answers over a large store, killed leaders.

    For example:
      penstock bench serve --queries 1000 --actions 0 --kills 0 --json
    """
    require("serve", "bench serve")
    from penstock.bench.serve import bench_fleet, bench_kills, bench_large, plain  # noqa: PLC0415 - the extra may be absent

    document: dict[str, object] = {"bench": "serve"}
    with tempfile.TemporaryDirectory() as directory:
        for part in ("fleet", "large", "kills"):
            (Path(directory) / part).mkdir()
        if queries:
            document["fleet"] = plain(bench_fleet(Path(directory) / "fleet", queries=queries, seconds=seconds))
        if actions:
            document["large"] = bench_large(Path(directory) / "large", actions=actions, points=points)
        if kills:
            document["kills"] = plain(bench_kills(Path(directory) / "kills", kills=kills, lease_s=6.0))
    if as_json:
        print_json(document)
        return
    for part in ("fleet", "kills"):
        found = document.get(part)
        if isinstance(found, dict):
            print_table([part, ""], [[name, str(value)] for name, value in found.items()])
    large = document.get("large")
    if isinstance(large, list):
        print_table(
            ["asked", "slowest, s", "CPU of the command, s"], [[str(value) for value in row.values()] for row in large]
        )
