"""Two servers on one PostgreSQL, killed in turn, while clients hop between them."""

import asyncio
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from skep import AsyncClient, Delivery, Draft
from skep.client.retry import Retry
from skep.errors import SkepError
from tests.support.faults.persistent_producers import Load, everything
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("killed")

KILLS = int(os.environ.get("SKEP_KILLS", "4"))
BETWEEN = 200
LEASE_SECONDS = 2
ONCE = Retry(attempts=1)


@pytest.fixture
def database() -> str:
    return databases().empty()


@pytest.fixture
def servers(database: str) -> Iterator[list[ServerProcess]]:
    with ServerProcess(database) as one, ServerProcess(database) as two:
        yield [one, two]


async def kill_in_turn(servers: list[ServerProcess], turn: int) -> None:
    server = servers[turn % len(servers)]
    await asyncio.to_thread(server.end, signal.SIGKILL)
    await asyncio.to_thread(server.start)


async def test_nothing_is_lost_doubled_or_reordered(servers: list[ServerProcess]) -> None:
    load = Load(*(server.url for server in servers))
    producers = [asyncio.create_task(load.produce(number)) for number in range(4)]

    for kill in range(KILLS):
        await load.until((kill + 1) * BETWEEN)
        await kill_in_turn(servers, kill)
    await load.until((KILLS + 1) * BETWEEN)
    load.stop()
    await asyncio.gather(*producers)

    assert await everything(servers[0].url) == load.answered


class Watch:
    """What consumers were given, and what must never be: two at once, or something left out."""

    def __init__(self) -> None:
        self.acked: set[tuple[str, int]] = set()
        self.given_out: set[tuple[str, int]] = set()
        self.finished = False
        self.wrong: list[str] = []
        self._held: dict[tuple[str, int], float] = {}
        self._next: dict[str, int] = defaultdict(int)

    def given(self, delivery: Delivery, asked_at: float) -> None:
        now = time.monotonic()
        for message in delivery.messages:
            place = message.partition, message.offset
            self.given_out.add(place)
            if self._held.get(place, 0) > now:
                self.wrong.append(f"{place} is held twice")
            if message.offset > self._next[message.partition]:
                self.wrong.append(f"{place} came before {self._next[message.partition]}")
            self._next[message.partition] = max(self._next[message.partition], message.offset + 1)
            # It was leased no earlier than it was asked for.
            self._held[place] = asked_at + LEASE_SECONDS

    def done(self, delivery: Delivery) -> None:
        for message in delivery.messages:
            place = message.partition, message.offset
            self.acked.add(place)
            self._held.pop(place, None)


async def hop(urls: list[str], watch: Watch, seed: int) -> None:
    """Pop at one server, acknowledge at another, whichever is there."""
    random = Random(seed)
    clients = [AsyncClient(url, retry=ONCE, timeout=5) for url in urls]
    while not watch.finished:
        asked_at = time.monotonic()
        with suppress(SkepError):
            delivery = await random.choice(clients).pop(
                "orders", group="g", batch=5, lease_seconds=LEASE_SECONDS, wait=1
            )
            if delivery is None:
                continue
            watch.given(delivery, asked_at)
            await random.choice(clients).ack(delivery)
            watch.done(delivery)
    for client in clients:
        await client.close()


async def test_consumers_hop_and_no_two_hold_the_same(servers: list[ServerProcess]) -> None:
    urls, total, watch = [server.url for server in servers], KILLS * 100, Watch()
    async with AsyncClient(urls[0]) as client:
        await client.push("orders", [Draft(b"%d" % n, f"p{n % 7}") for n in range(total)])
    consumers = [asyncio.create_task(hop(urls, watch, seed)) for seed in range(6)]

    for kill in range(KILLS):
        while len(watch.acked) < total * kill // KILLS:
            await asyncio.wait(consumers, timeout=0.05)
        await kill_in_turn(servers, kill)
    async with asyncio.timeout(60), AsyncClient(urls[0]) as client:
        # Not when all acks were answered: who was killed may have done what it did not answer.
        while sum(lag.backlog for lag in await client.groups.lag("orders", "g")):
            await asyncio.wait(consumers, timeout=0.1)
        watch.finished = True
        await asyncio.gather(*consumers)

    assert watch.wrong == []
    assert len(watch.given_out) == total


async def test_workers_share_a_port_and_one_that_dies_is_replaced(database: str) -> None:
    with ServerProcess(database, "--workers", "2") as server:
        async with AsyncClient(server.url) as client:
            await client.push("orders", [Draft(b"1")])
        children = _children(server.pid)
        os.kill(children[0], signal.SIGKILL)

        load = Load(server.url)
        producing = asyncio.create_task(load.produce(0))
        await load.until(BETWEEN)
        load.stop()
        await producing
        while len(replaced := _children(server.pid)) < 2 or children[0] in replaced:
            await asyncio.to_thread(time.sleep, 0.05)

        code = await asyncio.to_thread(server.end)

    assert (len(children), code) == (2, 0)


def test_workers_end_with_the_server_that_started_them(database: str) -> None:
    with ServerProcess(database, "--workers", "2") as server:
        children = _children(server.pid)

        server.end(signal.SIGKILL)

        while any(Path(f"/proc/{child}").exists() for child in children):
            time.sleep(0.05)

    assert len(children) == 2


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
