"""Queues and groups through a client: what the broker says of them."""

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from skep import AsyncClient, Broker, Draft
from skep.client.request import PAGE
from skep.core.journal.journal import Selection
from skep.errors import GroupNotFound, Invalid, PartitionNotFound, QueueNotFound
from skep.model.queue import Queue
from skep.model.stats import QueueSummary
from skep.testing.clock import ManualClock
from tests.support.broker_builders import cursors, drafts, moment, offsets, pop
from tests.support.faulty_transport import Fault, Weather


def as_sent(queue: Queue) -> Queue:
    """A queue as a client knows it: versions of its configuration are the servers' own."""
    return replace(queue, version=0)


def summary_as_sent(summary: QueueSummary) -> QueueSummary:
    return replace(summary, queue=as_sent(summary.queue))


async def test_a_queue_is_configured_and_shown(client: AsyncClient, broker: Broker) -> None:
    made = await client.queues.configure(
        "orders", namespace="shop", task="sell", retry_limit=5, encryption_enabled=False, priority=7
    )

    assert made == await client.queues.get("orders")
    assert made == as_sent(await broker.queues.get("orders"))
    assert (made.options.retry_limit, made.options.lease_time) == (5, 300)


async def test_queues_are_listed_the_most_urgent_first(client: AsyncClient, broker: Broker) -> None:
    await broker.queues.configure("b", namespace="shop")
    await broker.queues.configure("a", namespace="shop", task="sell")
    await broker.queues.configure("c", priority=9)

    assert await client.queues.list() == list(map(as_sent, await broker.queues.list()))
    assert [queue.name for queue in await client.queues.list()] == ["c", "a", "b"]
    shop = list(map(as_sent, await broker.queues.list(namespace="shop")))
    assert await client.queues.list(namespace="shop") == shop
    a = as_sent(await broker.queues.get("a"))
    assert await client.queues.list(namespace="shop", task="sell") == [a]
    assert await client.queues.list(task="none") == []


async def test_a_queue_is_shown_in_numbers(client: AsyncClient, broker: Broker) -> None:
    await broker.push("orders", [*drafts(3), Draft(b"4", "alice")])
    await broker.ack(await pop(broker, group="billing", partition="Default"))
    await broker.fail(await pop(broker, group="shipping", partition="alice"))

    assert await client.queues.stats("orders") == await broker.queues.stats("orders")


async def test_what_became_of_messages_is_counted_by_queue(
    client: AsyncClient, broker: Broker
) -> None:
    await broker.queues.configure("orders", namespace="shop", retry_limit=0)
    await broker.push("orders", [*drafts(3), Draft(b"4", "alice")])
    await broker.fail(await pop(broker, group="billing", partition="alice"))
    await broker.ack(await pop(broker, group="billing", partition="Default"))
    await broker.pop("orders", group="billing")
    await broker.push("mails", drafts(1))

    everything = await client.queues.summaries()

    insight = broker.insight.queues
    assert everything == [
        summary_as_sent(await insight.queue("mails")),
        summary_as_sent(await insight.queue("orders")),
    ]
    assert await client.queues.summaries(namespace="shop") == everything[1:]
    assert await client.queues.summary("orders") == everything[1]
    assert everything[1].counts.dead_letters == 1


