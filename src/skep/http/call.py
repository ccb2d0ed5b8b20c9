"""One request as a handler sees it, and what it answers."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from skep.core.broker import Broker
from skep.http.access import Principal

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
    query: Any = None
    body: Any = None


@dataclass(frozen=True, slots=True)
class Reply:
    """``content`` becomes JSON, unless it is bytes already. None is no body at all."""

    content: Any = None
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = field(default=())
