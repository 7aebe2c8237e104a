"""``penstock bench size``: the smallest heap of a live engine, and what the policies come to from wrong ones."""

from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table

_COLUMNS = (
    "name", "first_heap_mb", "last_heap_mb", "optimum_heap_mb", "heap_over_optimum", "last_memory_mb",
    "memory_over_optimum", "heap_steps_down", "memory_steps_down", "oscillations", "right_size_s", "gc_after",
    "is_exact",
)  # fmt: skip


def size(
    window_s: Annotated[
        float, typer.Option("--window", min=2, max=60, help="Length of a window of the policies, in seconds.")
    ] = 6.0,
    as_json: AsJson = False,
) -> None:
    """Search the smallest heap that a live query can do with, and let the policies find one from both sides.

    On a Standalone cluster of its own. The query keeps its state in RocksDB and looks rows up in a cached table. One
    engine begins with a third of the smallest heap, one with three times of it; rows are counted at the end. Takes
    about a quarter of an hour.

    For example:
      penstock bench size --json
    """
    from penstock.bench.size import SizeSetting, bench_size  # noqa: PLC0415 - imports Spark

    result = bench_size(SizeSetting(window_s=window_s), say=lambda text: typer.echo(text, err=True))
    document = result.to_dict()
    if as_json:
        print_json(document)
        return
    print_table(list(_COLUMNS), [[_text(row[name]) for name in _COLUMNS] for row in document["rows"]])
    typer.echo(f"\nload of the machine: {document['load_average']:.1f}")


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