async def test_what_became_of_messages_is_counted_by_partition(
    client: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", [*drafts(3), Draft(b"4", "alice")])
    await broker.ack(await pop(broker, group="billing", partition="Default"))

    found = await client.queues.partition_summaries("orders")

    assert found == await broker.insight.queues.partitions("orders")
    assert [each.counts.pending for each in found] == [2, 1]


async def test_what_left_a_queue_is_told_newest_first(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", [*drafts(3), Draft(b"4", "alice")])
    await broker.queues.clear("orders", partition="alice")
    clock.advance(5)
    await broker.queues.clear("orders")

    found = await client.queues.removals("orders")

    assert found == await broker.queues.removals("orders")
    assert [(each.kind, each.messages) for each in found] == [("cleared", 3), ("cleared", 1)]
    assert await client.queues.removals("orders", limit=1) == found[:1]
    with pytest.raises(Invalid):
        await client.queues.removals("orders", limit=0)


async def test_every_partition_of_a_queue_is_listed(client: AsyncClient, broker: Broker) -> None:
    await broker.push("orders", [Draft(b"1", f"p{n}") for n in range(PAGE + 1)])
    await broker.queues.clear("orders", partition="p1")

    found = await client.queues.partitions("orders")

    assert found == list(await broker.queues.partitions("orders"))
    assert len(found) == PAGE + 1


async def test_a_queue_is_cleared_whole_or_by_partition(
    client: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", [*drafts(3), Draft(b"4", "alice")])

    assert await client.queues.clear("orders", partition="alice") == 1
    assert await client.queues.clear("orders") == 3
    assert (await broker.queues.stats("orders")).messages == 0


async def test_a_queue_is_deleted_once(client: AsyncClient, broker: Broker) -> None:
    await broker.push("orders", drafts(1))

    await client.queues.delete("orders")

    assert await broker.queues.list() == []
    with pytest.raises(QueueNotFound):
        await client.queues.delete("orders")


async def test_a_deletion_is_not_repeated(client: AsyncClient, weather: Weather) -> None:
    await client.push("orders", drafts(1))
    weather.coming.append(Fault.ANSWER_LOST)

    with pytest.raises(Exception, match="lost"):
        await client.queues.delete("orders")

    assert weather.count("/resources/queues/orders") == 1


@pytest.mark.parametrize(
    "call",
    [
        "get",
        "stats",
        "summary",
        "partitions",
        "partition_summaries",
        "removals",
        "clear",
        "delete",
    ],
)
async def test_a_queue_that_does_not_exist_is_not_found(client: AsyncClient, call: str) -> None:
    with pytest.raises(QueueNotFound) as caught:
        await getattr(client.queues, call)("orders")

    assert caught.value.queue == "orders"


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"queue": ""}, "queue"),
        ({"queue": "orders", "namespace": ""}, "namespace"),
        ({"queue": "orders", "lease_time": 0}, "lease_time"),
        ({"queue": "orders", "colour": "red"}, "colour"),
    ],
)
async def test_a_configuration_that_makes_no_sense_is_refused(
    client: AsyncClient, broker: Broker, asked: dict[str, Any], field: str
) -> None:
    for queues in (client.queues, broker.queues):
        with pytest.raises(Invalid) as caught:
            await queues.configure(**asked)
        assert caught.value.field == field


