"""How far groups are behind: exactly, in messages and in time."""

from datetime import timedelta

import pytest

from skep import Broker
from skep.errors import GroupNotFound, NotFound
from skep.model.lease_id import worker_id_of
from skep.model.name import QUEUE_MODE, to_datetime
from skep.model.queue import Partition
from skep.store.memory import MemoryStore
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, make_broker, moment, pop
from tests.support.restartable_broker import Restarts


def everything(queue: str) -> bool:
    return True


async def test_a_group_is_behind_by_what_it_has_not_done(queue: Broker) -> None:
    await queue.push("orders", [*drafts(5, "a"), *drafts(2, "b")])
    delivery = await pop(queue, partition="a", batch=4)
    await queue.ack(delivery, delivery.messages[2:])

    (lag,) = await queue.insight.groups.groups(everything)

    assert (lag.group, lag.queue, lag.backlog) == (QUEUE_MODE, "orders", 5)
    assert (lag.partitions_with_backlog, lag.leased_partitions, lag.members) == (2, 1, 1)


async def test_the_age_of_what_waits_is_read_where_it_is_not_known(
    queue: Broker, clock: ManualClock
) -> None:
    for _ in range(5):
        await queue.push("orders", drafts(1, "a"))
        clock.advance(10)
    await queue.push("orders", drafts(1, "b"))
    await pop(queue, batch=9, partitions=2, auto_ack=True)
    await queue.groups.seek("orders", QUEUE_MODE, 3, partition="a")

    lag = await queue.insight.groups.group("orders", QUEUE_MODE)

    assert lag.backlog == 2
    assert lag.oldest_at == moment(clock, -20)


async def fill_and_read(queue: Broker, names: list[str]) -> None:
    """Let a group have read a message in each partition, and no more."""
    await queue.push("orders", [draft for name in names for draft in drafts(1, name)])
    while await queue.pop("orders", batch=1000, partitions=100, auto_ack=True):
        pass


async def test_the_oldest_of_more_partitions_than_are_read_is_known_exactly_after_a_restart(
    server: Restarts, clock: ManualClock
) -> None:
    names = [f"p{number}" for number in range(150)]
    async with server.run() as queue:
        await fill_and_read(queue, names)
        clock.advance(10)
        await queue.push("orders", [draft for name in names[100:] for draft in drafts(1, name)])
        clock.advance(10)
        await queue.push("orders", [draft for name in names[:100] for draft in drafts(1, name)])
    async with server.run() as queue:
        lag = await queue.insight.groups.group("orders", QUEUE_MODE)

        assert lag.oldest_at == moment(clock, -10)


async def test_an_age_that_is_not_known_after_a_restart_is_not_told_later_and_soon_exactly(
    server: Restarts, clock: ManualClock
) -> None:
    names = [f"p{number}" for number in range(150)]
    async with server.run() as queue:
        await fill_and_read(queue, names)
        clock.advance(10)
        await queue.push("orders", [draft for name in names[100:] for draft in drafts(1, name)])
        clock.advance(10)
        await queue.push("orders", [draft for name in names[:100] for draft in drafts(1, name)])
        await queue.push("orders", [draft for name in names for draft in drafts(1, name)])
    async with server.run() as queue:
        first = await queue.insight.groups.group("orders", QUEUE_MODE)
        second = await queue.insight.groups.group("orders", QUEUE_MODE)

        assert first.oldest_at == moment(clock, -20)
        assert second.oldest_at == moment(clock, -10)


async def test_messages_that_are_found_when_a_partition_is_read_again_are_not_taken_for_the_newest(
    clock: ManualClock,
) -> None:
    async with make_broker(MemoryStore(clock=clock)) as queue:
        await fill_and_read(queue, ["a"])
        known = queue._parts.registry.partition("orders", "a")
        pushed_at = clock.now()
        clock.advance(10)
        found = Partition(
            number=known.number,
            queue=known.queue.config.number,
            name="a",
            created_at=known.created_at,
            end=3,
            first_at=known.first_at,
            newest_at=clock.now(),
        )

        queue._parts.registry.adopt(known.queue, found)

        (lag,) = await queue.groups.lag("orders", QUEUE_MODE)
        assert lag.backlog == 2
        assert lag.oldest_at == to_datetime(pushed_at)


async def test_a_group_that_has_read_all_has_nothing_old(queue: Broker) -> None:
    await queue.push("orders", drafts(2))
    await pop(queue, batch=2, auto_ack=True)

    lag = await queue.insight.groups.group("orders", QUEUE_MODE)

    assert (lag.backlog, lag.oldest_at) == (0, None)


