"""Who may ask what: no other site, no name that merely leads here, no change without the token."""

from __future__ import annotations

import hmac
import ipaddress
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping
    from typing import Any

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_READS = frozenset({"GET", "HEAD"})
_BEARER = "bearer "
_UNAUTHORIZED, _FORBIDDEN, _MISDIRECTED = 401, 403, 421

# Charts set styles of their own; nothing else of a page may come from elsewhere or be framed elsewhere.
_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let through."""

    status: int
    kind: str
    error: str


@dataclass(frozen=True, slots=True)
class Access:
    """What is let through.

    Parameters
    ----------
    token
        What a change needs. Without one there are no changes.
    names
        Host names by which the server may be called beside ``localhost``. Any address serves: a page of another site
        that has its own name lead here (DNS rebinding) still calls it by that name.
    reads_need_token
        Whether reading needs the token as well: wherever others than this machine can ask.
    open_paths
        Beginnings of paths that need no token to be read: the page itself, which asks for the token.

    Examples
    --------
    >>> access = Access(token="secret-of-this-machine")
    >>> access.refusal("GET", "/api/fleet", {"host": "127.0.0.1:8080"}) is None
    True
    >>> access.refusal("GET", "/api/fleet", {"host": "evil.example"}).status
    421
    >>> access.refusal("POST", "/api/goal", {"host": "localhost"}).status
    401
    """

    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()
    reads_need_token: bool = False
    open_paths: tuple[str, ...] = ()

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request is refused; None where it is not."""
        return self._of_host(headers) or self._of_site(method, headers) or self._of_token(method, path, headers)

    def _of_host(self, headers: Mapping[str, str]) -> Refusal | None:
        host = headers.get("host", "")
        if self._is_ours(host):
            return None
        return Refusal(
            _MISDIRECTED, "UnknownHost",
            f"this server does not go by the name {host!r}: call it by its address, or allow the name with "
            "--allow-host",
        )  # fmt: skip

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            ipaddress.ip_address(name)
        except ValueError:
            return bool(host) and _host_name(host) in {"localhost", *self.names}
        return True

    def _of_site(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            return Refusal(_FORBIDDEN, "OtherSite", f"a page of {origin!r} may not ask here: open Penstock's own page")
        # Browsers send this where they send no origin; following a link from elsewhere to the page is no attack.
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "")
        is_link = mode == "navigate" and method in _READS
        if site in {"cross-site", "same-site"} and not is_link:
            return Refusal(_FORBIDDEN, "OtherSite", "a page of another site may not ask here: open Penstock's own page")
        return None

    def _of_token(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        is_open = any(
            path == each or (len(each) > 1 and each.endswith("/") and path.startswith(each)) for each in self.open_paths
        )
        if method in _READS and (not self.reads_need_token or is_open):
            return None
        given = headers.get("authorization", "")
        token = given[len(_BEARER) :].strip() if given[: len(_BEARER)].lower() == _BEARER else ""
        if self.token is not None and hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        said = "the token is not this server's" if token else "this needs the token"
        return Refusal(
            _UNAUTHORIZED, "TokenNeeded",
            f"{said}: send 'Authorization: Bearer TOKEN' with the token that the server's token file holds",
        )  # fmt: skip


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


class GuardedApp:
    """An ASGI application behind an :class:`Access`; what it refuses never reaches the application."""

    def __init__(self, app: AsgiApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a refusal."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self.access.refusal(scope["method"], scope["path"], headers)
        if refused is not None:
            await _refuse(refused, send)
            return

        has_answered = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_answered
            has_answered = True
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_encoded(_HEADERS)]}
            await send(message)

        try:
            await self.app(scope, receive, send_guarded)
        except Exception:
            # An error that was answered and logged already comes out all the same; the server would close the
            # connection, and the next request of the same client would fail with it.
            if not has_answered:
                raise


async def _refuse(refused: Refusal, send: Send) -> None:
    body = json.dumps({"kind": refused.kind, "error": refused.error}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **_HEADERS}
    if refused.status == _UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    await send({"type": "http.response.start", "status": refused.status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": body})


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
