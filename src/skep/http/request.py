"""A request as its handler gets it, and the response."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import msgspec

from skep.core.broker import Broker
from skep.errors import Unauthenticated
from skep.http.auth.principal import Permission, Principal
from skep.http.process.server_info import ServerInfo
from skep.model.lease_id import is_bound
from skep.model.name import LeaseId
from skep.wire.field_path import Origins

Scope: TypeAlias = MutableMapping[str, Any]
Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

JSON = b"application/json"
WHOLE_RESPONSE = "skep.response"
"""The scope's extension that sends a whole response at once, if the server has it: ``send`` takes
the status, the encoded headers and the body, and returns whether it sent them."""


class HttpRequest(msgspec.Struct):
    """A request with its route. ``query`` and ``body`` have the types that the route declares."""

    broker: Broker
    principal: Principal
    params: dict[str, str]
    receive: Receive
    server_info: ServerInfo
    authenticate: Callable[[], Awaitable[Principal]]
    """Verify the credentials of the request again."""
    query: Any = None
    body: Any = None
    origins: Callable[[], Origins] = dict
    """Where the arguments of the core came from; called if the core raises ``Invalid``."""

    def holds(self, lease_id: LeaseId) -> bool:
        """Whether a lease, if it is still held, was taken by this caller."""
        holder = self.principal.holder
        return holder is None or is_bound(lease_id, holder)

    def may(self, permission: Permission) -> bool:
        return permission in self.principal.permissions

    async def authorize(self) -> None:
        """Raise if the caller's credential has expired, was revoked or changed meanwhile."""
        if await self.authenticate() != self.principal:
            raise Unauthenticated("the permissions of this credential have changed; retry")


class HttpResponse(msgspec.Struct, frozen=True):
    """``content`` becomes JSON unless it is bytes. None means no body; an asynchronous generator is
    sent in pieces."""

    content: Any = None
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
