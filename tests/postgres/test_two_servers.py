"""Two servers on one database: each knows what the other does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

import asyncpg
import pytest

from skep import Broker, Draft
from skep.core import aio as fairness
from skep.core.state.background_loader import PAGE
from skep.errors import LeaseLost, OutcomeUnknown, QueueNotFound, Unavailable
from skep.model.consumer import ConsumerState
from skep.model.queue import Subscription
from skep.store.postgres.store import PostgresStore
from skep.store.protocol import StoredConsumer
from tests.support.broker_builders import make_broker

SOON = 5


@pytest.fixture
async def other(url: str, queue: Broker) -> AsyncIterator[Broker]:
    """A second server; ``queue`` is the first."""
    async with make_broker(PostgresStore(url)) as broker:
        yield broker


def drafts(*payloads: bytes, partition: str = "alice") -> list[Draft]:
    return [Draft(payload, partition) for payload in payloads]


async def test_what_one_takes_the_other_delivers(queue: Broker, other: Broker) -> None:
    await queue.push("orders", drafts(b"1", b"2"))

    delivery = await other.pop("orders", group="billing", batch=10)

    assert delivery is not None
    assert [message.payload for message in delivery.messages] == [b"1", b"2"]


async def test_who_waits_at_one_is_woken_by_a_push_to_the_other(
    queue: Broker, other: Broker
) -> None:
    await queue.push("orders", drafts(b"0"))
    await other.pop("orders", auto_ack=True)
    waiting = asyncio.ensure_future(other.pop("orders", wait=60))
    await asyncio.sleep(0)

    await queue.push("orders", drafts(b"1"))

    async with asyncio.timeout(SOON):
        delivery = await waiting
    assert delivery is not None
    assert [message.payload for message in delivery.messages] == [b"1"]


async def test_who_waits_for_a_queue_that_the_other_makes_is_woken(
    queue: Broker, other: Broker
) -> None:
    waiting = asyncio.ensure_future(other.pop("orders", wait=60))
    await asyncio.sleep(0)

    await queue.push("orders", drafts(b"1"))

    async with asyncio.timeout(SOON):
        assert await waiting is not None


async def test_no_two_servers_lease_the_same_messages(queue: Broker, other: Broker) -> None:
    await queue.push("orders", drafts(b"1"))
    await queue.pop("orders", group="other")
    await other.pop("orders", group="other")

    taken = await asyncio.gather(*(each.pop("orders", group="g") for each in (queue, other)))

    assert sorted(delivery is None for delivery in taken) == [False, True]


async def test_a_lease_of_one_is_acknowledged_at_the_other(queue: Broker, other: Broker) -> None:
    await queue.push("orders", drafts(b"1", b"2"))
    delivery = await queue.pop("orders", group="g", batch=10)
    assert delivery is not None

    await other.extend(delivery, 60)
    settled = await other.ack(delivery)

    assert settled.completed == 2
    assert await queue.pop("orders", group="g") is None
    with pytest.raises(LeaseLost):
        await queue.ack(delivery)


async def test_what_one_acknowledged_the_other_does_not_deliver_again(
    queue: Broker, other: Broker
) -> None:
    await queue.push("orders", drafts(b"1", b"2", b"3"))
    assert await other.pop("orders", group="g") is not None
    assert await queue.pop("orders", group="g") is None
    await other.push("orders", drafts(b"1", partition="bob"))

    first = await queue.pop("orders", group="g", batch=10)
    assert first is not None
    await queue.ack(first)
    second = await other.pop("orders", group="g", batch=10)

    assert [(m.partition, m.payload) for m in first.messages] == [("bob", b"1")]
    assert second is None


async def test_both_append_to_a_partition_and_its_order_is_one(
    queue: Broker, other: Broker
) -> None:
    for number in range(20):
        await (queue, other)[number % 2].push("orders", drafts(b"%d" % number))

    delivery = await queue.pop("orders", batch=100)

    assert delivery is not None
    assert [m.offset for m in delivery.messages] == list(range(20))
    assert [m.payload for m in delivery.messages] == [b"%d" % number for number in range(20)]


async def test_an_id_that_one_has_stored_is_a_duplicate_at_the_other(
    queue: Broker, other: Broker
) -> None:
    await queue.push("orders", [Draft(b"1", "alice", "o-1")])

    (receipt,) = await other.push("orders", [Draft(b"2", "alice", "o-1")])

    assert (receipt.duplicate, receipt.offset) == (True, 0)


async def test_a_queue_that_one_configured_is_not_made_anew_by_the_other(
    queue: Broker, other: Broker
) -> None:
    await queue.queues.configure("orders", lease_time=7)

    await other.push("orders", drafts(b"1"))

    assert (await other.queues.get("orders")).options.lease_time == 7


async def test_a_queue_that_one_removed_is_new_at_the_other(queue: Broker, other: Broker) -> None:
    await queue.push("orders", drafts(b"old"))
    assert await other.pop("orders") is not None

    await queue.queues.delete("orders")
    await other.push("orders", drafts(b"new"))

    delivery = await queue.pop("orders", batch=10)
    assert delivery is not None
    assert [(m.offset, m.payload) for m in delivery.messages] == [(0, b"new")]


async def test_a_group_that_subscribes_to_what_is_new_gets_nothing_older(
    queue: Broker, other: Broker
) -> None:
    await queue.push("orders", drafts(b"old"))

    nothing = await other.pop("orders", group="late", subscription_mode="new")
    await queue.push("orders", drafts(b"new"))
    delivery = await queue.pop("orders", group="late", batch=10)

    assert nothing is None
    assert delivery is not None
    assert [message.payload for message in delivery.messages] == [b"new"]


async def test_a_group_that_one_starts_at_the_end_of_many_partitions_gets_nothing_older_elsewhere(
    queue: Broker, other: Broker
) -> None:
    names = [f"p{number}" for number in range(3 * PAGE + 7)]
    await queue.push("orders", [Draft(b"old", name) for name in names])
    await other.queues.stats("orders")
    assert await queue.pop("orders", group="crm", subscription_mode="new") is None
    await queue.push("orders", [Draft(b"new", names[-1])])

    (lag,) = await other.groups.list("orders")
    delivery = await other.pop("orders", group="crm", batch=10, partitions=10)

    assert (lag.backlog, lag.partitions) == (1, len(names))
    assert delivery is not None
    assert [message.payload for message in delivery.messages] == [b"new"]


async def test_an_ack_does_not_wait_until_the_states_of_another_group_are_loaded(
    queue: Broker, other: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.push("orders", [Draft(b"old", f"p{number}") for number in range(3 * PAGE)])
    delivery = await queue.pop("orders", group="mail")
    assert delivery is not None
    assert await other.pop("orders", group="mail", partition="none") is None
    assert await queue.pop("orders", group="crm", subscription_mode="new") is None
    # From now on only loops that wait for a slice, such as that which loads, are held up.
    monkeypatch.setattr(fairness, "_FREE_SECONDS", 3600)
    monkeypatch.setattr(fairness._Slices, "_grant", lambda self: None)
    assert await other.pop("orders", group="mail", partition="none") is None

    async with asyncio.timeout(SOON):
        settlement = await other.ack(delivery)

    assert settlement.completed == 1


async def test_an_ack_of_what_another_server_leased_does_not_wait_until_everything_is_loaded(
    url: str, queue: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = [f"p{number}" for number in range(3 * PAGE)]
    await queue.push("orders", [Draft(b"old", name) for name in partitions])
    # The server that starts now loads its first page only.
    monkeypatch.setattr(fairness, "_FREE_SECONDS", 3600)
    monkeypatch.setattr(fairness._Slices, "_grant", lambda self: None)
    async with make_broker(PostgresStore(url)) as starting:
        delivery = await queue.pop("orders", group="mail", partition=partitions[-1])
        assert delivery is not None

        async with asyncio.timeout(SOON):
            settlement = await starting.ack(delivery)

    assert settlement.completed == 1


class SlowPages(PostgresStore):
    """Returns the states of a second page only when the test allows it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._read_page, self.consumers = self.consumers, self._read_slowly
        self._pages = 0
        self.has_read = asyncio.Event()
        self.may_return = asyncio.Event()

    async def _read_slowly(
        self, queue: int, partitions: Sequence[int] | None = None
    ) -> Iterable[StoredConsumer]:
        found = list(await self._read_page(queue, partitions))
        self._pages += 1
        if self._pages == 2:
            self.has_read.set()
            await self.may_return.wait()
        return found


