"""Which web pages may call the server: only those that are allowed.

A page can make a browser send requests to any server, also to one on the user's own machine. So
requests from other sites are rejected, and without authentication also requests for a host name
that is not this server's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from skep.errors import Forbidden

_OWN_SITES = frozenset({b"none", b"same-origin"})
LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Origins:
    """``allowed`` are origins such as https://ops.example; ``hosts`` are this server's names, None
    for any."""

    allowed: frozenset[str] = frozenset()
    hosts: frozenset[str] | None = None

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host", b"")
        if self.hosts is not None and host and _name(host) not in self.hosts:
            raise Forbidden("this server does not serve that host name; see --host in the docs")
        origin = headers.get(b"origin", b"")
        if origin:
            is_ours = self._is_allowed(origin) or _is_own(origin, host)
        else:
            is_ours = self._is_fetch_ours(headers, host)
        if not is_ours:
            raise Forbidden("requests from pages of other sites are not allowed; see cors_origins")

    def _is_fetch_ours(self, headers: Mapping[bytes, bytes], host: bytes) -> bool:
        """Images, scripts, links and forms are requested without Origin. Browsers send their source
        in Sec-Fetch-Site, or, over plain http from another machine, in Referer at best."""
        site = headers.get(b"sec-fetch-site")
        if site in _OWN_SITES:
            return True
        referer = headers.get(b"referer", b"")
        if not referer:
            return site is None
        page = _origin_of(referer)
        return self._is_allowed(page) or (site is None and _is_own(page, host))

    def headers(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        """Headers that let the page at ``origin`` read the response."""
        if not self._is_allowed(origin):
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
            (b"access-control-allow-headers", b"Authorization, Content-Type, X-API-Key"),
            (b"access-control-max-age", b"86400"),
            (b"vary", b"Origin"),
        ]

    def _is_allowed(self, origin: bytes) -> bool:
        return origin.decode("latin-1") in self.allowed


def _origin_of(url: bytes) -> bytes:
    scheme, _, rest = url.partition(b"://")
    return scheme + b"://" + re.split(rb"[/?#]", rest, maxsplit=1)[0]


def _is_own(origin: bytes, host: bytes) -> bool:
    return origin.partition(b"://")[2] == host


@lru_cache(maxsize=256)
def _name(host: bytes) -> str:
    name, _, port = host.decode("latin-1").rpartition(":")
    return (name if port.isdigit() else host.decode("latin-1")).lower()
