"""Browsers: which pages may talk to the door.

None, unless they are named. A page can make a browser send requests anywhere, also to a server on
its user's own machine: what says it comes from another site is refused, whatever it asks, and
where there is no authentication so is a name that only pretends to be this machine.
"""

from dataclasses import dataclass
from functools import lru_cache

from skep.errors import Forbidden

LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Origins:
    """``allowed`` are origins such as https://ops.example; ``hosts`` the names that this server
    answers to, or None for any."""

    allowed: frozenset[str] = frozenset()
    hosts: frozenset[str] | None = None

    def check(self, origin: bytes, host: bytes) -> None:
        if self.hosts is not None and host and _name(host) not in self.hosts:
            raise Forbidden("this server does not answer to that name; see --host in the docs")
        if origin and not self._is_allowed(origin) and not _is_own(origin, host):
            raise Forbidden("pages of other sites may not use this server; see cors_origins")

    def headers(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        """What tells a browser that the page at ``origin`` may read the answer."""
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


def _is_own(origin: bytes, host: bytes) -> bool:
    return origin.partition(b"://")[2] == host


@lru_cache(maxsize=256)
def _name(host: bytes) -> str:
    name, _, port = host.decode("latin-1").rpartition(":")
    return (name if port.isdigit() else host.decode("latin-1")).lower()
