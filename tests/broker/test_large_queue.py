"""Queues that are loaded in several pages: what is promised holds before all of them are known."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from skep import Ack, Broker, Draft, Push
from skep.core import aio as fairness
from skep.core.state.background_loader import PAGE
from skep.model.stats import GroupLag
from skep.store.protocol import Store
from tests.support.broker_builders import make_broker, payloads, pop, pop_all
from tests.support.restartable_broker import Restarts

MANY = 3 * PAGE + 7
FIRST, LAST = "p00000", f"p{MANY - 1:05}"
PARTITIONS = [f"p{number:05}" for number in range(MANY)]


async def fill(queue: Broker) -> None:
    """One message in each partition."""
    for start in range(0, MANY, PAGE):
        some = PARTITIONS[start : start + PAGE]
        await queue.push("orders", [Draft(name.encode(), name, f"id-{name}") for name in some])


@pytest.fixture
async def server(server: Restarts) -> Restarts:
    """Group ``mail`` has to read everything; ``crm`` only what is pushed from now on."""
    async with server.run() as queue:
        await fill(queue)
        assert await queue.pop("orders", group="crm", subscription_mode="new") is None
        assert await queue.pop("orders", group="mail", partition="none") is None
    return server


async def lag(queue: Broker, group: str) -> GroupLag:
    return next(each for each in await queue.groups.list("orders") if each.group == group)


async def test_a_large_queue_is_not_loaded_as_a_whole_before_the_start(server: Restarts) -> None:
    async with server.run() as queue:
        assert not queue.loaded


async def test_the_numbers_of_a_queue_are_those_of_all_its_partitions(server: Restarts) -> None:
    async with server.run() as queue:
        mail, crm = await lag(queue, "mail"), await lag(queue, "crm")

        assert (mail.backlog, mail.partitions_with_backlog) == (MANY, MANY)
        assert (crm.backlog, crm.partitions_with_backlog) == (0, 0)
        assert queue.loaded


async def test_every_message_is_delivered_once_while_the_queue_is_loaded(server: Restarts) -> None:
    async with server.run() as queue:
        found = await pop_all(queue, group="mail", batch=1000, partitions=100)

        assert sorted(found) == [name.encode() for name in PARTITIONS]


async def test_an_idle_group_gets_nothing_while_the_queue_is_loaded(server: Restarts) -> None:
    async with server.run() as queue:
        assert await queue.pop("orders", group="crm") is None


async def test_a_push_to_a_partition_that_is_not_loaded_continues_it(server: Restarts) -> None:
    async with server.run() as queue:
        again, new = await queue.push(
            "orders", [Draft(b"again", LAST, f"id-{LAST}"), Draft(b"new", LAST)]
        )

        assert (again.duplicate, again.offset) == (True, 0)
        assert (new.duplicate, new.offset) == (False, 1)


async def test_a_group_goes_on_where_it_was_in_a_partition_that_was_not_loaded(
    server: Restarts,
) -> None:
    async with server.run() as queue:
        await queue.push("orders", [Draft(b"new", LAST)])

        assert payloads(await queue.pop("orders", group="crm", batch=10)) == [b"new"]
        assert await queue.pop("orders", group="crm", batch=10) is None


async def test_a_named_partition_that_is_not_loaded_is_popped(server: Restarts) -> None:
    async with server.run() as queue:
        delivery = await queue.pop("orders", group="mail", partition=LAST)

        assert payloads(delivery) == [LAST.encode()]


async def lease_first_and_last(server: Restarts) -> str:
    """A lease on partitions of the first and of the last page."""
    async with server.run() as queue:
        await queue.push("orders", [Draft(b"1", FIRST), Draft(b"2", LAST)])
        delivery = await pop(queue, group="crm", batch=2, partitions=2)
        assert {message.partition for message in delivery.messages} == {FIRST, LAST}
        return delivery.lease_id or ""


async def test_an_ack_of_a_whole_lease_settles_partitions_that_are_not_loaded(
    server: Restarts,
) -> None:
    lease = await lease_first_and_last(server)
    async with server.run() as queue:
        settlement = await queue.ack(lease)

        assert (settlement.completed, settlement.released) == (2, True)
        assert (await lag(queue, "crm")).backlog == 0


async def test_a_transaction_settles_partitions_that_are_not_loaded(server: Restarts) -> None:
    lease = await lease_first_and_last(server)
    async with server.run() as queue:
        await queue.transact([Ack(lease), Push("done", [Draft(b"")])])

        assert (await lag(queue, "crm")).backlog == 0


async def test_an_extension_reaches_partitions_that_are_not_loaded(server: Restarts) -> None:
    lease = await lease_first_and_last(server)
    async with server.run() as queue:
        until = await queue.extend(lease, 3000)
        held = [each for each in await queue.groups.lag("orders", "crm") if each.leased]

        assert [each.lease_expires_at for each in held] == [until, until]


async def test_a_queue_that_is_deleted_while_it_is_loaded_stays_deleted(server: Restarts) -> None:
    async with server.run() as queue:
        await queue.queues.delete("orders")
        await queue.push("orders", [Draft(b"other", LAST)])

        assert len(list(await queue.queues.partitions("orders"))) == 1
        assert await pop_all(queue, group="mail") == [b"other"]


async def test_a_new_group_reads_every_partition_of_a_large_queue(store: Store) -> None:
    async with make_broker(store) as queue:
        await fill(queue)

        found = await pop_all(queue, group="mail", batch=1000, partitions=100)

        assert sorted(found) == [name.encode() for name in PARTITIONS]


async def test_a_new_group_that_starts_at_the_end_of_a_large_queue_reads_what_comes(
    store: Store,
) -> None:
    async with make_broker(store) as queue:
        await fill(queue)
        assert await queue.pop("orders", group="crm", subscription_mode="new") is None
        await queue.push("orders", [Draft(b"new", LAST)])

        assert await pop_all(queue, group="crm") == [b"new"]


async def test_a_delay_that_is_configured_applies_to_every_partition_at_once(store: Store) -> None:
    async with make_broker(store) as queue:
        await fill(queue)
        assert await queue.pop("orders", group="mail", partition="none") is None

        await queue.queues.configure("orders", delayed_processing=60)

        assert await queue.pop("orders", group="mail", partition=FIRST) is None
        assert await queue.pop("orders", group="mail", partition=LAST) is None
        assert await queue.pop("orders", group="mail") is None


async def test_partitions_become_ready_when_a_delay_is_taken_away(store: Store) -> None:
    async with make_broker(store) as queue:
        await queue.queues.configure("orders", delayed_processing=60)
        await fill(queue)
        assert await queue.pop("orders", group="mail") is None

        await queue.queues.configure("orders")

        found = await pop_all(queue, group="mail", batch=1000, partitions=100)
        assert len(found) == MANY


async def read_of_another_queue(queue: Broker) -> None:
    await queue.queues.stats("mails")
    await queue.groups.list("mails")
    await queue.groups.seek("mails", "crm", "end")


async def start_a_group_in_another_queue(queue: Broker) -> None:
    await queue.pop("mails", group="other", subscription_mode="new")


async def push_to_another_queue_with_a_limit(queue: Broker) -> None:
    await queue.push("mails", [Draft(b"2")])


async def delete_a_group_of_another_queue(queue: Broker) -> None:
    await queue.groups.delete("mails", "crm")


@pytest.mark.parametrize(
    "work",
    [
        read_of_another_queue,
        start_a_group_in_another_queue,
        push_to_another_queue_with_a_limit,
        delete_a_group_of_another_queue,
    ],
)
async def test_what_concerns_another_queue_does_not_wait_until_a_large_one_is_loaded(
    server: Restarts, work: Callable[[Broker], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.run() as queue:
        await queue.queues.configure("mails", max_size=10)
        await queue.push("mails", [Draft(b"1")])
        await queue.pop("mails", group="crm")
    async with server.run() as queue:
        # From now on only loops that wait for a slice, such as that which loads, are held up.
        monkeypatch.setattr(fairness, "_FREE_SECONDS", 3600)
        monkeypatch.setattr(fairness._Slices, "_grant", lambda self: None)

        await work(queue)

        assert not queue.loaded


async def test_a_group_that_is_deleted_and_made_again_reads_every_partition_again(
    store: Store,
) -> None:
    async with make_broker(store) as queue:
        await fill(queue)
        assert await queue.pop("orders", group="crm", subscription_mode="new") is None

        await queue.groups.delete("orders", "crm")
        found = await pop_all(queue, group="crm", batch=1000, partitions=100)
        await queue.sweep()

        assert sorted(found) == [name.encode() for name in PARTITIONS]
        assert (await lag(queue, "crm")).backlog == 0
        assert await queue.pop("orders", group="crm") is None


async def test_a_long_poll_ends_with_the_broker_while_the_queue_is_loaded(
    server: Restarts,
) -> None:
    async with server.run() as queue:
        queue.drain()

        assert await queue.pop("orders", group="crm", wait=timedelta(seconds=30).seconds) is None
