"""Who may ask what of a server inside another program."""

from __future__ import annotations

import pytest

from penstock.http import Access

TOKEN = "a-token-of-this-machine"  # noqa: S105 - of these tests alone
HERE = {"host": "127.0.0.1:8080"}
WITH_TOKEN = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:8080", "10.1.2.3:80", "penstock.lan:80"]
)
def test_addresses_and_known_names_are_let_in(host: str) -> None:
    """A server may be called by any address, by localhost and by the names that it was told."""
    access = Access(token=TOKEN, names=frozenset({"penstock.lan"}))
    assert access.refusal("GET", "/", {"host": host}) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "[", "a b"]
)
def test_other_names_are_not(host: str) -> None:
    """A name of somebody else that leads here is refused, so no page can rebind its own name to this server."""
    refused = Access(token=TOKEN).refusal("GET", "/", {"host": host})
    assert refused is not None
    assert (refused.status, refused.kind) == (421, "UnknownHost")
    assert "--allow-host" in refused.error


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_request_of_another_site_gets_through(method: str, headers: dict[str, str]) -> None:
    """With the right token too, no page of another site or another port reads or changes anything."""
    refused = Access(token=TOKEN).refusal(method, "/api/fleet", HERE | WITH_TOKEN | headers)
    assert refused is not None
    assert refused.status == 403


def test_a_link_from_elsewhere_opens_the_page_and_changes_nothing() -> None:
    """Following a link is let through; a form of another site that posts here is not."""
    link = HERE | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert Access(token=TOKEN).refusal("GET", "/", link) is None
    posted = Access(token=TOKEN).refusal("POST", "/api/goal", link | WITH_TOKEN)
    assert posted is not None
    assert posted.status == 403


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"authorization": f"Basic {TOKEN}"},
     {"authorization": "Bearer "}, {"authorization": "Bearer \u00e9"}],
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_no_change_without_the_right_token(method: str, headers: dict[str, str]) -> None:
    """Whatever is no read needs the token itself, as a bearer token."""
    refused = Access(token=TOKEN).refusal(method, "/api/goal", HERE | headers)
    assert refused is not None
    assert refused.status == 401
    assert "token file" in refused.error


def test_the_token_lets_changes_through() -> None:
    """With it, from the server's own page or from a program, a change passes."""
    access = Access(token=TOKEN)
    assert access.refusal("POST", "/api/goal", HERE | WITH_TOKEN) is None
    own = {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
    assert access.refusal("POST", "/api/goal", HERE | WITH_TOKEN | own) is None


def test_without_a_token_of_its_own_a_server_changes_nothing() -> None:
    """A server that only shows things takes no token for the right one, not even an empty one."""
    refused = Access().refusal("POST", "/api/goal", HERE | {"authorization": "Bearer "})
    assert refused is not None
    assert refused.status == 401


def test_where_others_can_ask_reading_needs_the_token_too() -> None:
    """Only what is open, the page that asks for the token, is read without it."""
    access = Access(token=TOKEN, reads_need_token=True, open_paths=("/", "/static/"))
    assert access.refusal("GET", "/", HERE) is None
    assert access.refusal("GET", "/static/page.css", HERE) is None
    assert access.refusal("GET", "/api/fleet", HERE) is not None
    assert access.refusal("GET", "/api/fleet", HERE | WITH_TOKEN) is None


def test_the_token_is_not_shown() -> None:
    """Whoever prints an Access does not print its token."""
    assert TOKEN not in repr(Access(token=TOKEN))
