"""Queues in numbers: what they say adds up, and is what messages say one by one."""

import pytest

from skep import Broker
from skep.model.stats import Counts, ErrorCounts, LeaseCounts
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, finish, letters, long_poll, moment, pop


async def counts(queue: Broker, name: str = "orders") -> Counts:
    return (await queue.insight.queues.queue(name)).counts


def everything(queue: str) -> bool:
    return True


async def test_everything_is_pending_as_long_as_nobody_has_popped(queue: Broker) -> None:
    await queue.push("orders", drafts(3))

    found = await counts(queue)

    assert found == Counts(total=3, pending=3)
    assert found.completed == 0


async def test_what_is_held_is_processing_and_what_is_done_completed(queue: Broker) -> None:
    await queue.push("orders", drafts(10))
    delivery = await pop(queue, batch=6)

    await queue.ack(delivery, [delivery.messages[0], delivery.messages[3]])

    found = await counts(queue)
    assert found == Counts(total=10, pending=4, processing=4)
    assert found.completed == 2


async def test_a_lease_that_has_run_out_holds_nothing(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", lease_time=10)
    await queue.push("orders", drafts(3))
    await pop(queue, batch=2)

    clock.advance(10)

    assert await counts(queue) == Counts(total=3, pending=3)


async def test_a_message_is_completed_when_every_group_is_done_with_it(queue: Broker) -> None:
    await queue.push("orders", drafts(4))
    await queue.ack(await pop(queue, batch=3, group="billing"))
    await queue.ack(await pop(queue, batch=1, group="stock"))

    await pop(queue, batch=1, group="stock")

    found = await counts(queue)
    assert found == Counts(total=4, pending=2, processing=1)
    assert found.completed == 1


async def test_what_failed_and_waits_for_another_try_is_pending_and_counted_as_failed(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(3))

    await queue.fail(await pop(queue, batch=2))

    assert await counts(queue) == Counts(total=3, pending=3, failed=2)


async def test_dead_letters_are_counted_again_when_they_change(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(3))
    await queue.fail(await pop(queue, batch=2))
    assert await queue.insight.queues.dead_letters("orders") == 2
    first, second = await letters(queue)

    await queue.dead_letters.delete("orders", [first.number])
    assert await queue.insight.queues.dead_letters("orders") == 1
    await queue.dead_letters.replay("orders", [second.number])
    assert await queue.insight.queues.dead_letters("orders") == 0


async def test_partitions_are_summed_up_one_by_one(queue: Broker, clock: ManualClock) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", drafts(2, "a"))
    clock.advance(5)
    await queue.push("orders", [*drafts(1, "b"), *drafts(1, "a")])
    await queue.fail(await pop(queue, partition="a", batch=2))

    a, b = await queue.insight.queues.partitions("orders")

    assert (a.name, a.counts) == ("a", Counts(total=3, pending=1, dead_letters=2))
    assert (b.name, b.counts) == ("b", Counts(total=1, pending=1))
    assert (a.first_at, a.newest_at) == (moment(clock, -5), moment(clock))
    assert (a.created_at, b.created_at) == (moment(clock, -5), moment(clock))


async def test_partitions_come_in_pages(queue: Broker) -> None:
    await queue.push("orders", [draft for n in range(5) for draft in drafts(1, f"p{n}")])

    found = await queue.insight.queues.partitions("orders", offset=1, limit=2)

    assert [each.name for each in found] == ["p1", "p2"]


async def test_queues_are_found_by_label_and_only_those_that_are_seen(queue: Broker) -> None:
    for name in ("shop.orders", "shop.payments", "ops.orders"):
        await queue.push(name, drafts(1))

    async def find(**labels: str) -> list[str]:
        seen = await queue.insight.queues.find(lambda name: name != "shop.payments", **labels)
        return [config.name for config in seen]

    assert await find() == ["ops.orders", "shop.orders"]
    assert await find(namespace="shop") == ["shop.orders"]
    assert await find(task="orders") == ["ops.orders", "shop.orders"]
    assert await find(task="none") == []


async def test_leases_are_counted_with_what_they_hold(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", [*drafts(3, "a"), *drafts(2, "b")])
    delivery = await pop(queue, batch=9, partitions=2)
    await pop(queue, batch=1, group="billing")
    await queue.ack(delivery, delivery.messages[:1])
    queues = await queue.insight.queues.find(everything)

    live = await queue.insight.queues.leases(queues)
    clock.advance(301)
    later = await queue.insight.queues.leases(queues)

    assert live == LeaseCounts(active=2, partitions=3, held=5, acked=1)
    assert later == LeaseCounts()


@pytest.mark.one_server("a server counts those who wait at it")
async def test_who_waits_is_counted_by_queue_and_group(queue: Broker) -> None:
    await queue.queues.configure("orders")
    polls = [
        await long_poll(queue),
        await long_poll(queue),
        await long_poll(queue, group="billing"),
        await long_poll(queue, "missing"),
    ]

    found = queue.insight.queues.parked(everything)
    hidden = queue.insight.queues.parked(lambda name: name == "missing")

    assert found == {("orders", "__QUEUE_MODE__"): 2, ("orders", "billing"): 1}
    assert hidden == {}
    queue.drain()
    for poll in polls:
        assert await finish(poll) is None


async def test_reasons_are_counted_the_most_frequent_first(queue: Broker) -> None:
    await queue.queues.configure("orders", retry_limit=0)
    await queue.push("orders", [*drafts(2, "a"), *drafts(1, "b")])
    await queue.fail(await pop(queue, partition="a", batch=2), error="too large")
    await queue.fail(await pop(queue, partition="b"), error="no stock")

    found = await queue.insight.queues.errors(await queue.insight.queues.find(everything))

    assert found == ErrorCounts(reasons=[("too large", 2), ("no stock", 1)], partitions=2)


async def test_removals_are_those_of_the_time_asked_for(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(3))
    await queue.queues.clear("orders")
    clock.advance(60)
    await queue.push("orders", drafts(2))
    await queue.queues.clear("orders")
    queues = await queue.insight.queues.find(everything)

    found = await queue.insight.queues.removals(queues, clock.now() - 1, clock.now())

    assert [(removal.kind, removal.messages) for removal in found] == [("cleared", 2)]
