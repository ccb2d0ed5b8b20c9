"""One request as a handler sees it, and what it answers."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from skep.core.broker import Broker
from skep.http.access import Permission, Principal
from skep.http.door import Door

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]

JSON = b"application/json"


@dataclass(slots=True)
class Call:
    """A request whose route is known. ``query`` and ``body`` are what the route declares."""

    broker: Broker
    principal: Principal
    params: dict[str, str]
    receive: Receive
    door: Door
    query: Any = None
    body: Any = None

    def may(self, permission: Permission) -> bool:
        return permission in self.principal.permissions


@dataclass(frozen=True, slots=True)
class Reply:
    """``content`` becomes JSON, unless it is bytes already. None is no body at all."""

    content: Any = None
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = field(default=())
