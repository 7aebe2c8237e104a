"""``penstock bench reshape``: a larger heap while the query runs, and by a restart beside it."""

from typing import Annotated

import typer

from penstock.console import AsJson, print_json, print_table

_COLUMNS = (
    "way", "heap_before_mb", "heap_after_mb", "took_s", "downtime_s", "usual_batch_s", "usual_after_s",
    "longest_batch_s", "rows", "is_exact", "runs", "failed_tasks", "gc_before", "gc_after",
)  # fmt: skip


def reshape(
    only: Annotated[
        str | None, typer.Option("--only", metavar="WAY", help="One of 'reshape' and 'restart'; both by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give an executor whose heap is too small three times as much, without a restart and with one.

    On a Standalone cluster of its own. The query keeps its state in RocksDB, a cached table fills the heap, and garbage
    collection takes a large part of the time; rows are counted at the end.

    For example:
      penstock bench reshape --json
    """
    if only not in (None, "reshape", "restart"):
        raise typer.BadParameter("write 'reshape' or 'restart'", param_hint="'--only'")
    from penstock.bench.reshape import bench_reshape  # noqa: PLC0415 - imports Spark

    parts = ("reshape", "restart") if only is None else (only,)
    rows = [part.to_dict() for part in bench_reshape(parts=parts, say=lambda text: typer.echo(text, err=True))]
    if as_json:
        print_json({"bench": "reshape", "rows": rows})
        return
    print_table(list(_COLUMNS), [[_text(row[name]) for name in _COLUMNS] for row in rows])
    for row in rows:
        if row["reason"]:
            typer.echo(f"\n{row['policy']}: {row['reason']}")


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
