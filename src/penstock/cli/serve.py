"""``penstock serve``."""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import SettingsPath
from penstock.extras import require

if TYPE_CHECKING:
    from types import FrameType


def command(
    *,
    store: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Store, or directory of stores (*.db); may be given several times."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes any that is free.")] = 8350,
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond loopback, reading needs the token as well.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Host name by which it may be called, beside addresses.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Token that changes need; default: beside the first store.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File that instances share to agree on a leader; default: beside the store."),
    ] = None,
    lease: Annotated[
        float, typer.Option(min=0.5, max=600, help="Seconds after which a standby takes over from a dead leader.")
    ] = 6.0,
    settings: SettingsPath = None,
) -> None:
    """Serve the dashboard, the HTTP API and /metrics over one or several stores: of a run that goes on, or has ended.

    Goals can be changed for applications that serve as well (pen.serve(), or [dashboard] port): wishes are forwarded to
    them. Several instances with the same --state agree on a leader that does so.

    For example:
      penstock serve --store penstock.db
      penstock serve --store /var/lib/penstock --port 8350
      penstock serve --store a.db --store b.db --host 0.0.0.0 --allow-host penstock.lan
    """
    require("serve", "serve")
    from penstock.serve.service import Service, open_engines  # noqa: PLC0415 - the extra may be absent

    engines = open_engines(store or [_default_store(settings)])
    try:
        first = engines[0].store.path  # type: ignore[attr-defined] # opened from files
        service = Service(
            engines,
            token_file=token_file or first.with_name(f"{first.name}.token"),
            host=host,
            port=port,
            names=allow_host or (),
            state_file=state or first.with_name(f"{first.name}.service"),
            lease_s=lease,
        )
        with service:
            typer.echo(f"dashboard: {service.page_url}")
            typer.echo(f"metrics:   {service.url}/metrics   API: {service.url}/api/openapi.json", err=True)
            typer.echo("end with Ctrl-C", err=True)
            _wait()
    finally:
        for engine in engines:
            engine.store.close()


def _default_store(settings: Path | None) -> Path:
    import os  # noqa: PLC0415 - for this alone

    from penstock.settings import load_settings  # noqa: PLC0415 - help must not wait for it

    return Path(load_settings(settings, environment=os.environ).store.path)


def _wait() -> None:
    """Wait for Ctrl-C or a polite kill."""
    ended = threading.Event()

    def end(_number: int, _frame: "FrameType | None") -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not ended.wait(3600.0):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
