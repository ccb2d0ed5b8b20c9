"""A door to a broker in memory, on a clock that the test sets, and a hand that knocks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from skep import Broker
from skep.http.app import App
from skep.http.auth.authenticator import AllowAll
from skep.http.routes import all_routes
from skep.http.routing import Route
from skep.store.open import open_store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import make_broker

JSON = dict[str, Any]


class HttpCaller:
    """Speaks HTTP to the door, and shows what it answers."""

    def __init__(self, broker: Broker, clock: ManualClock, http: httpx.AsyncClient) -> None:
        self.broker = broker
        self.clock = clock
        self.http = http

    async def post(self, path: str, body: Any = None, *, expect: int = 200) -> Any:
        content = None if body is None else body if isinstance(body, bytes) else None
        answer = await self.http.post(
            path, content=content, json=None if content is not None else body
        )
        assert answer.status_code == expect, answer.text
        return answer.json() if answer.content else None

    async def get(self, path: str, *, expect: int = 200, **query: Any) -> Any:
        answer = await self.http.get(path, params=query)
        assert answer.status_code == expect, answer.text
        return answer.json() if answer.content else None

    async def push(self, queue: str, *payloads: Any, **more: Any) -> list[JSON]:
        items = [{"queue": queue, "payload": payload, **more} for payload in payloads]
        pushed: list[JSON] = await self.post("/api/v1/push", {"items": items}, expect=201)
        return pushed

    async def pop(self, queue: str, **query: Any) -> JSON | None:
        answer = await self.http.get(f"/api/v1/pop/queue/{queue}", params=query)
        assert answer.status_code in (200, 204), answer.text
        popped: JSON | None = answer.json() if answer.content else None
        return popped


def acks_of(popped: JSON, status: str = "completed") -> list[JSON]:
    return [
        {
            "transactionId": message["transactionId"],
            "partitionId": message["partitionId"],
            "leaseId": message["leaseId"],
            "status": status,
        }
        for message in popped["messages"]
    ]


@asynccontextmanager
async def open_memory_app(routes: Sequence[Route] | None = None) -> AsyncIterator[HttpCaller]:
    clock = ManualClock()
    broker = make_broker(open_store("memory://", clock=clock))
    async with broker:
        app = App(broker, routes or all_routes(), authenticator=AllowAll())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            yield HttpCaller(broker, clock, http)
