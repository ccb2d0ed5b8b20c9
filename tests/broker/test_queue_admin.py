"""Queues: configuring, looking at, clearing and deleting them."""

import asyncio
import gc
from collections.abc import Awaitable
from functools import partial
from typing import Any

import msgspec
import pytest

from skep import Broker, Draft, Queue, QueueOptions
from skep.core.state.queue_state import QueueState
from skep.errors import (
    GroupNotFound,
    Invalid,
    LeaseLost,
    MessageNotFound,
    PartitionNotFound,
    QueueNotFound,
    Unavailable,
)
from skep.model.name import QUEUE_MODE
from skep.model.stats import PartitionStats, QueueStats
from skep.store.memory import MemoryStore
from skep.store.protocol import Store
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    PATIENCE,
    cursors,
    drafts,
    make_broker,
    moment,
    payloads,
    pop,
    pop_all,
    start,
    until,
)
from tests.support.gated_store import GatedStore

EVERY_OPTION: dict[str, Any] = {
    "lease_time": 7,
    "retry_limit": 0,
    "retry_delay": 250,
    "priority": -3,
    "max_size": 1000,
    "ttl": 60,
    "dead_letter_queue": True,
    "dlq_after_max_retries": True,
    "delayed_processing": 1,
    "window_buffer": 2,
    "max_wait_time_seconds": 3600,
    "retention_enabled": True,
    "retention_seconds": 86_400,
    "completed_retention_seconds": 3600,
    "encryption_enabled": True,
}


def names(queues: list[Queue]) -> list[str]:
    return [queue.name for queue in queues]


# Configuring.


async def test_a_queue_is_configured_before_its_first_push(
    queue: Broker, clock: ManualClock
) -> None:
    made = await queue.queues.configure("orders", namespace="shop", task="sell", lease_time=7)

    assert made == await queue.queues.get("orders")
    assert (made.name, made.namespace, made.task) == ("orders", "shop", "sell")
    assert made.options == QueueOptions(lease_time=7)
    assert made.created_at == clock.now()


async def test_every_option_is_kept_as_it_was_given(queue: Broker) -> None:
    made = await queue.queues.configure("orders", **EVERY_OPTION)

    assert msgspec.structs.asdict(made.options) == EVERY_OPTION


def test_every_option_is_tried_here() -> None:
    assert list(EVERY_OPTION) == list(QueueOptions.__struct_fields__)


async def test_a_configuration_is_known_to_the_next_process(store: Store) -> None:
    before = await make_broker(store).__aenter__()
    made = await before.queues.configure("orders", namespace="shop", **EVERY_OPTION)

    async with make_broker(store) as after:
        found = await after.queues.get("orders")

    assert found == made


async def test_configuring_again_replaces_what_was_there(queue: Broker, clock: ManualClock) -> None:
    first = await queue.queues.configure("orders", namespace="shop", task="sell", lease_time=7)
    clock.advance(60)

    second = await queue.queues.configure("orders", task="buy", retry_limit=1)

    assert (second.namespace, second.task) == (None, "buy")
    assert second.options == QueueOptions(retry_limit=1)
    assert (second.number, second.created_at) == (first.number, first.created_at)


