"""Short words for what the tests of the door are made of."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx

from skep import Broker
from skep.http.app import App
from skep.http.auth.principal import FULL_ACCESS, Permission, Principal
from skep.http.routes import all_routes
from skep.model.name import to_datetime
from skep.testing.clock import ManualClock

HERE = "http://localhost:6632"


@dataclass
class Badge:
    """An authenticator that believes everybody to be who the test says."""

    principal: Principal = field(default=FULL_ACCESS)

    async def authenticate(
        self, needs: Permission, authorization: bytes, api_key: bytes
    ) -> Principal:
        return self.principal


def somebody(*permissions: Permission, queues: tuple[str, ...] | None = None) -> Principal:
    """Who may do this and no more, in these queues only if any are named."""
    return Principal("somebody", frozenset(permissions), queues, id="key:somebody")


class Client:
    """Requests that say what they expect, and answers as what they hold."""

    def __init__(self, http: httpx.AsyncClient, badge: Badge) -> None:
        self._http = http
        self.badge = badge

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        return await self.ask("GET", path, status, params=_clean(query))

    async def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return await self.ask("POST", path, status, json=body)

    async def delete(self, path: str, status: int = 200, **query: Any) -> Any:
        return await self.ask("DELETE", path, status, params=_clean(query))

    async def ask(self, method: str, path: str, status: int = 200, **request: Any) -> Any:
        response = await self._http.request(method, path, **request)
        assert response.status_code == status, response.text
        assert not (response.is_success and _has_error(response)), response.text
        return response.json() if response.content else None

    async def text(self, path: str) -> str:
        response = await self._http.get(path)
        assert response.status_code == 200, response.text
        return response.text

    async def refused(self, method: str, path: str, field: str, **request: Any) -> None:
        """A request that is answered 400, with the field named that is to blame."""
        problem = await self.ask(method, path, 400, **request)
        assert problem["field"] == field, problem

    # What almost every test needs first.

    async def push(self, queue: str, *payloads: Any, **item: Any) -> list[dict[str, Any]]:
        items = [{"queue": queue, "payload": payload, **item} for payload in payloads]
        pushed: list[dict[str, Any]] = await self.post("/api/v1/push", {"items": items}, 201)
        return pushed

    async def pop(self, queue: str, **query: Any) -> dict[str, Any]:
        popped: dict[str, Any] = await self.get(f"/api/v1/pop/queue/{queue}", **query)
        return popped

    async def register(self, queue: str, group: str) -> None:
        """Let a group contact a queue without reading anything."""
        await self.get(f"/api/v1/pop/queue/{queue}/partition/none", status=204, consumerGroup=group)

    async def settle(self, popped: dict[str, Any], status: str, error: str | None = None) -> None:
        acks = [
            {
                "transactionId": message["transactionId"],
                "partitionId": message["partitionId"],
                "leaseId": message["leaseId"],
                "status": status,
                "error": error,
            }
            for message in popped["messages"]
        ]
        group = popped["consumerGroup"]
        await self.post("/api/v1/ack/batch", {"acknowledgments": acks, "consumerGroup": group})


@asynccontextmanager
async def open_client(broker: Broker) -> AsyncIterator[Client]:
    badge = Badge()
    app = App(broker, all_routes(), authenticator=badge)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as http:
        yield Client(http, badge)


def at(clock: ManualClock, seconds: float = 0) -> str:
    """The time, or a time so many seconds from it, as the wire has it."""
    return _text(to_datetime(clock.now()) + timedelta(seconds=seconds))


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _clean(query: dict[str, Any]) -> dict[str, Any]:
    """``from_`` is how Python spells ``from``, and ``status_`` is not the one that is expected."""
    return {name.rstrip("_"): value for name, value in query.items()}


def _has_error(response: httpx.Response) -> bool:
    if response.headers["content-type"] != "application/json" or not response.content:
        return False
    body = response.json()
    return isinstance(body, dict) and bool(body.get("error"))
