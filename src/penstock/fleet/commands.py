"""What the commands of a fleet do: start its control process, talk to it, end everything."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.errors import AgentUnreachableError, FleetError
from penstock.fleet.client import ask
from penstock.fleet.control import CONTROL_FILE, ENGINES, TOKEN_FILE
from penstock.fleet.processes import believed_state, end_engine, find_control, find_engine, penstock_command
from penstock.fleet.status import FleetStatus
from penstock.http import token_at
from penstock.process.daemon import find_process, last_words_of, start_daemon

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.fleet_declaration import FleetDeclaration

_LOG = "control.log"
_LOOK_EVERY_S = 0.2
_DOWN_WITHIN_S = 120.0


def start_control(declaration: FleetDeclaration, directory: Path) -> FleetStatus:
    """Start the control process of a fleet, and wait until all its engines have answered."""
    if control_process(directory) is not None:
        raise FleetError(f"a fleet is up in {directory} already: 'penstock down' ends it, --dir names another place")
    directory.mkdir(0o700, parents=True, exist_ok=True)
    file = str(declaration.path.absolute())
    command = penstock_command("up", file, "--foreground", "--dir", str(directory))
    started = start_daemon(command, directory / _LOG)
    deadline_s = time.monotonic() + declaration.settings.agents.start_s + 30.0
    while time.monotonic() < deadline_s:
        if find_process(started.pid, started.started_s) is None:
            raise FleetError(f"the control process ended while it started: {last_words_of(directory / _LOG)}")
        with suppress(FleetError):
            status = fleet_status_of(directory)
            if all(engine.state == "up" for engine in status.engines):
                return status
        time.sleep(_LOOK_EVERY_S)
    raise FleetError(
        f"not all engines answered in time: 'penstock status' says which; logs are in {directory / ENGINES}"
    )


def fleet_status_of(directory: Path) -> FleetStatus:
    """How the fleet of a directory is doing."""
    return FleetStatus.from_dict(ask_control(directory, "GET", "/v1/fleet"))


def ask_control(directory: Path, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One question to the control process of a fleet."""
    import httpx  # noqa: PLC0415 - the extra may be absent

    tree = control_process(directory)
    if tree is None:
        raise FleetError(f"no fleet is up in {directory}: start one with 'penstock up FILE'")
    headers = {"Authorization": f"Bearer {token_at(directory / TOKEN_FILE)}"}
    with httpx.Client(base_url=tree["url"], headers=headers, trust_env=False) as client:
        return ask(client, f"the fleet in {directory}", method, path, body, timeout_s=10.0)


def control_process(directory: Path) -> dict[str, Any] | None:
    """What the control process of a directory wrote about itself; None where none runs."""
    tree = believed_state(directory / CONTROL_FILE)
    return None if tree is None or find_control(tree, directory) is None else tree


def stop_fleet(directory: Path) -> list[tuple[str, bool]]:
    """End control process and engines; gives the engines, and which of them took force."""
    tree = control_process(directory)
    running = {process.name: process for process in _engines(directory)}
    if tree is None and not running:
        raise FleetError(f"no fleet is up in {directory}: --dir names the directory that it was started with")
    if tree is not None:
        with suppress(AgentUnreachableError):
            ask_control(directory, "POST", "/v1/down")
        deadline_s = time.monotonic() + _DOWN_WITHIN_S
        while control_process(directory) is not None and time.monotonic() < deadline_s:
            time.sleep(_LOOK_EVERY_S)
        process = find_control(tree, directory)
        if process is not None:
            process.kill()
    # Those that the control process has ended are gone; these are of one that was killed.
    return [(name, process.is_running and end_engine(process)) for name, process in running.items()]


def _engines(directory: Path) -> list[Any]:
    places = sorted((directory / ENGINES).iterdir()) if (directory / ENGINES).is_dir() else []
    return [found for place in places if (found := find_engine(place.name, place)) is not None]
