"""Pops by namespace and task: from all queues with the label, the most urgent first."""

from typing import Any

import pytest

from skep import Broker, Delivery
from skep.errors import LeaseLost
from skep.testing.clock import ManualClock
from tests.support.broker_builders import backlogs, drafts, lease_of, moment, offsets, pop


async def make(queue: Broker, name: str, *, priority: int = 0, task: str | None = None) -> None:
    """A queue of the shop with one message."""
    await queue.queues.configure(name, namespace="shop", task=task, priority=priority)
    await queue.push(name, drafts(1))


def queues(delivery: Delivery | None) -> list[str]:
    return [message.queue for message in delivery.messages] if delivery else []


async def served(queue: Broker, **asked: Any) -> list[str]:
    """The queues of the messages that pops and acks give, until there are no more."""
    found: list[str] = []
    while delivery := await queue.pop(**asked):
        found += queues(delivery)
        await queue.ack(delivery)
    return found


async def test_a_pop_by_namespace_serves_higher_priorities_first(queue: Broker) -> None:
    await make(queue, "low", priority=-1)
    await make(queue, "middle")
    await make(queue, "high", priority=10)

    found = await served(queue, namespace="shop")

    assert found == ["high", "middle", "low"]


async def test_a_priority_outranks_age(queue: Broker, clock: ManualClock) -> None:
    await make(queue, "low", priority=1)
    clock.advance(3600)
    await make(queue, "high", priority=2)

    delivery = await queue.pop(namespace="shop")

    assert queues(delivery) == ["high"]


async def test_among_queues_of_one_priority_the_oldest_message_goes_first(
    queue: Broker, clock: ManualClock
) -> None:
    for name in ("zebra", "ant", "moose"):
        await make(queue, name)
        clock.advance(1)

    found = await served(queue, namespace="shop")

    assert found == ["zebra", "ant", "moose"]


async def test_a_queue_of_lower_priority_is_served_while_the_higher_is_leased(
    queue: Broker,
) -> None:
    await make(queue, "low", priority=1)
    await make(queue, "high", priority=2)
    await queue.pop(namespace="shop")

    delivery = await queue.pop(namespace="shop")

    assert queues(delivery) == ["low"]


async def test_a_pop_takes_from_queues_with_the_label_only(queue: Broker) -> None:
    await make(queue, "orders")
    await queue.queues.configure("invoices", namespace="office", priority=10)
    await queue.push("invoices", drafts(1))
    await queue.push("mails", drafts(1))

    found = await served(queue, namespace="shop")

    assert found == ["orders"]


async def test_a_pop_may_go_by_task(queue: Broker) -> None:
    await make(queue, "orders", task="ship")
    await make(queue, "invoices", task="bill", priority=10)

    found = await served(queue, task="ship")

    assert found == ["orders"]


async def test_a_namespace_and_a_task_must_both_fit(queue: Broker) -> None:
    await make(queue, "orders", task="ship")
    await make(queue, "invoices", task="bill")
    await queue.queues.configure("parcels", namespace="office", task="ship")
    await queue.push("parcels", drafts(1))

    found = await served(queue, namespace="shop", task="ship")

    assert found == ["orders"]


async def test_a_label_that_no_queue_has_gives_nothing(queue: Broker) -> None:
    await make(queue, "orders")

    delivery = await queue.pop(namespace="office")

    assert delivery is None


async def test_one_delivery_may_come_from_several_queues_the_most_urgent_first(
    queue: Broker,
) -> None:
    await make(queue, "low", priority=1)
    await make(queue, "high", priority=3)
    await make(queue, "middle", priority=2)

    delivery = await queue.pop(namespace="shop", batch=2, partitions=5)

    assert queues(delivery) == ["high", "middle"]


async def test_one_ack_settles_a_delivery_from_several_queues(queue: Broker) -> None:
    await make(queue, "orders")
    await make(queue, "invoices")
    delivery = await queue.pop(namespace="shop", batch=2, partitions=2)
    assert delivery is not None

    settlement = await queue.ack(lease_of(delivery))

    assert (settlement.completed, settlement.released) == (2, True)
    assert await queue.pop(namespace="shop") is None


async def test_an_ack_is_late_when_the_lease_has_ended_in_one_of_its_queues(
    queue: Broker, clock: ManualClock
) -> None:
    for name, seconds in (("orders", 10), ("invoices", 300)):
        await queue.queues.configure(name, namespace="shop", lease_time=seconds)
        await queue.push(name, drafts(1))
    delivery = await queue.pop(namespace="shop", batch=2, partitions=2)
    assert delivery is not None
    assert delivery.expires_at is not None
    clock.advance((delivery.expires_at - moment(clock)).total_seconds())

    with pytest.raises(LeaseLost):
        await queue.ack(delivery)

    assert [await backlogs(queue, name) for name in ("orders", "invoices")] == [{"Default": 1}] * 2


async def test_a_pop_by_namespace_shares_the_group_of_each_queue(queue: Broker) -> None:
    await make(queue, "orders")
    await queue.ack(await pop(queue, "orders", group="billing"))

    delivery = await queue.pop(namespace="shop", group="billing")

    assert delivery is None


async def test_a_new_group_by_namespace_skips_what_every_queue_held(queue: Broker) -> None:
    await make(queue, "orders")
    await make(queue, "invoices")

    first = await queue.pop(namespace="shop", group="mail", subscription_mode="new")
    await queue.push("invoices", drafts(1, first=1))
    delivery = await queue.pop(namespace="shop", group="mail", batch=10)

    assert first is None
    assert (queues(delivery), offsets(delivery)) == (["invoices"], [1])


async def test_a_priority_may_be_changed(queue: Broker) -> None:
    await make(queue, "orders", priority=1)
    await make(queue, "invoices", priority=2)

    await queue.queues.configure("orders", namespace="shop", priority=3)

    assert await served(queue, namespace="shop") == ["orders", "invoices"]


async def test_a_queue_made_by_a_push_has_the_labels_of_its_name(queue: Broker) -> None:
    await queue.push("shop.ship", drafts(1))
    await queue.push("office", drafts(1))

    assert queues(await queue.pop(namespace="shop", task="ship")) == ["shop.ship"]
