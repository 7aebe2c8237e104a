"""``penstock bench overhead``, ``batch-overhead`` and ``sketch``: what guards, operators and sketches cost."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.console import AsJson, cell, print_json, print_table


def overhead(
    pairs: Annotated[int, typer.Option(min=1, max=99, help="How many pairs to run of each part.")] = 5,
    part: Annotated[list[str] | None, typer.Option(help="Run only this part; may be given several times.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare queries with a guard or an operator that drops nothing with the same queries without, in pairs.

    For example:
      penstock bench overhead --pairs 9 --json
      penstock bench overhead --part operator
    """
    from penstock.bench.overhead import PARTS, bench_overhead  # noqa: PLC0415 - imports Spark

    unknown = set(part or ()) - set(PARTS)
    if unknown:
        raise typer.BadParameter(f"part {min(unknown)!r} is not one of: {'; '.join(PARTS)}")
    results = bench_overhead(pairs=pairs, parts=part or PARTS, say=lambda text: typer.echo(text, err=True))
    if as_json:
        print_json({"bench": "overhead", "parts": [result.to_dict() for result in results]})
        return
    rows = [
        [result.part, str(number), f"{pair.bare_rows_per_s:,.0f}", f"{pair.with_rows_per_s:,.0f}", f"{pair.ratio:.3f}"]
        for result in results
        for number, pair in enumerate(result.pairs, start=1)
    ]
    print_table(["part", "pair", "bare, rows/s", "with, rows/s", "ratio"], rows)
    for result in results:
        figures = f"median {result.median_ratio:.3f} of the bare query"
        verdict = "met" if result.is_met else "missed"
        wanted = "" if result.least_ratio is None else f", at least {result.least_ratio:g} wanted: {verdict}"
        typer.echo(f"\n{result.part}: {figures}{wanted}")


def batch_overhead(
    rounds: Annotated[int, typer.Option(min=1, max=99, help="How many rounds to run.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare small batches of a query with guards with those of the same query without, in pairs of turns.

    For example:
      penstock bench batch-overhead --rounds 3 --json
    """
    from penstock.bench.batch_overhead import bench_batch_overhead  # noqa: PLC0415 - imports Spark

    result = bench_batch_overhead(rounds=rounds, say=lambda text: typer.echo(text, err=True))
    document = result.to_dict()
    if as_json:
        print_json(document)
        return
    rows = result.rows()
    print_table(list(rows[0]), [[cell(value) for value in row.values()] for row in rows])
    typer.echo("\n" + ", ".join(f"{name} {value}" for name, value in result.bustle.to_dict().items()))


def sketch(
    repeats: Annotated[int, typer.Option(min=1, max=10_000, help="How often each is run; the best counts.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Count how many rows a second one core learns costs from, looks costs up for, and decides on.

    For example:
      penstock bench sketch --json
    """
    from penstock.bench.sketch import bench_sketch  # noqa: PLC0415 - compiles

    found = bench_sketch(repeats=repeats)
    if as_json:
        rows = [{"what": name, "million_rows_per_s": round(rate, 2)} for name, rate in found.items()]
        print_json({"bench": "sketch", "repeats": repeats, "rows": rows})
        return
    print_table(["what", "million rows/s"], [[name, f"{rate:.1f}"] for name, rate in found.items()])