async def test_what_another_server_does_while_a_page_is_read_is_known_afterwards(
    url: str, queue: Broker
) -> None:
    partitions = [f"p{number}" for number in range(2 * PAGE)]
    await queue.push("orders", [Draft(b"old", name) for name in partitions])
    assert await queue.pop("orders", group="mail", partition="none") is None
    store = SlowPages(url)
    async with make_broker(store) as starting:
        await store.has_read.wait()
        await queue.push("orders", drafts(b"new", partition=partitions[-1]))
        assert await queue.pop("orders", group="mail", partition=partitions[-2], auto_ack=True)
        # It catches up, and does not know these partitions yet.
        assert await starting.pop("orders", group="mail", partition=partitions[0])

        store.may_return.set()
        await starting.queues.stats("orders")

        revision = consumer(queue, partitions[-2]).revision
        assert consumer(starting, partitions[-2]).revision == revision
        delivery = await starting.pop("orders", group="mail", partition=partitions[-1], batch=9)
        assert delivery is not None
        assert [message.payload for message in delivery.messages] == [b"old", b"new"]


def consumer(server: Broker, partition: str) -> ConsumerState:
    group = server._parts.registry.group("orders", "mail")
    return group.consumer(server._parts.registry.partition("orders", partition))


async def test_a_group_that_one_deletes_and_makes_again_is_another_elsewhere(
    queue: Broker, other: Broker
) -> None:
    names = [f"p{number}" for number in range(3 * PAGE + 7)]
    await queue.push("orders", [Draft(b"old", name) for name in names])
    assert await queue.pop("orders", group="crm", subscription_mode="new") is None
    assert await other.pop("orders", group="crm") is None

    await queue.groups.delete("orders", "crm")
    assert await queue.pop("orders", group="crm", partition="none") is None

    (lag,) = await other.groups.list("orders")
    assert (lag.backlog, lag.partitions) == (len(names), 0)


