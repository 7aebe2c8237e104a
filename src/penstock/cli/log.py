"""``penstock log``."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import SettingsPath, StorePath, open_store, parse_moment_s
from penstock.console import AsJson, print_json, print_json_line, print_json_rows, print_table
from penstock.model import ActionKind, RecordedAction
from penstock.report.log import DEFAULT_LAST, HEAD, LogFilter, LogView, cells
from penstock.report.text import APPLICATION_NAME, asked_name

if TYPE_CHECKING:
    from penstock.store import Store

POLL_INTERVAL_S = 0.5

_MOMENT_HELP = (
    "a local time such as 2026-01-05T10:00:00, how long ago such as '10 minutes', or seconds since the epoch."
)


def command(
    *,
    query: Annotated[
        str | None,
        typer.Option("--query", "-q", metavar="NAME", help=f"Only this query, or '{APPLICATION_NAME}' as a whole."),
    ] = None,
    kind: Annotated[
        list[ActionKind] | None,
        typer.Option("--kind", "-k", metavar="KIND", help=f"Only these kinds, repeatable: {', '.join(ActionKind)}."),
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Not before: {_MOMENT_HELP}")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Not after; written as for --since.")] = None,
    last: Annotated[
        int, typer.Option("--last", "-n", min=0, metavar="NUMBER", help="The newest so many actions; 0 for all.")
    ] = DEFAULT_LAST,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with new actions as they come; with --json, one object a line."),
    ] = False,
    as_json: AsJson = False,
    store: StorePath = None,
    settings: SettingsPath = None,
) -> None:
    """Show what was decided, when, and why.

    For example:
      penstock log --query clicks --since '10 minutes'
      penstock log --kind infeasible --kind fault --last 5
      penstock log --follow --json | jq .reason
    """
    now_s = time.time()
    wanted = LogFilter(
        query=None if query is None else asked_name(query),
        kinds=tuple(kind or ()),
        since_s=None if since is None else parse_moment_s(since, now_s=now_s, option="--since"),
        until_s=None if until is None else parse_moment_s(until, now_s=now_s, option="--until"),
        last=last,
    )
    with open_store(store, settings) as opened:
        if follow:
            _follow(opened, wanted, as_json=as_json)
        else:
            _show(opened, wanted, opened.path, as_json=as_json)


def _show(store: "Store", wanted: LogFilter, path: Path, *, as_json: bool) -> None:
    if as_json and not wanted.last:
        print_json_rows({"older_exist": False}, (entry.to_dict() for entry in wanted.each(store)))
        return
    if not wanted.last:
        # Line by line: a table has to have all rows before its first line can be written.
        number = 0
        for number, entry in enumerate(wanted.each(store), start=1):  # noqa: B007 - the last one tells how many
            typer.echo(_line(entry))
        if not number:
            typer.echo(f"no actions that match in {path}")
        return
    view = LogView.of(store, wanted)
    if as_json:
        print_json({"older_exist": view.older_exist, "rows": view.rows()})
        return
    if not view.entries:
        typer.echo(f"no actions that match in {path}")
        return
    print_table(HEAD, [cells(entry) for entry in view])
    if view.older_exist:
        typer.echo(f"the newest {wanted.last}; older ones exist, --last 0 shows all")


def _follow(store: "Store", wanted: LogFilter, *, as_json: bool) -> None:
    for entry in follow_actions(store, wanted):
        if as_json:
            print_json_line(entry.to_dict())
        else:
            typer.echo(_line(entry))


def _line(entry: RecordedAction) -> str:
    return "  ".join(cell for cell in cells(entry) if cell)


def follow_actions(
    store: "Store",
    wanted: LogFilter,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> Iterator[RecordedAction]:
    """Give the newest actions that match and then each new one, until ``until_s`` has passed."""
    seen_id = 0
    first_look = wanted.last
    while True:
        # The clock is read before the store: what is recorded between the two is seen by the next look or by this one.
        over = wanted.until_s is not None and now() > wanted.until_s
        fresh = wanted.read(store, last=first_look) if first_look else wanted.each(store, after_id=seen_id)
        for entry in fresh:
            seen_id = entry.action_id
            yield entry
        if over:
            return
        first_look = 0
        sleep(POLL_INTERVAL_S)
