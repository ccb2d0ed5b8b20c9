"""Groups: where they start, that they do not know of each other, and how they end."""

import asyncio
from datetime import timedelta

import pytest

from skep import Broker
from skep.errors import GroupNotFound, LeaseLost
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    backlogs,
    cursors,
    drafts,
    finish,
    long_poll,
    make_broker,
    moment,
    offsets,
    partitions,
    payloads,
    pop,
    pop_all,
    start,
)
from tests.support.gated_store import GatedStore

A_MICROSECOND = timedelta(microseconds=1)


async def test_a_group_starts_at_the_beginning_unless_it_says_otherwise(queue: Broker) -> None:
    await queue.push("orders", drafts(3))

    delivery = await pop(queue, group="billing", batch=10)

    assert offsets(delivery) == [0, 1, 2]


async def test_each_group_sees_every_message(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(2, "bob")])

    seen = [
        sorted(await pop_all(queue, group=name, batch=2)) for name in ("billing", "mail", "audit")
    ]

    assert seen == [[b"0", b"0", b"1", b"1"]] * 3


async def test_a_lease_of_one_group_hides_nothing_from_another(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    await pop(queue, group="billing", batch=2)

    delivery = await pop(queue, group="mail", batch=2)

    assert offsets(delivery) == [0, 1]


async def test_groups_move_independently(queue: Broker) -> None:
    await queue.push("orders", drafts(5))
    await queue.ack(await pop(queue, group="billing", batch=4))
    await queue.ack(await pop(queue, group="mail", batch=1))

    assert await backlogs(queue, group="billing") == {"Default": 1}
    assert await backlogs(queue, group="mail") == {"Default": 4}


async def test_a_failure_of_one_group_delays_no_other(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await queue.fail(await pop(queue, group="billing"))

    delivery = await pop(queue, group="mail")

    assert [(m.offset, m.attempt) for m in delivery.messages] == [(0, 1)]


async def test_a_group_of_the_same_name_is_another_in_another_queue(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await queue.push("invoices", drafts(1))
    await queue.ack(await pop(queue, "orders", group="billing"))

    delivery = await pop(queue, "invoices", group="billing")

    assert offsets(delivery) == [0]


# New.


async def test_a_new_group_skips_what_was_there_before_its_first_contact(queue: Broker) -> None:
    await queue.push("orders", [*drafts(2, "alice"), *drafts(2, "bob")])

    first = await queue.pop("orders", group="mail", batch=10, subscription_mode="new")

    assert first is None
    await queue.push("orders", drafts(1, "bob", first=2))
    delivery = await pop(queue, group="mail", batch=10)
    assert payloads(delivery) == [b"2"]


async def test_a_new_group_owes_nothing_that_it_skipped(queue: Broker) -> None:
    await queue.push("orders", drafts(2))

    await queue.pop("orders", group="mail", subscription_mode="new")

    assert await backlogs(queue, group="mail") == {"Default": 0}


async def test_a_new_group_reads_a_partition_born_later_from_its_beginning(
    queue: Broker,
) -> None:
    await queue.push("orders", drafts(2, "alice"))
    await queue.pop("orders", group="mail", subscription_mode="new")
    await queue.push("orders", drafts(3, "bob"))

    delivery = await pop(queue, group="mail", batch=10, subscription_mode="new")

    assert partitions(delivery) == ["bob"]
    assert offsets(delivery) == [0, 1, 2]


async def test_a_new_group_of_a_queue_without_messages_gets_the_first(queue: Broker) -> None:
    await queue.queues.configure("orders")
    await queue.pop("orders", group="mail", subscription_mode="new")
    await queue.push("orders", drafts(1))

    delivery = await pop(queue, group="mail", subscription_mode="new")

    assert offsets(delivery) == [0]


async def test_a_new_group_that_waits_for_a_queue_gets_what_makes_it(queue: Broker) -> None:
    waiting = await long_poll(queue, group="mail", subscription_mode="new")

    await queue.push("orders", drafts(1))

    assert offsets(await waiting) == [0]


# From a timestamp.


async def test_a_group_may_start_at_a_timestamp(queue: Broker, clock: ManualClock) -> None:
    for number in range(4):
        await queue.push("orders", drafts(2, first=2 * number))
        clock.advance(10)

    delivery = await pop(queue, group="mail", batch=10, subscription_from=moment(clock, -20))

    assert offsets(delivery) == [4, 5, 6, 7]


async def test_a_message_pushed_at_the_very_timestamp_is_delivered(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    at = moment(clock)
    clock.advance(10)

    exact = await queue.pop("orders", group="mail", subscription_from=at)
    after = await queue.pop("orders", group="audit", subscription_from=at + A_MICROSECOND)

    assert offsets(exact) == [0]
    assert after is None


async def test_a_timestamp_holds_for_each_partition(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1, "alice"))
    clock.advance(10)
    await queue.push("orders", [*drafts(1, "alice", first=1), *drafts(1, "bob")])
    clock.advance(10)
    await queue.push("orders", drafts(1, "carol"))

    delivery = await pop(
        queue, group="mail", batch=10, partitions=10, subscription_from=moment(clock, -10)
    )

    found = sorted((m.partition, m.offset) for m in delivery.messages)
    assert found == [("alice", 1), ("bob", 0), ("carol", 0)]


async def test_a_partition_born_later_is_read_from_its_beginning_after_a_timestamp_too(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1, "alice"))
    clock.advance(10)
    await queue.pop("orders", group="mail", subscription_from=moment(clock, -5))
    await queue.push("orders", drafts(2, "bob"))

    delivery = await pop(queue, group="mail", batch=10)

    assert partitions(delivery) == ["bob"]
    assert offsets(delivery) == [0, 1]


async def test_a_timestamp_before_everything_is_the_beginning(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))

    delivery = await pop(queue, group="mail", batch=10, subscription_from=moment(clock, -(10**6)))

    assert offsets(delivery) == [0, 1]


async def test_a_timestamp_outranks_a_mode(queue: Broker, clock: ManualClock) -> None:
    await queue.push("orders", drafts(1))
    clock.advance(10)

    delivery = await pop(
        queue, group="mail", subscription_mode="new", subscription_from=moment(clock, -10)
    )

    assert offsets(delivery) == [0]


async def test_a_group_that_starts_at_a_time_to_come_starts_now(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    await queue.pop("orders", group="mail", subscription_from=moment(clock, 60))
    await queue.push("orders", drafts(1, first=1))

    delivery = await pop(queue, group="mail", batch=10)

    assert payloads(delivery) == [b"1"]


# The first registration wins.


async def test_a_subscription_matters_at_the_first_contact_only(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    await queue.ack(await pop(queue, group="mail", subscription_mode="all"))

    delivery = await pop(queue, group="mail", subscription_mode="new")

    assert offsets(delivery) == [1]


async def test_a_new_group_stays_new_whatever_is_asked_later(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    clock.advance(10)
    await queue.pop("orders", group="mail", subscription_mode="new")

    as_all = await queue.pop("orders", group="mail", subscription_mode="all")
    as_of = await queue.pop("orders", group="mail", subscription_from=moment(clock, -10))

    assert (as_all, as_of) == (None, None)
    assert [lag.subscription_mode for lag in await queue.groups.list("orders")] == ["new"]


@pytest.mark.one_server("of two servers either may be the first")
async def test_of_first_contacts_at_the_same_time_one_wins(queue: Broker) -> None:
    await queue.push("orders", drafts(1))

    first, second = await asyncio.gather(
        queue.pop("orders", group="mail", subscription_mode="new"),
        queue.pop("orders", group="mail", subscription_mode="all"),
    )

    assert (first, second) == (None, None)
    assert [lag.subscription_mode for lag in await queue.groups.list("orders")] == ["new"]


async def test_the_first_contact_is_with_a_queue_not_with_all(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await queue.push("invoices", drafts(1))
    await queue.pop("orders", group="mail", subscription_mode="new")

    delivery = await pop(queue, "invoices", group="mail")

    assert offsets(delivery) == [0]


# The end of a group.


async def test_a_deleted_group_is_unknown(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    await pop(queue, group="mail")

    await queue.groups.delete("orders", "mail")

    assert await queue.groups.list("orders") == []
    with pytest.raises(GroupNotFound):
        await queue.groups.lag("orders", "mail")


async def test_the_pop_after_a_deletion_is_a_first_contact_again(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.ack(await pop(queue, group="mail", batch=2))
    await queue.groups.delete("orders", "mail")

    delivery = await pop(queue, group="mail", batch=10)

    assert [(m.offset, m.attempt) for m in delivery.messages] == [(0, 1), (1, 1), (2, 1)]


async def test_a_group_may_subscribe_otherwise_after_its_deletion(queue: Broker) -> None:
    await queue.push("orders", drafts(3))
    await queue.ack(await pop(queue, group="mail", subscription_mode="all"))
    await queue.groups.delete("orders", "mail")

    delivery = await queue.pop("orders", group="mail", subscription_mode="new")

    assert delivery is None
    assert await backlogs(queue, group="mail") == {"Default": 0}


async def test_a_lease_of_a_deleted_group_is_lost(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    delivery = await pop(queue, group="mail")
    await queue.groups.delete("orders", "mail")
    again = await pop(queue, group="mail")

    with pytest.raises(LeaseLost):
        await queue.ack(delivery)

    assert (await queue.ack(again)).completed == 1


async def test_a_deletion_touches_no_other_group(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    delivery = await pop(queue, group="billing")
    await pop(queue, group="mail")

    await queue.groups.delete("orders", "mail")

    assert (await queue.ack(delivery)).completed == 1
    assert await backlogs(queue, group="billing") == {"Default": 1}


async def test_a_group_that_is_deleted_while_it_waits_starts_again_with_the_next_message(
    queue: Broker,
) -> None:
    await queue.queues.configure("orders")
    waiting = await long_poll(queue, group="mail")
    await queue.groups.delete("orders", "mail")

    await queue.push("orders", drafts(1))

    assert offsets(await finish(waiting)) == [0]


async def test_a_group_that_is_deleted_while_it_pops_can_start_again(queue: Broker) -> None:
    await queue.push("orders", drafts(1))
    assert await queue.pop("orders", group="mail", partition="bob") is None
    under_way = asyncio.create_task(queue.pop("orders", group="mail"))
    await asyncio.sleep(0)
    await queue.groups.delete("orders", "mail")
    # It may be what starts again.
    early = await under_way

    again = early or await finish(await start(queue.pop("orders", group="mail", wait=10)))

    assert offsets(again) == [0]


async def test_a_pop_under_way_does_not_move_a_group_that_was_deleted_and_came_back(
    held: GatedStore,
) -> None:
    async with make_broker(held) as queue:
        await queue.push("orders", drafts(2))
        await queue.pop("orders", group="mail", subscription_mode="new")
        await queue.push("orders", drafts(1, first=2))
        held.hold()
        late = await start(queue.pop("orders", group="mail"))
        await queue.groups.delete("orders", "mail")
        back = await start(queue.pop("orders", group="mail", subscription_mode="new"))

        held.release()

        assert (await finish(late), await finish(back)) == (None, None)
        assert await cursors(queue, group="mail") == {"Default": 3}
