"""The database dies under load and its standby takes over: the servers go on by themselves."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from skep import AsyncClient, Draft
from skep.errors import OutcomeUnknown, SkepError, Unavailable
from tests.support.faults.history import Recorder, read
from tests.support.faults.history_checker import check
from tests.support.faults.persistent_producers import PATIENT
from tests.support.faults.postgres_standby import Pair, pair
from tests.support.faults.recording_clients import SOURCE, TARGET, Consumer, Copier, Producer, audit
from tests.support.faults.store_servers import clients_of
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("killed")

BEFORE, AFTER = 100, 100
"""Pushes that are answered before the primary dies, and by its successor."""
LEASE_SECONDS = 2


@pytest.fixture
def databases() -> Iterator[Pair]:
    with pair() as databases:
        yield databases


@pytest.fixture
def servers(databases: Pair) -> Iterator[list[ServerProcess]]:
    with ServerProcess(databases.url) as one, ServerProcess(databases.url) as two:
        yield [one, two]


class Work:
    """Who pushes, acknowledges and copies; each goes to another server with each request."""

    def __init__(self, clients: list[AsyncClient], recorder: Recorder) -> None:
        self._clients = clients
        self._recorder = recorder
        self._pushed = 0
        self._progress = asyncio.Condition()
        self.ending = False

    async def until(self, pushes: int) -> None:
        """So many more."""
        total = self._pushed + pushes
        async with self._progress:
            await self._progress.wait_for(lambda: self._pushed >= total)

    async def produce(self, name: str) -> None:
        random = Random(name)
        each = [Producer(client, self._recorder, random) for client in self._clients]
        number = 0
        while not self.ending:
            values = [f"{name}-{number + n}" for n in range(random.randrange(1, 9))]
            number += len(values)
            assert await random.choice(each).push(name, random.choice("abc"), values, ids=True)
            async with self._progress:
                self._pushed += 1
                self._progress.notify_all()

    async def acknowledge(self) -> None:
        random = Random("readers")
        each = [
            Consumer(client, self._recorder, random, "readers", LEASE_SECONDS)
            for client in self._clients
        ]
        while True:
            ending = self.ending
            delivery = await random.choice(each).pop(batch=20, wait=2 * LEASE_SECONDS)
            if delivery:
                await random.choice(each).complete_all(delivery)
            elif ending:
                return

    async def copy(self) -> None:
        random = Random("copiers")
        each = [
            Copier(client, self._recorder, random, "copiers", LEASE_SECONDS)
            for client in self._clients
        ]
        while True:
            ending = self.ending
            delivery = await random.choice(each).pop(batch=20, wait=2 * LEASE_SECONDS)
            if delivery:
                await random.choice(each).copy(delivery)
            elif ending:
                return


async def refused(client: AsyncClient) -> SkepError:
    """Try until the server finds that it has no database, and return what it says."""
    while True:
        try:
            await client.push("other", [Draft(b"1")])
        except SkepError as error:
            return error


async def test_nothing_that_was_answered_is_lost_and_the_order_is_kept(
    databases: Pair, servers: list[ServerProcess], tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path / "history.jsonl", "one")
    async with clients_of(servers) as hasty, clients_of(servers, PATIENT) as clients:
        work = Work(clients, recorder)
        async with asyncio.TaskGroup() as tasks:
            for name in ("ann", "bob"):
                tasks.create_task(work.produce(name))
            for consume in (work.acknowledge, work.copy):
                tasks.create_task(consume())
                tasks.create_task(consume())

            await work.until(BEFORE)
            # A primary that went on alone would answer what only it knows.
            await asyncio.to_thread(databases.cut)
            await asyncio.to_thread(databases.primary.kill)
            errors = [await refused(client) for client in hasty]
            await asyncio.to_thread(databases.standby.promote)
            await work.until(AFTER)
            work.ending = True
        for queue in (SOURCE, TARGET):
            await audit(clients[0], recorder, queue)

    history = read([tmp_path / "history.jsonl"])
    assert check(history, copies=(SOURCE, TARGET)) == []
    assert all(isinstance(error, Unavailable | OutcomeUnknown) for error in errors)


async def test_what_a_standby_never_heard_of_is_gone_and_the_rest_goes_on(
    databases: Pair, servers: list[ServerProcess]
) -> None:
    async with clients_of(servers, PATIENT) as clients:
        kept = [Draft(b"%d" % n, "a") for n in range(5)]
        await clients[0].push("orders", kept)
        first = await clients[0].pop("orders", group="g", batch=2)
        assert first is not None
        await clients[0].ack(first)
        await asyncio.to_thread(databases.part)
        await clients[1].push("orders", [Draft(b"lost", "a") for _ in range(7)])
        for client in clients:
            while delivery := await client.pop("orders", group="g", batch=3):
                await client.ack(delivery)

        await asyncio.to_thread(databases.primary.kill)
        await asyncio.to_thread(databases.standby.promote)
        await clients[0].push("orders", [Draft(b"new", "a")])

        for group, expected in (("g", [b"2", b"3", b"4", b"new"]), ("h", [b"0", b"1"])):
            seen: list[bytes] = []
            while len(seen) < len(expected):
                delivery = await clients[len(seen) % 2].pop("orders", group=group, batch=1, wait=5)
                assert delivery is not None, (group, seen)
                seen += [message.payload for message in delivery.messages]
                await clients[1].ack(delivery)
            assert seen == expected
