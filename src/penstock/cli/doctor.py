"""``penstock doctor``."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table

CheckpointDirectory = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", help="Directory for checkpoints; default: the temporary directory."),
]


def command(*, checkpoint: CheckpointDirectory = None, as_json: AsJson = False) -> None:
    """Check that this machine has what Spark and Penstock need, and say how to mend what it lacks.

    The exit code is 1 if any check fails.

    For example:
      penstock doctor
      penstock doctor --checkpoint checkpoints/clicks
    """
    from penstock.cli.checks import Surroundings, checks, run_check  # noqa: PLC0415 - help runs no check

    surroundings = Surroundings() if checkpoint is None else Surroundings(checkpoint_directory=checkpoint)
    results = [run_check(check, surroundings) for check in checks]
    passed = all(result.passed for result in results)
    if as_json:
        rows = [
            {"check": result.name, "passed": result.passed, "found": result.found, "remedy": result.remedy}
            for result in results
        ]
        print_json({"passed": passed, "rows": rows})
    else:
        print_table(
            ("check", "", "found"),
            [(result.name, "ok" if result.passed else "FAILED", result.found) for result in results],
        )
        for result in results:
            if not result.passed:
                typer.echo(f"{result.name}: {result.remedy}")
    if not passed:
        raise typer.Exit(1)
