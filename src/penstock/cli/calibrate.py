"""``penstock calibrate``."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table, short_number


def command(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the figures go.")] = Path(
        "calibration.json"
    ),
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Executors to start and release.")] = 5,
    batches: Annotated[int, typer.Option(min=2, max=500, help="Batches to time for each of two sizes.")] = 12,
    as_json: AsJson = False,
) -> None:
    """Measure on live Spark how long executors take to come and go and what batches cost, for simulations.

    A Standalone cluster is started for it and gone afterwards. It takes one to five minutes; nothing else should run.

    For example:
      penstock calibrate
      penstock calibrate --repeats 10 --output here.json --json
    """
    import json  # noqa: PLC0415 - help must not wait for it

    from penstock.cluster.calibrate import calibrate  # noqa: PLC0415 - imports Spark
    from penstock.errors import ClusterError  # noqa: PLC0415 - as above

    if not output.absolute().parent.is_dir():
        raise ClusterError(f"{output} cannot be written: there is no directory {output.absolute().parent}")
    figures = calibrate(repeats=repeats, batches=batches, say=lambda text: typer.echo(text, err=True)).to_dict()
    output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_json({"file": str(output), **figures})
        return
    shown = [[key, short_number(value) if isinstance(value, int | float) else value] for key, value in figures.items()]
    print_table(["figure", "value"], shown)
    typer.echo(f"\nwritten to {output}")
