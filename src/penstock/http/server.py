"""An ASGI application served from a thread, with an end that is waited for."""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
from typing import TYPE_CHECKING, Self

from penstock.errors import ServiceError
from penstock.extras import require

if TYPE_CHECKING:
    from penstock.http.access import AsgiApp

logger = logging.getLogger("penstock")

LOOPBACK = "127.0.0.1"

_STARTS_WITHIN_S, _ENDS_WITHIN_S = 10.0, 5.0
_OPEN_ANSWERS_MAY_TAKE_S = 1
"""Answers that never end by themselves (events) are cut off that long after the server is told to stop."""
_BACKLOG = 128


class HttpServer:
    """Serves an application on a thread of its own until it is stopped; a daemon thread, so it keeps no program alive.

    Parameters
    ----------
    app
        What answers.
    host
        Address to listen on; loopback, unless others are to reach it.
    port
        Port to listen on; 0 takes any that is free.

    Raises
    ------
    ServiceError
        If the port is taken or the address is not this machine's.
    """

    def __init__(self, app: AsgiApp, *, host: str = LOOPBACK, port: int = 0) -> None:
        require("serve", "serving pages", "uvicorn")
        import uvicorn  # noqa: PLC0415 - the extra may be absent

        self.host = host
        # Bound here and not in the thread: whoever asks for a taken port reads so at once.
        self._socket = _listening(host, port)
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False,
            timeout_graceful_shutdown=_OPEN_ANSWERS_MAY_TAKE_S,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="penstock-http", daemon=True)

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        shown = LOOPBACK if self.host in {"0.0.0.0", "::", ""} else self.host  # noqa: S104 - shown, not bound
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether requests are answered."""
        return self._thread.is_alive() and bool(self._server.started)

    def start(self) -> Self:
        """Answer requests from now on."""
        self._thread.start()
        waited = threading.Event()
        for _ in range(round(_STARTS_WITHIN_S / 0.02)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.02)
        if not self.is_running:
            self.stop()
            raise ServiceError(f"the server on {self.url} did not start: the log of Penstock has the reason")
        return self

    def stop(self) -> None:
        """Answer what is asked, take no more, and let the port go; stopping twice does nothing."""
        self._server.should_exit = True
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_ENDS_WITHIN_S)
        self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except Exception:
            logger.exception("the server on %s ended", self.url)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a server that listens there.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.5")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With the protocol named: the event loop sends at once (TCP_NODELAY) only where it knows that it is TCP, and
        # an answer of two parts would wait 40 ms for the receipt of the first.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            # A port whose last server just ended is free; one that is served now is still refused.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            bound.listen(_BACKLOG)
        except BaseException:
            bound.close()
            raise
    except (OSError, OverflowError) as error:
        raise ServiceError(
            f"cannot listen on {host}:{port} ({getattr(error, 'strerror', None) or error}): "
            "use another port, 0 for any that is free, or an address of this machine"
        ) from error
    return bound