async def test_groups_are_listed_with_their_lag(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", [*drafts(3), Draft(b"4", "alice")])
    await broker.push("mails", drafts(1))
    await broker.pop("orders", group="billing", partitions=2, batch=2)
    clock.advance(20)
    await broker.pop("orders", group="late", subscription_mode="new")
    await broker.pop("mails", group="billing", subscription_from=moment(clock, -5))

    assert await client.groups.list("orders") == await broker.groups.list("orders")
    everything = sorted(await broker.groups.list(), key=lambda lag: (lag.queue, lag.group))
    found = sorted(await client.groups.list(), key=lambda lag: (lag.queue, lag.group))
    assert found == everything
    with pytest.raises(QueueNotFound):
        await client.groups.list("none")


async def test_a_groups_place_in_each_partition_is_shown(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", [*drafts(3), Draft(b"4", "alice")])
    await broker.ack(await pop(broker, group="billing", batch=2))
    clock.advance(5)
    await broker.pop("orders", group="billing")

    found = await client.groups.lag("orders", "billing")

    assert found == list(await broker.groups.lag("orders", "billing"))
    with pytest.raises(GroupNotFound):
        await client.groups.lag("orders", "none")


async def test_a_reader_groups_position_in_each_lane_is_shown(
    client: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", drafts(3))
    orders = Selection(queues=("orders",), pattern=None)
    await broker.reader_groups.begin("archive", orders, "earliest", lambda queue: True)

    (lane,) = await client.groups.lanes("orders", "archive")

    assert [lane] == await broker.insight.groups.lanes("orders", "archive")
    assert (lane.position, lane.head, lane.backlog) == (0, 3, 3)
    assert list(await client.groups.lag("orders", "archive")) == []


async def test_a_group_is_moved(client: AsyncClient, broker: Broker, clock: ManualClock) -> None:
    await broker.push("orders", [*drafts(3), Draft(b"4", "alice")])
    await broker.ack(await pop(broker, group="billing", batch=4, partitions=2))
    clock.advance(10)
    later = moment(clock)
    clock.advance(10)

    assert await client.groups.seek("orders", "billing", "beginning") == 2
    assert await cursors(broker, group="billing") == {"Default": 0, "alice": 0}
    assert await client.groups.seek("orders", "billing", 2, partition="Default") == 1
    assert await cursors(broker, group="billing") == {"Default": 2, "alice": 0}
    await client.groups.seek("orders", "billing", later)
    assert await cursors(broker, group="billing") == {"Default": 3, "alice": 1}
    await client.groups.seek("orders", "billing", "beginning")
    await client.groups.seek("orders", "billing", "end")
    assert await cursors(broker, group="billing") == {"Default": 3, "alice": 1}


@pytest.mark.parametrize("to", ["middle", -1, 99, datetime.min])  # noqa: DTZ901
async def test_a_group_cannot_be_moved_to_nowhere(
    client: AsyncClient, broker: Broker, to: Any
) -> None:
    await broker.push("orders", drafts(1))
    await broker.pop("orders", group="billing")

    for groups in (client.groups, broker.groups):
        with pytest.raises(Invalid) as caught:
            await groups.seek("orders", "billing", to)
        assert caught.value.field == "to"
    with pytest.raises(GroupNotFound):
        await client.groups.seek("orders", "none", "end")
    with pytest.raises(PartitionNotFound):
        await client.groups.seek("orders", "billing", "end", partition="none")


async def test_a_group_is_forgotten(client: AsyncClient, broker: Broker) -> None:
    await broker.push("orders", drafts(1))
    await broker.ack(await pop(broker, group="billing"))

    await client.groups.delete("orders", "billing")

    assert offsets(await broker.pop("orders", group="billing")) == [0]
    with pytest.raises(GroupNotFound):
        await client.groups.delete("orders", "none")


async def test_a_group_starts_again_where_it_once_did(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", [*drafts(2), Draft(b"4", "alice")])
    clock.advance(10)
    for group, mode in (("billing", "all"), ("late", "new")):
        await broker.pop("orders", group=group, subscription_mode=mode)
    clock.advance(10)
    await broker.push("orders", drafts(1, first=2))
    for group in ("billing", "late"):
        await broker.groups.seek("orders", group, "end")

    assert await client.groups.restart("orders", "billing") == 2
    assert await client.groups.restart("orders", "late") == 2

    assert await cursors(broker, group="billing") == {"Default": 0, "alice": 0}
    assert await cursors(broker, group="late") == {"Default": 2, "alice": 1}
    with pytest.raises(GroupNotFound):
        await client.groups.restart("orders", "none")
    with pytest.raises(QueueNotFound):
        await client.groups.restart("none", "billing")


async def test_a_group_starts_elsewhere_where_it_has_read_nothing_in_one_queue(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    for queue in ("orders", "mails"):
        await broker.push(queue, [*drafts(2), Draft(b"4", "alice")])
        await broker.ack(await pop(broker, queue, group="billing", partition="Default"))
    clock.advance(10)

    assert await client.groups.resubscribe("orders", "billing", moment(clock)) == 1

    assert await cursors(broker, group="billing") == {"Default": 1, "alice": 1}
    assert await cursors(broker, "mails", group="billing") == {"Default": 1, "alice": 0}
    for groups in (client.groups, broker.groups):
        with pytest.raises(GroupNotFound):
            await groups.resubscribe("orders", "none", moment(clock))
        with pytest.raises(QueueNotFound):
            await groups.resubscribe("none", "billing", moment(clock))
        with pytest.raises(Invalid):
            await groups.resubscribe("orders", "billing", datetime.min)  # noqa: DTZ901
