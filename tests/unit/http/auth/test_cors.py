"""Requests that a browser makes without an Origin: which pages may cause them."""

import pytest

from skep.errors import Forbidden
from skep.http.auth.cors import Origins

HOST = b"localhost:6632"
ORIGINS = Origins(allowed=frozenset({"https://ops.example"}))


def headers(site: bytes | None, referer: bytes | None) -> dict[bytes, bytes]:
    given = {b"host": HOST, b"sec-fetch-site": site, b"referer": referer}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    ("site", "referer"),
    [
        (None, None),
        (b"none", None),
        (b"same-origin", b"http://localhost:6632/docs"),
        (None, b"http://localhost:6632/docs"),
        (None, b"https://ops.example/page"),
        (b"cross-site", b"https://ops.example/page"),
    ],
)
def test_own_pages_and_allowed_pages_may_ask(site: bytes | None, referer: bytes | None) -> None:
    ORIGINS.check(headers(site, referer))


@pytest.mark.parametrize(
    ("site", "referer"),
    [
        (b"cross-site", None),
        (b"same-site", None),
        (b"same-site", b"http://localhost:3000/"),
        (None, b"https://evil.example/"),
        (None, b"https://evil.example/?http://localhost:6632"),
        (b"cross-site", b"http://localhost:6632/"),
    ],
)
def test_pages_of_other_sites_may_not_ask(site: bytes | None, referer: bytes | None) -> None:
    with pytest.raises(Forbidden):
        ORIGINS.check(headers(site, referer))