async def test_a_group_that_one_moved_is_moved_at_the_other(queue: Broker, other: Broker) -> None:
    await queue.push("orders", drafts(b"1", b"2"))
    assert await other.pop("orders", group="g", batch=10, auto_ack=True) is not None

    await queue.catch_up()
    await queue.groups.seek("orders", "g", "beginning")

    again = await other.pop("orders", group="g", batch=10)
    assert again is not None
    assert [message.offset for message in again.messages] == [0, 1]


async def test_what_one_removed_the_other_does_not_count(queue: Broker, other: Broker) -> None:
    await queue.push("orders", drafts(b"1", b"2"))
    await other.pop("orders", group="g")

    await queue.queues.clear("orders")

    await other.push("orders", drafts(b"3"))
    await other.catch_up()
    assert (await other.queues.stats("orders")).messages == 1


async def test_maintenance_begun_at_one_is_known_at_the_other(queue: Broker, other: Broker) -> None:
    await queue.maintenance.set_popping(True)

    await other.catch_up()
    assert other.maintenance.popping


@pytest.mark.parametrize(
    "deletion",
    [
        "DELETE FROM queen.queue",
        "DELETE FROM queen.partition",
        "DELETE FROM queen.subscription",
        "DELETE FROM queen.consumer",
        "DELETE FROM queen.lane",
        "DELETE FROM queen.news",
    ],
)
async def test_rows_deleted_by_hand_do_not_stop_a_queue(
    queue: Broker, sql: asyncpg.Connection, deletion: str
) -> None:
    await queue.push("orders", drafts(b"1", b"2"))
    assert await queue.pop("orders", group="g", auto_ack=True) is not None

    await sql.execute(deletion)
    await queue.push("orders", drafts(b"3"))

    async with asyncio.timeout(SOON):
        delivery = await queue.pop("orders", group="g", batch=10, wait=SOON)
    assert delivery is not None
    assert delivery.messages[-1].payload == b"3"


