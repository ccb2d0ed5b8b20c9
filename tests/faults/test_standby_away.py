"""While a synchronous standby is away, nothing is answered that it does not have.

A commit that waits for the standby is on the disk of the primary. After a restart every server can
read it, and a failover would lose it: so a repetition of the request is not answered either.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import pytest

from skep import AsyncClient, Broker, Draft
from skep.core.journal.journal import Selection
from skep.errors import OutcomeUnknown, SkepError
from skep.model.change import Applied, Change, IdempotencyKey
from skep.model.operation import Push, Transaction
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import pop
from tests.support.faults.persistent_producers import PATIENT
from tests.support.faults.postgres_standby import Cluster, Pair, pair
from tests.support.faults.store_servers import clients_of
from tests.support.server_process import ServerProcess
from tests.support.sink_builders import commit, numbers, stage

pytestmark = pytest.mark.xdist_group("killed")

Request: TypeAlias = Callable[[], Awaitable[Any]]
Prepare: TypeAlias = Callable[[Broker, PostgresStore], Awaitable[Request]]

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
_HOLDING = """
SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid)
 WHERE wait_event = 'SyncRep' AND relation = 'queen.{}'::regclass
"""
RECORDING, CONFIRMING = _HOLDING.format("outcome"), _HOLDING.format("lane")
"""The same for commits of a server: it does more than what it is asked for."""


@pytest.fixture(scope="module")
def databases() -> Iterator[Pair]:
    with pair() as databases:
        yield databases


@pytest.fixture
async def store(databases: Pair) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(f"postgresql://postgres@127.0.0.1:{databases.primary.port}/postgres")
    yield store
    await store.close()


@pytest.fixture
async def queue(store: PostgresStore) -> AsyncIterator[Broker]:
    """One that writes nothing by itself: nothing else waits for the standby."""
    async with Broker(store, sweep_interval=None, follow_interval=None) as broker:
        yield broker


async def transaction(queue: Broker, store: PostgresStore) -> Request:
    await queue.push("orders", [Draft(b"0")])
    return lambda: queue.transact([Push("orders", [Draft(b"1")])], idempotency_key="pay-1")


async def recorded_key(queue: Broker, store: PostgresStore) -> Request:
    change = Change(key=IdempotencyKey(name="pay-2", fingerprint=b"1"))

    async def send() -> None:
        (outcome,) = (await store.commit([change])).outcomes
        assert isinstance(outcome, Applied)

    return send


async def sink_version(queue: Broker, store: PostgresStore) -> Request:
    staged = await stage(queue, "task-1", numbers(0, 3))
    return lambda: commit(queue, staged)


async def settled_partition(queue: Broker, store: PostgresStore) -> Request:
    await queue.push("leases", [Draft(b"1", "a"), Draft(b"2", "b")])
    delivery = await pop(queue, "leases", batch=2, partitions=2)
    return lambda: queue.ack(delivery, [m for m in delivery.messages if m.partition == "a"])


async def duplicate(queue: Broker, store: PostgresStore) -> Request:
    await queue.push("orders", [Draft(b"0")])
    return lambda: queue.push("orders", [Draft(b"1", transaction_id="order-1")])


async def reader(queue: Broker, store: PostgresStore) -> Request:
    await queue.push("journal", [Draft(b"0")])
    selection = Selection(queues=("journal",))
    return lambda: queue.reader_groups.begin("spark", selection, "earliest", lambda name: True)


async def registration(queue: Broker, store: PostgresStore) -> Request:
    return lambda: queue.stream_queries.register("totals", source_queue="orders", config_hash="1")


async def answered_or_waiting(
    primary: Cluster, request: asyncio.Task[Any], query: str = WAITING
) -> None:
    """Return when a request was answered, or a commit waits for the standby."""
    waiting = "0"
    while not request.done() and waiting == "0":
        waiting = await asyncio.to_thread(primary.ask, query)


async def lose_answer(databases: Pair, send: Request) -> None:
    """Send a request that is committed at the primary only, and gets no answer."""
    await asyncio.to_thread(databases.standby.stop)
    first = asyncio.ensure_future(send())
    await answered_or_waiting(databases.primary, first)
    assert not first.done()
    await asyncio.to_thread(databases.primary.stop)
    await asyncio.to_thread(databases.primary.start)
    with pytest.raises(OutcomeUnknown):
        await first


@pytest.mark.parametrize(
    "prepare",
    [
        transaction,
        recorded_key,
        sink_version,
        settled_partition,
        duplicate,
        reader,
        registration,
    ],
)
async def test_a_repetition_is_answered_when_the_standby_has_what_it_repeats(
    databases: Pair, queue: Broker, store: PostgresStore, prepare: Prepare
) -> None:
    send = await prepare(queue, store)
    await lose_answer(databases, send)

    again = asyncio.ensure_future(send())
    await answered_or_waiting(databases.primary, again)

    answered_early = again.done()
    await asyncio.to_thread(databases.standby.start)
    await again
    assert not answered_early


async def pay(client: AsyncClient) -> Transaction:
    return await client.transact([Push("orders", [Draft(b"1")])], idempotency_key="pay-1")


async def test_what_a_server_answered_to_a_repetition_survives_a_failover() -> None:
    with pair() as databases, ServerProcess(databases.url) as server:
        async with clients_of([server]) as (client,), clients_of([server], PATIENT) as (patient,):
            await client.push("orders", [Draft(b"0")])
            await asyncio.to_thread(databases.standby.stop)
            first = asyncio.ensure_future(pay(client))
            await answered_or_waiting(databases.primary, first, RECORDING)
            await asyncio.to_thread(databases.primary.stop)
            await asyncio.to_thread(databases.primary.start)
            with pytest.raises(SkepError):
                await first

            again = asyncio.ensure_future(pay(patient))
            await answered_or_waiting(databases.primary, again, CONFIRMING)
            if not again.done():
                await asyncio.to_thread(databases.standby.start)
            assert (await again).repeated
            await asyncio.to_thread(databases.primary.kill)
            await asyncio.to_thread(databases.standby.stop)
            await asyncio.to_thread(databases.standby.start)
            await asyncio.to_thread(databases.standby.promote)

            assert (await pay(patient)).repeated
