"""Whoever reads a queue as a whole sees what every server has committed, whichever he asks."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from skep import Broker
from skep.core.journal.journal import Selection
from skep.core.journal.scan import PartitionFilter
from skep.errors import PositionMismatch, QueueNotFound
from skep.model.journal import Range
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import drafts

ORDERS = Selection(queues=("orders",))


def everybody(name: str) -> bool:
    return True


@pytest.fixture
async def other(url: str, queue: Broker) -> AsyncIterator[Broker]:
    """A second server, that hears of the first only if it asks."""
    store = PostgresStore(url)
    async with Broker(store, sweep_interval=None, follow_interval=None) as broker:
        yield broker


async def rows(server: Broker, *, in_order: bool = False) -> list[bytes]:
    """All of a queue, as a batch of Spark reads it."""
    found = await server.journal.look(ORDERS, everybody)
    place, begun = found.heads.queues["orders"], found.first.queues["orders"].lanes
    ranges = [Range(lane, begun[lane], head) for lane, head in place.lanes.items()]
    read: list[bytes] = []
    missing: list[Range] = []
    reading = server.journal
    for step in [
        step
        async for step in await reading.read(
            "orders", place.number, ranges, PartitionFilter(), in_order=in_order
        )
    ]:
        missing += step.missing
        read += [payload for run in step.runs for payload in run.columns.payloads]
    assert missing == []
    return read


async def test_a_queue_that_another_server_has_just_made_is_read(
    queue: Broker, other: Broker
) -> None:
    await queue.push("orders", drafts(3))

    assert await rows(other) == [b"0", b"1", b"2"]


async def test_a_range_of_a_queue_that_another_server_has_just_made_is_read(
    queue: Broker, other: Broker
) -> None:
    await queue.push("orders", drafts(3))
    place = (await queue.journal.look(ORDERS, everybody)).heads.queues["orders"]
    ranges = [Range(lane, 0, head) for lane, head in place.lanes.items()]

    steps = await other.journal.read("orders", place.number, ranges, PartitionFilter())

    assert sum([run.count async for step in steps for run in step.runs]) == 3


async def test_a_queue_that_another_server_has_made_anew_is_not_taken_for_empty(
    queue: Broker, other: Broker
) -> None:
    await queue.push("orders", drafts(3))
    before = (await other.journal.look(ORDERS, everybody)).heads
    await queue.queues.delete("orders")
    await queue.push("orders", drafts(2))

    assert await rows(other) == [b"0", b"1"]
    with pytest.raises(PositionMismatch):
        await other.journal.look(ORDERS, everybody, after=before)


async def test_a_queue_that_no_server_has_is_not_found(queue: Broker, other: Broker) -> None:
    await queue.push("orders", drafts(3))
    await rows(other)
    await queue.queues.delete("orders")

    with pytest.raises(QueueNotFound):
        await other.journal.look(ORDERS, everybody)
    with pytest.raises(QueueNotFound):
        await other.journal.read("orders", 1, [Range(0, 0, 1)], PartitionFilter())


@pytest.mark.parametrize("in_order", [False, True])
async def test_a_partition_of_which_nothing_was_heard_is_not_taken_for_removed(
    queue: Broker, other: Broker, sql: asyncpg.Connection, in_order: bool
) -> None:
    await other.push("orders", drafts(2))
    await queue.push("orders", drafts(3, "alice", first=2))
    # Nobody will tell of it any more.
    await sql.execute("DELETE FROM queen.news")

    found = await rows(other, in_order=in_order)
    assert sorted(found) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_partition_whose_row_was_deleted_is_reported_as_missing(
    queue: Broker, sql: asyncpg.Connection, url: str
) -> None:
    await queue.push("orders", [*drafts(2), *drafts(3, "alice")])
    await sql.execute("DELETE FROM queen.partition WHERE name = 'alice'")
    async with Broker(PostgresStore(url), sweep_interval=None) as fresh:
        place = (await fresh.journal.look(ORDERS, everybody)).heads.queues["orders"]
        ranges = [Range(lane, 0, head) for lane, head in place.lanes.items()]

        steps = await fresh.journal.read("orders", place.number, ranges, PartitionFilter())

        assert [each async for step in steps for each in step.missing] == [
            Range(ranges[0].lane, 2, 5)
        ]


async def test_the_lag_of_a_reader_counts_what_another_server_has_just_pushed(
    queue: Broker, other: Broker
) -> None:
    await queue.push("orders", drafts(3))
    start, _ = await queue.reader_groups.begin("stream", ORDERS, "earliest", everybody)

    heads = await other.journal.heads_of(start)

    assert sum(heads.queues["orders"].lanes.values()) == 3