async def test_a_server_that_slept_too_long_reads_everything_again(
    queue: Broker, other: Broker, sql: asyncpg.Connection
) -> None:
    await queue.push("orders", drafts(b"1"))
    await sql.execute(
        "UPDATE queen.news SET number = number + 1000; DELETE FROM queen.news AS n"
        " WHERE number < (SELECT max(m.number) FROM queen.news AS m WHERE m.lane = n.lane)"
    )

    delivery = await other.pop("orders", wait=SOON)

    assert delivery is not None


async def test_one_server_at_a_time_sweeps(url: str, store: PostgresStore) -> None:
    second = PostgresStore(url)

    first_takes = await store.acquire_leadership("sweep", 60)
    second_takes = await second.acquire_leadership("sweep", 60)
    first_keeps = await store.acquire_leadership("sweep", 60)

    assert (first_takes, second_takes, first_keeps) == (True, False, True)
    await second.close()


async def test_who_asks_for_what_is_gone_everywhere_is_told(queue: Broker, other: Broker) -> None:
    await queue.push("orders", drafts(b"1"))
    await other.pop("orders")
    await queue.queues.delete("orders")
    await other.catch_up()

    with pytest.raises(QueueNotFound):
        await other.queues.get("orders")


async def test_what_was_committed_without_an_answer_is_delivered_all_the_same(
    queue: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.push("orders", drafts(b"0"))
    assert await queue.pop("orders", auto_ack=True) is not None
    waiting = asyncio.ensure_future(queue.pop("orders", batch=10, wait=60))
    await asyncio.sleep(0)
    with monkeypatch.context() as network:
        lose_the_answer(network)
        with pytest.raises(OutcomeUnknown):
            await queue.push("orders", [Draft(b"1", "alice", "o-1")])

    (again,) = await queue.push("orders", [Draft(b"1", "alice", "o-1")])

    assert again.duplicate
    async with asyncio.timeout(SOON):
        delivery = await waiting
    assert delivery is not None
    assert [message.payload for message in delivery.messages] == [b"1"]


@pytest.mark.parametrize("committed", [True, False])
async def test_a_first_contact_without_an_answer_can_be_made_again(
    queue: Broker, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    await queue.push("orders", drafts(b"1"))
    with monkeypatch.context() as network:
        lose_the_answer(network, committed=committed)
        with pytest.raises(OutcomeUnknown):
            await queue.pop("orders", group="g")

    delivery = await queue.pop("orders", group="g", wait=SOON)

    assert delivery is not None


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("what", ["group", "queue"])
async def test_a_deletion_without_an_answer_leaves_nothing_half_there(
    queue: Broker, monkeypatch: pytest.MonkeyPatch, committed: bool, what: str
) -> None:
    await queue.push("orders", drafts(b"1"))
    assert await queue.pop("orders", group="g", auto_ack=True) is not None
    with monkeypatch.context() as network:
        lose_the_answer(network, committed=committed)
        with pytest.raises(OutcomeUnknown):
            await (
                queue.groups.delete("orders", "g")
                if what == "group"
                else queue.queues.delete("orders")
            )

    await queue.push("orders", drafts(b"2"))
    delivery = await queue.pop("orders", group="g", batch=10, wait=SOON)

    assert delivery is not None
    assert delivery.messages[-1].payload == b"2"
    assert len(delivery.messages) == (2 if committed and what == "group" else 1)


class FailingStore(PostgresStore):
    """Cannot delete a queue, nor read its groups while it is ``failing``."""

    meanwhile: Callable[[], Awaitable[object]]
    """Happens before the failure of a deletion is known."""
    failing = False

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.delete_queue = self._fail_to_delete
        self._subscriptions, self.subscriptions = self.subscriptions, self._read_or_fail

    async def _fail_to_delete(self, queue: int) -> bool:
        await self.meanwhile()
        raise Unavailable("no connection")

    async def _read_or_fail(self, queue: int) -> list[Subscription]:
        if self.failing:
            raise Unavailable("no connection")
        return await self._subscriptions(queue)


async def test_what_happened_elsewhere_to_a_queue_that_could_not_be_deleted_is_known(
    url: str, other: Broker
) -> None:
    store = FailingStore(url)
    async with make_broker(store) as queue:
        await queue.push("orders", drafts(b"1"))
        assert await queue.pop("orders", group="mail") is not None

        async def meanwhile() -> None:
            await other.push("orders", drafts(b"2", partition="bob"))
            await queue.catch_up()

        store.meanwhile = meanwhile
        with pytest.raises(Unavailable):
            await queue.queues.delete("orders")
        delivery = await queue.pop("orders", group="mail", partition="bob")

    assert delivery is not None
    assert delivery.messages[0].payload == b"2"


async def test_a_queue_of_another_server_that_could_not_be_read_is_read_again(
    url: str, other: Broker
) -> None:
    store = FailingStore(url)
    async with make_broker(store) as queue:
        store.failing = True
        await other.push("orders", drafts(b"1"))
        with pytest.raises(Unavailable):
            await queue.catch_up()
        store.failing = False

        delivery = await queue.pop("orders")

    assert delivery is not None
    assert delivery.messages[0].payload == b"1"


def lose_the_answer(network: pytest.MonkeyPatch, *, committed: bool = True) -> None:
    """The connection is gone before PostgreSQL says that it has committed, or before it does."""
    execute = asyncpg.Connection.execute

    async def lose(self: asyncpg.Connection, query: str, *args: object, **kw: object) -> str:
        if query == "COMMIT" and not committed:
            await execute(self, "ROLLBACK")
        done: str = await execute(self, query, *args, **kw)  # type: ignore[arg-type]
        if query == "COMMIT":
            self.terminate()
            raise asyncpg.ConnectionDoesNotExistError("the answer is lost")
        return done

    network.setattr(asyncpg.Connection, "execute", lose)


async def test_servers_list_partitions_and_groups_in_one_order_whoever_made_them(
    queue: Broker, other: Broker
) -> None:
    servers = (queue, other)
    await queue.push("orders", drafts(b"x"))
    await asyncio.gather(*(other.pop("orders", group=group) for group in "zy"))
    await asyncio.gather(*(queue.pop("orders", group=group) for group in "xa"))
    for server in servers:
        await server.queues.stats("orders")

    # Each server knows its own partitions before it hears of those of the other.
    await asyncio.gather(
        *(
            servers[n % 2].push("orders", drafts(b"x", partition=f"{start - n}"))
            for start in (20, 40)
            for n in range(20)
        )
    )

    listed = [await _listed(server) for server in servers]
    assert listed[0] == listed[1]
    assert listed[0][0] == sorted(listed[0][0])


async def _listed(server: Broker) -> tuple[list[int], list[str], list[str], list[str]]:
    """Numbers of partitions, and names in other lists."""
    insight = server.insight
    depth = await insight.groups.backlog("orders", "a", limit=100)
    return (
        [each.number for each in await insight.queues.partitions("orders")],
        [each.partition for each in await insight.groups.partitions("orders", "a", limit=100)],
        [name for name, _ in depth.partitions],
        [each.group for each in await insight.groups.groups(lambda _: True)],
    )
