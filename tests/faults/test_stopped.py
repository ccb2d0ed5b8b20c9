"""Servers that are told to stop under load, one after the other, and started again.

What is under way is finished and who waits is answered; a client that tries again notices nothing.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from skep import Ack, AsyncClient, Delivery, Draft, Push
from skep.errors import SkepError
from tests.support.faults.persistent_producers import PATIENT, Load, everything
from tests.support.faults.store_servers import KINDS, clients_of, start_servers
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("killed")

STOPS = int(os.environ.get("SKEP_KILLS", "2"))
BETWEEN = 200
"""Messages that are answered between two stops: so each finds the server at work."""
LONGEST_END = 10
LEASE_SECONDS = 600
"""Nobody is late: what comes twice came twice because something was lost."""


@pytest.fixture(params=[*KINDS, "workers"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[ServerProcess]]:
    with start_servers(request.param, tmp_path) as servers:
        yield servers


class Consumers:
    """Each goes to the next server with each request, and is told nothing of stops."""

    def __init__(self, clients: list[AsyncClient]) -> None:
        self._clients = clients
        self._turn = 0
        self.ending = False
        self.read: dict[str, list[str]] = defaultdict(list)
        self.errors: list[SkepError] = []

    def _client(self) -> AsyncClient:
        self._turn += 1
        return self._clients[self._turn % len(self._clients)]

    async def acknowledge(self) -> None:
        await self._consume("readers", self._ack)

    async def move(self) -> None:
        """To another queue, in transactions."""
        await self._consume("movers", self._transact)

    async def wait_in_vain(self) -> None:
        while True:
            try:
                assert await self._client().pop("rare", wait=30) is None
            except SkepError as error:
                self.errors.append(error)

    async def _consume(self, group: str, settle: Callable[[Delivery], Awaitable[object]]) -> None:
        """Until the end; then until there is nothing left."""
        while True:
            ending = self.ending
            try:
                delivery = await self._client().pop(
                    "orders", group=group, batch=20, wait=1, lease_seconds=LEASE_SECONDS
                )
                if delivery:
                    await settle(delivery)
                elif ending:
                    return
            except SkepError as error:
                self.errors.append(error)

    async def _ack(self, delivery: Delivery) -> None:
        for message in delivery.messages:
            self.read[message.partition].append(message.payload.decode())
        await self._client().ack(delivery)

    async def _transact(self, delivery: Delivery) -> None:
        lease = delivery.lease_id or ""
        copies = [Draft(message.payload, message.partition) for message in delivery.messages]
        await self._client().transact([Ack(lease), Push("moved", copies)], idempotency_key=lease)


async def test_clients_that_try_again_see_no_error_and_nothing_is_lost_or_doubled(
    servers: list[ServerProcess],
) -> None:
    loads = [Load(server.url) for server in servers]
    ends: list[tuple[int, bool]] = []
    async with clients_of(servers, PATIENT) as clients, asyncio.TaskGroup() as work:
        consumers = Consumers(clients)
        waiting = work.create_task(consumers.wait_in_vain())
        for consume in (consumers.acknowledge, consumers.move):
            work.create_task(consume())
            work.create_task(consume())
        for number in range(4):
            work.create_task(loads[number % len(loads)].produce(number))

        for turn in range(STOPS):
            await loads[turn % len(loads)].until((turn // len(loads) + 1) * BETWEEN)
            ends.append(await stop_and_start(servers[turn % len(servers)]))
        for load in loads:
            await load.until(load.total() + BETWEEN)
            load.stop()
        consumers.ending = True
        waiting.cancel()

    answered = {name: values for load in loads for name, values in load.answered.items()}
    assert ends == [(0, True)] * STOPS
    assert [*consumers.errors, *(error for load in loads for error in load.errors)] == []
    assert consumers.read == answered
    assert await everything(servers[0].url) == answered
    assert await everything(servers[-1].url, "moved") == answered


async def stop_and_start(server: ServerProcess) -> tuple[int, bool]:
    """The exit code of a server that was told to stop, and whether it was quick."""
    begin = time.monotonic()
    code = await asyncio.to_thread(server.end)
    quick = time.monotonic() - begin < LONGEST_END
    await asyncio.to_thread(server.start)
    return code, quick