async def test_configuring_touches_no_message_and_no_group(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    delivery = await pop(queue)

    await queue.queues.configure("orders", lease_time=7)

    assert (await queue.ack(delivery)).completed == 1
    assert await pop_all(queue, batch=10) == [b"1", b"2"]


async def test_a_new_lease_time_holds_for_the_next_lease(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(2))
    await queue.ack(await pop(queue))

    await queue.queues.configure("orders", lease_time=7)

    assert (await pop(queue)).expires_at == moment(clock, 7)


async def test_an_unknown_option_is_refused_by_name(queue: Broker) -> None:
    with pytest.raises(Invalid, match="lease_tine: is not an option of a queue"):
        await queue.queues.configure("orders", lease_tine=7)

    assert await queue.queues.list() == []


async def test_a_configuration_that_is_refused_changes_nothing(queue: Broker) -> None:
    before = await queue.queues.configure("orders", lease_time=7)

    with pytest.raises(Invalid, match="retry_limit"):
        await queue.queues.configure("orders", lease_time=8, retry_limit=-1)

    assert await queue.queues.get("orders") == before


async def test_queues_configured_at_the_same_time_are_made_once(queue: Broker) -> None:
    made = await asyncio.gather(
        *(queue.queues.configure("orders", priority=n) for n in range(5)),
        *(queue.push("orders", drafts(1)) for _ in range(5)),
    )

    numbers = {found.number for found in made if isinstance(found, Queue)}
    assert len(numbers) == 1
    assert names(await queue.queues.list()) == ["orders"]


# Looking.


async def test_queues_are_listed_by_priority_and_then_by_name(queue: Broker) -> None:
    for name, priority in (("b", 0), ("c", 5), ("a", 0), ("d", -1)):
        await queue.queues.configure(name, priority=priority)

    assert names(await queue.queues.list()) == ["c", "a", "b", "d"]


async def test_queues_are_listed_by_their_labels(queue: Broker) -> None:
    await queue.queues.configure("a", namespace="shop", task="sell")
    await queue.queues.configure("b", namespace="shop", task="buy")
    await queue.queues.configure("c", namespace="bank", task="sell")
    await queue.queues.configure("d")

    assert names(await queue.queues.list(namespace="shop")) == ["a", "b"]
    assert names(await queue.queues.list(task="sell")) == ["a", "c"]
    assert names(await queue.queues.list(namespace="bank", task="buy")) == []


async def test_a_queue_that_does_not_exist_is_not_found(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    for ask in (
        queue.queues.get,
        queue.queues.partitions,
        queue.groups.list,
        queue.queues.stats,
        queue.queues.clear,
        queue.queues.delete,
        queue.queues.removals,
    ):
        with pytest.raises(QueueNotFound, match="queue 'invoices' does not exist"):
            await ask("invoices")


async def test_partitions_say_what_they_hold(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(2, "alice"))
    clock.advance(60)
    receipts = await queue.push("orders", [*drafts(1, "bob"), *drafts(1, "alice")])

    found = list(await queue.queues.partitions("orders"))

    bob, alice = (receipt.partition_number for receipt in receipts)
    now = moment(clock)
    assert found == [
        PartitionStats(name="alice", number=alice, start=0, end=3, newest_at=now),
        PartitionStats(name="bob", number=bob, start=0, end=1, newest_at=now),
    ]


async def test_a_queue_says_in_numbers_what_it_holds(queue: Broker) -> None:
    await queue.queues.configure("orders", namespace="shop", task="sell", retry_limit=0)
    await queue.push("orders", [*drafts(3, "alice"), *drafts(2, "bob")])
    await queue.ack(await pop(queue, group="fast", batch=5, partitions=2))
    await queue.fail(await pop(queue, group="slow", partition="bob"), error="no")

    assert await queue.queues.stats("orders") == QueueStats(
        name="orders",
        namespace="shop",
        task="sell",
        partitions=2,
        messages=5,
        pushed=5,
        depth=4,
        groups=2,
        dead_letters=1,
    )


async def test_a_queue_that_was_only_configured_holds_nothing(queue: Broker) -> None:
    await queue.queues.configure("orders")

    stats = await queue.queues.stats("orders")

    assert (stats.partitions, stats.messages, stats.pushed, stats.depth) == (0, 0, 0, 0)
    assert list(await queue.queues.partitions("orders")) == []


async def test_numbers_are_the_same_for_the_next_process(store: Store, clock: ManualClock) -> None:
    before = await make_broker(store).__aenter__()
    await before.queues.configure("orders", retention_enabled=True, retention_seconds=60)
    await before.push("orders", drafts(3, "alice"))
    clock.advance(61)
    await before.push("orders", [*drafts(2, "alice"), *drafts(1, "bob")])
    await before.sweep()
    await pop(before, group="slow")
    await before.ack(await pop(before, group="fast", batch=2))
    expected = await before.queues.stats("orders"), list(await before.queues.partitions("orders"))

    async with make_broker(store) as after:
        found = await after.queues.stats("orders"), list(await after.queues.partitions("orders"))

    assert found == expected


# Clearing.


async def test_clearing_removes_every_message_and_says_how_many(queue: Broker) -> None:
    await queue.push("orders", [*drafts(3, "alice"), *drafts(2, "bob")])

    assert await queue.queues.clear("orders") == 5

    assert await queue.pop("orders", batch=10, partitions=10) is None
    assert (await queue.messages.list("orders")).messages == []
    assert (await queue.queues.stats("orders")).messages == 0


async def test_clearing_keeps_offsets(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.queues.clear("orders")

    (receipt,) = await queue.push("orders", drafts(1, first=3))

    assert receipt.offset == 3
    assert await pop_all(queue, batch=10) == [b"3"]


async def test_clearing_keeps_groups_and_where_they_are(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    await queue.ack(await pop(queue, group="billing", batch=2))

    await queue.queues.clear("orders")

    assert [lag.group for lag in await queue.groups.list("orders")] == ["billing"]
    assert await cursors(queue, group="billing") == {"Default": 4}
    assert [lag.backlog for lag in await queue.groups.list("orders")] == [0]


async def test_a_group_hears_that_messages_were_cleared_before_it_read_them(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(4))
    await queue.ack(await pop(queue))
    await queue.queues.clear("orders")
    await queue.push("orders", drafts(1, first=4))

    delivery = await pop(queue)

    assert (payloads(delivery), delivery.truncated) == ([b"4"], 3)


async def test_clearing_is_counted_for_a_group_although_another_pops_meanwhile(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders")
    for group in ("billing", "mail"):
        await queue.pop("orders", group=group)
    await queue.push("orders", drafts(2))

    await asyncio.gather(queue.pop("orders", group="billing"), queue.queues.clear("orders"))

    await queue.push("orders", drafts(1, first=2))
    assert (await pop(queue, group="mail")).truncated == 2


async def test_partitions_that_are_born_while_one_looks_do_not_disturb(queue: Broker) -> None:
    await queue.push("orders", [*drafts(1, "alice"), *drafts(1, "bob")])
    await pop(queue)

    seen: list[str] = []
    for partition in await queue.queues.partitions("orders"):
        await queue.push("orders", drafts(1, f"new {partition.name}"))
        seen.append(partition.name)
    for lag in await queue.groups.lag("orders", QUEUE_MODE):
        await queue.push("orders", drafts(1, f"newer {lag.partition}"))
        seen.append(lag.partition)

    assert seen == ["alice", "bob", "alice", "bob", "new alice", "new bob"]


async def test_one_partition_can_be_cleared_alone(queue: Broker) -> None:
    await queue.push("orders", [*drafts(3, "alice"), *drafts(2, "bob")])

    assert await queue.queues.clear("orders", partition="alice") == 3

    assert await pop_all(queue, batch=10) == [b"0", b"1"]
    with pytest.raises(PartitionNotFound, match="no partition 'carol'"):
        await queue.queues.clear("orders", partition="carol")


async def test_clearing_many_small_pushes_takes_them_all(queue: Broker) -> None:
    for n in range(250):
        await queue.push("orders", drafts(1, first=n))

    assert await queue.queues.clear("orders") == 250

    assert (await queue.queues.stats("orders")).messages == 0


async def test_clearing_twice_removes_nothing_more(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.queues.clear("orders")

    assert await queue.queues.clear("orders") == 0

    assert [removal.kind for removal in await queue.queues.removals("orders")] == ["cleared"]


async def test_clearing_keeps_dead_letters(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(1))
    await queue.fail(await pop(queue))

    await queue.queues.clear("orders")

    assert [letter.payload for letter in await queue.dead_letters.list("orders")] == [b"0"]


async def test_a_delivery_under_way_can_be_acknowledged_after_a_clear(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, batch=2)

    await queue.queues.clear("orders")
    await queue.ack(delivery)

    assert await cursors(queue) == {"Default": 2}
    await queue.push("orders", drafts(1, first=2))
    assert await pop_all(queue) == [b"2"]


# Deleting.


async def test_a_deleted_queue_is_gone(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    await queue.queues.delete("orders")

    assert await queue.queues.list() == []
    assert await queue.pop("orders") is None
    with pytest.raises(QueueNotFound):
        await queue.messages.list("orders")
    with pytest.raises(QueueNotFound):
        await queue.queues.delete("orders")


async def test_a_deleted_queue_is_gone_for_the_next_process(store: Store) -> None:
    before = await make_broker(store).__aenter__()
    await before.push("orders", drafts(1))
    await before.pop("orders")
    await before.queues.delete("orders")

    async with make_broker(store) as after:
        assert await after.queues.list() == []
        assert await after.groups.list() == []


async def test_a_queue_that_is_configured_and_deleted_at_once_is_gone_or_works(
    store: Store,
) -> None:
    async with make_broker(store) as queue:
        await queue.queues.configure("orders")

        await asyncio.gather(
            queue.queues.configure("orders", lease_time=5), queue.queues.delete("orders")
        )

        assert await queue.queues.list() == await store.queues()
        await queue.push("orders", drafts(1))
        assert payloads(await pop(queue)) == [b"0"]


async def test_a_queue_that_is_deleted_and_configured_at_once_works(store: Store) -> None:
    async with make_broker(store) as queue:
        await queue.push("orders", drafts(3))

        await asyncio.gather(
            queue.queues.delete("orders"), queue.queues.configure("orders", lease_time=5)
        )

        assert await queue.queues.list() == await store.queues()
        await queue.push("orders", drafts(1, first=3))
        assert payloads(await pop(queue, batch=10)) == [b"3"]


@pytest.mark.parametrize("mode", ["all", "new"])
async def test_the_first_pop_of_a_group_from_a_queue_that_is_being_deleted_finds_nothing(
    queue: Broker, mode: str
) -> None:
    await queue.push("orders", drafts(1))

    found, _ = await asyncio.gather(
        queue.pop("orders", group="mail", subscription_mode=mode), queue.queues.delete("orders")
    )

    assert found is None


async def test_deleted_queues_do_not_stay_in_memory_because_leases_were_out(
    held: GatedStore,
) -> None:
    async with make_broker(held) as queue:
        for n in range(300):
            await queue.push(f"leased-{n}", drafts(1))
            await pop(queue, f"leased-{n}")
            await queue.queues.delete(f"leased-{n}")

        # Memory is freed after the response. Other tests of this process use other names.
        await until(few_queues_are_kept)


async def few_queues_are_kept() -> bool:
    gc.collect()
    states = [known for known in gc.get_objects() if isinstance(known, QueueState)]
    return sum(state.config.name.startswith("leased-") for state in states) < 150


async def test_of_two_who_delete_a_queue_at_once_one_is_told_that_it_is_gone(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(1))

    results = await asyncio.gather(
        queue.queues.delete("orders"), queue.queues.delete("orders"), return_exceptions=True
    )

    assert {type(result) for result in results} == {type(None), QueueNotFound}


class FailingStore(MemoryStore):
    """Cannot delete a queue or a group until it is mended."""

    failing = True

    def __init__(self, *, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.answers = asyncio.Event()
        """Cleared while deletions get no answer."""
        self.answers.set()

    async def delete_queue(self, queue: int) -> bool:
        await asyncio.sleep(0)
        await self.answers.wait()
        if self.failing:
            raise Unavailable("no connection")
        return await super().delete_queue(queue)

    async def delete_group(self, queue: int, group: str) -> None:
        if self.failing:
            raise Unavailable("no connection")
        await super().delete_group(queue, group)


async def test_a_queue_that_could_not_be_deleted_is_as_it_was(clock: ManualClock) -> None:
    store = FailingStore(clock=clock)
    async with make_broker(store) as queue:
        await queue.push("orders", drafts(2))
        delivery = await pop(queue)

        with pytest.raises(Unavailable):
            await queue.queues.delete("orders")

        assert [each.name for each in await queue.queues.list()] == ["orders"]
        assert (await queue.ack(delivery)).completed == 1
        assert payloads(await pop(queue)) == [b"1"]
        store.failing = False
        await queue.queues.delete("orders")
        assert await queue.queues.list() == []


async def test_a_group_that_could_not_be_deleted_is_as_it_was(clock: ManualClock) -> None:
    store = FailingStore(clock=clock)
    async with make_broker(store) as queue:
        await queue.push("orders", drafts(2))
        delivery = await pop(queue, group="mail")

        with pytest.raises(Unavailable):
            await queue.groups.delete("orders", "mail")

        assert [each.group for each in await queue.groups.list("orders")] == ["mail"]
        assert (await queue.ack(delivery)).completed == 1
        assert payloads(await pop(queue, group="mail")) == [b"1"]
        store.failing = False
        await queue.groups.delete("orders", "mail")
        assert await queue.groups.list("orders") == []


async def test_a_pop_in_a_queue_that_could_not_be_deleted_starts_where_it_asked_to(
    clock: ManualClock,
) -> None:
    store = FailingStore(clock=clock)
    async with make_broker(store) as queue:
        await queue.push("orders", drafts(2))

        store.answers.clear()
        deletion = await start(queue.queues.delete("orders"))
        poll = await start(queue.pop("orders", group="mail", subscription_mode="new", wait=30))
        store.answers.set()
        await raises_unavailable(deletion)
        await until(partial(has_group, queue, "orders", "mail"))

        await queue.push("orders", drafts(1, first=2))

        assert payloads(await poll) == [b"2"]


@pytest.mark.parametrize("place", [{"queue": "orders"}, {"namespace": "shop"}], ids=str)
async def test_polls_of_a_queue_that_could_not_be_deleted_go_on(
    clock: ManualClock, place: dict[str, Any]
) -> None:
    store = FailingStore(clock=clock)
    async with make_broker(store) as queue, asyncio.timeout(PATIENCE):
        await queue.queues.configure("orders", namespace="shop")
        before = await start(queue.pop(group="before", wait=30, **place))
        store.answers.clear()
        deletion = await start(queue.queues.delete("orders"))
        during = await start(queue.pop(group="during", wait=30, **place))
        store.answers.set()
        await raises_unavailable(deletion)

        await queue.push("orders", drafts(1))

        assert payloads(await before) == payloads(await during) == [b"0"]


async def test_a_poll_of_a_group_that_could_not_be_deleted_goes_on_where_it_was(
    clock: ManualClock,
) -> None:
    store = FailingStore(clock=clock)
    async with make_broker(store) as queue, asyncio.timeout(PATIENCE):
        await queue.push("orders", drafts(1))
        assert await queue.pop("orders", group="mail", subscription_mode="new") is None
        poll = await start(queue.pop("orders", group="mail", wait=30))
        await raises_unavailable(queue.groups.delete("orders", "mail"))

        await queue.push("orders", drafts(1, first=1))

        assert payloads(await poll) == [b"1"]


async def raises_unavailable(work: Awaitable[object]) -> None:
    with pytest.raises(Unavailable):
        await work


async def has_group(queue: Broker, name: str, group: str) -> bool:
    return group in {each.group for each in await queue.groups.list(name)}


async def _is_empty(queue: QueueState) -> bool:
    return not queue.partitions


async def test_the_memory_of_a_deleted_queue_is_freed_piece_by_piece_after_the_answer(
    clock: ManualClock,
) -> None:
    store = MemoryStore(clock=clock)
    async with make_broker(store) as queue:
        await queue.push("orders", [Draft(b"x", f"p{n}") for n in range(5000)])
        (known,) = queue._parts.registry.queues.values()

        await queue.queues.delete("orders")

        assert known.partitions
        await until(lambda: _is_empty(known))
        assert queue._parts.registry.partitions == {}


async def deleted_partition(queue: Broker) -> int:
    """The number of a partition whose queue was deleted a moment ago."""
    (receipt,) = await queue.push("orders", drafts(1))
    number = (await queue.messages.get(receipt.id)).partition_number
    await queue.queues.delete("orders")
    return number


async def test_nothing_of_a_deleted_queue_is_found_while_its_memory_is_being_freed(
    queue: Broker,
) -> None:
    first, *_ = await queue.push("orders", [Draft(b"{}", f"p-{n}") for n in range(5000)])

    await queue.queues.delete("orders")

    with pytest.raises(MessageNotFound):
        await queue.messages.get(first.id)
    with pytest.raises(MessageNotFound):
        await queue.insight.messages.get(first.id)


async def test_the_rows_of_a_deleted_queue_are_removed_in_the_background(store: Store) -> None:
    async with Broker(store, sweep_interval=3600) as queue:
        number = await deleted_partition(queue)
        left = await store.read(number, 0, messages=1, size=1)

        async def is_removed() -> bool:
            return await store.read(number, 0, messages=1, size=1) == []

        assert left
        await until(is_removed)


async def test_a_sweep_removes_the_rows_of_deleted_queues(store: Store) -> None:
    async with make_broker(store) as queue:
        number = await deleted_partition(queue)

        await queue.sweep()

        assert await store.read(number, 0, messages=1, size=1) == []


async def test_other_queues_are_not_touched_when_one_is_deleted(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await queue.push("invoices", drafts(2))
    delivery = await pop(queue, "invoices")

    await queue.queues.delete("orders")

    assert (await queue.ack(delivery)).completed == 1
    assert await pop_all(queue, "invoices") == [b"1"]


async def test_ids_of_a_deleted_queue_do_not_resolve_in_the_one_made_after_it(
    queue: Broker,
) -> None:
    (old,) = await queue.push("orders", [Draft(b"old", transaction_id="t-1")])
    await queue.queues.delete("orders")

    (new,) = await queue.push("orders", [Draft(b"new", transaction_id="t-1")])

    assert (new.offset, new.duplicate) == (0, False)
    assert new.id != old.id
    with pytest.raises(MessageNotFound):
        await queue.messages.get(old.id)
    with pytest.raises(MessageNotFound):
        await queue.messages.delete(old.id)
    found = await queue.messages.find("orders", "Default", "t-1")
    assert found is not None
    assert found.payload == b"new"
    assert await queue.messages.find("orders", "Default", str(old.id)) is None


async def test_groups_of_a_deleted_queue_are_gone(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    await queue.ack(await pop(queue, group="billing", batch=2))
    await queue.queues.delete("orders")

    await queue.push("orders", drafts(1, first=7))

    assert await queue.groups.list("orders") == []
    with pytest.raises(GroupNotFound):
        await queue.groups.lag("orders", "billing")
    assert await pop_all(queue, group="billing") == [b"7"]


async def test_a_lease_on_a_deleted_queue_is_lost(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue)

    await queue.queues.delete("orders")

    with pytest.raises(LeaseLost):
        await queue.ack(delivery)
    with pytest.raises(LeaseLost):
        await queue.extend(delivery, 60)


async def test_options_history_and_dead_letters_go_with_their_queue(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0, namespace="shop")
    await queue.push("orders", drafts(2))
    await queue.fail(await pop(queue, batch=2))
    await queue.queues.clear("orders")
    await queue.queues.delete("orders")

    await queue.push("orders", drafts(1))

    assert (await queue.queues.get("orders")).options == QueueOptions()
    assert await queue.dead_letters.list("orders") == []
    assert await queue.queues.removals("orders") == []
    assert (await queue.queues.stats("orders")).pushed == 1


async def test_traces_go_with_their_queue(queue: Broker) -> None:
    (receipt,) = await queue.push("orders", drafts(1))
    await queue.traces.record(receipt.id, "info", b"{}", names=["checkout"])

    await queue.queues.delete("orders")

    assert await queue.traces.events(receipt.id) == []
    assert await queue.traces.named("checkout") == []
    assert await queue.traces.names() == []


async def test_a_queue_is_created_with_its_first_partition_and_the_labels_in_its_name(
    queue: Broker,
) -> None:
    config, number = await queue.queues.create("shop.orders.eu", task="own", lease_time=60)

    assert (config.namespace, config.task, config.options.lease_time) == ("shop", "own", 60)
    assert [(p.name, p.number) for p in await queue.queues.partitions("shop.orders.eu")] == [
        ("Default", number)
    ]
    assert (await queue.queues.create("shop.orders.eu"))[1] == number
    assert (await queue.queues.get("shop.orders.eu")).options.lease_time == 300


async def test_a_queue_that_cannot_be_created_is_not_there(queue: Broker) -> None:
    with pytest.raises(Invalid, match="lease_time"):
        await queue.queues.create("orders", lease_time=0)

    assert await queue.queues.list() == []