async def test_groups_of_queues_that_are_not_seen_are_not_shown(queue: Broker) -> None:
    for name in ("orders", "payments"):
        await queue.push(name, drafts(1))
        await pop(queue, name, group="billing")

    shown = await queue.insight.groups.groups(lambda name: name == "payments")

    assert [lag.queue for lag in shown] == ["payments"]
    assert await queue.insight.groups.find("billing", everything) == ["orders", "payments"]
    with pytest.raises(NotFound):
        await queue.insight.groups.find("billing", lambda name: False)


async def test_places_show_cursor_lease_and_age_in_each_partition(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", [*drafts(3, "a"), *drafts(1, "b")])
    clock.advance(7)
    delivery = await pop(queue, partition="a", batch=1, lease_seconds=60)

    a, b = await queue.insight.groups.partitions("orders", QUEUE_MODE, limit=10)

    assert (a.partition, a.cursor, a.backlog) == ("a", 0, 3)
    assert delivery.lease_id is not None
    assert a.worker_id == worker_id_of(delivery.lease_id)
    assert a.lease_expires_at == moment(clock, 60)
    assert (b.partition, b.backlog, b.leased, b.oldest_at) == ("b", 1, False, moment(clock, -7))


async def test_lagging_finds_what_waits_long_enough_the_oldest_first(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1, "old"))
    clock.advance(50)
    await queue.push("payments", drafts(1, "older-than-a-minute"))
    clock.advance(70)
    await queue.push("orders", drafts(1, "new"))
    await queue.pop("orders", partition="none")
    await queue.pop("payments", partition="none")

    found = await queue.insight.groups.lagging(everything, seconds=60, limit=10)
    first = await queue.insight.groups.lagging(everything, seconds=60, limit=1)

    assert [place.lag.partition for place in found] == ["old", "older-than-a-minute"]
    assert [place.lag.partition for place in first] == ["old"]


async def test_lagging_is_not_fooled_by_what_was_there_before_a_seek(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(1))
    clock.advance(100)
    await queue.push("orders", drafts(1))
    await queue.pop("orders", partition="none")
    await queue.groups.seek("orders", QUEUE_MODE, 1)

    assert await queue.insight.groups.lagging(everything, seconds=60, limit=10) == []


async def test_depth_counts_what_a_group_has_not_read(queue: Broker) -> None:
    await queue.push("orders", [*drafts(3, "a"), *drafts(2, "b"), *drafts(1, "c")])
    await pop(queue, partition="a", batch=3, group="billing", auto_ack=True)

    depth = await queue.insight.groups.backlog("orders", "billing", limit=1)

    assert (depth.backlog, depth.partitions_with_backlog) == (3, 2)
    assert depth.partitions == [("b", 2)]


async def test_depth_is_all_there_is_if_nobody_has_popped(queue: Broker) -> None:
    await queue.push("orders", drafts(3))

    depth = await queue.insight.groups.backlog("orders", QUEUE_MODE, limit=10)

    assert depth.backlog == 3
    with pytest.raises(GroupNotFound):
        await queue.insight.groups.backlog("orders", "unknown", limit=10)


# Starting again.


async def test_a_restart_moves_a_group_to_where_it_once_started(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", drafts(2))
    clock.advance(10)
    await queue.pop("orders", group="new", subscription_mode="new")
    await queue.pop("orders", group="from", subscription_from=moment(clock, -5))
    clock.advance(10)
    await queue.push("orders", drafts(3, first=2))
    for group in ("all", "new", "from"):
        await pop(queue, group=group, batch=9, auto_ack=True)

    for group in ("all", "new", "from"):
        assert await queue.groups.restart("orders", group) == 1

    first = {g: (await pop(queue, group=g)).messages[0].payload for g in ("all", "new", "from")}
    assert first == {"all": b"0", "new": b"2", "from": b"2"}


async def test_a_resubscription_moves_a_group_where_it_has_read_nothing(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.push("orders", [*drafts(2, "read"), *drafts(2, "unread")])
    clock.advance(10)
    await queue.push("orders", [*drafts(1, "read", first=2), *drafts(1, "unread", first=2)])
    await pop(queue, partition="read", auto_ack=True)

    moved = await queue.groups.resubscribe(
        "orders", QUEUE_MODE, moment(clock) - timedelta(seconds=1)
    )

    assert moved == 1
    assert [lag.cursor for lag in await queue.groups.lag("orders", QUEUE_MODE)] == [1, 2]


async def test_an_offset_that_one_partition_does_not_have_moves_none(queue: Broker) -> None:
    await queue.push("orders", [*drafts(5, "a"), *drafts(1, "b")])
    await queue.pop("orders", partition="none")

    with pytest.raises(Exception, match="lies beyond the end of 'b'"):
        await queue.groups.seek("orders", QUEUE_MODE, 2)

    assert [lag.cursor for lag in await queue.groups.lag("orders", QUEUE_MODE)] == [0, 0]
