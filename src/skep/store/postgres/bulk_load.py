"""Reads and writes rows of a copy between stores, in PostgreSQL."""

from collections.abc import Sequence
from typing import Any

import asyncpg
from msgspec.structs import astuple

from skep.model.entry import Entry
from skep.model.name import Offset
from skep.model.peer_event import CommitEffects
from skep.model.queue import Partition, Queue
from skep.model.trace import TraceEvent
from skep.store.bulk_load import BulkLoad, LoadedConsumer, LoadedRemoval, StoredId, StoredOutcome
from skep.store.commit.evaluation import RecordedOutcome
from skep.store.postgres import rows
from skep.store.postgres.commit.write import (
    copy_ids,
    copy_segments,
    insert_consumers,
    put,
    put_events,
)
from skep.store.postgres.nul_text import from_text, hash_of, to_text
from skep.store.postgres.peer_feed import PeerFeed
from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES


class PostgresBulkLoader:
    def __init__(self, session: PostgresSession, feed: PeerFeed) -> None:
        self._session = session
        self._feed = feed

    async def load(self, load: BulkLoad) -> None:
        async def work(connection: asyncpg.Connection) -> tuple[None, CommitEffects]:
            await self._session.lane.renew(connection)  # so that peers see a server at work
            if load.reserved:
                await connection.fetch(QUERIES["reserve_numbers"], load.reserved)
            await _load_log(connection, load)
            await _load_groups(connection, load)
            await _load_rest(connection, load)
            return None, CommitEffects(queues=tuple(queue.number for queue in load.queues))

        await self._feed.write_and_publish(work)

    async def others(self) -> int:
        found: int = await self._session.fetch_value("other_servers", self._session.lane.owner)
        return found

    async def last_number(self) -> int:
        found: int = await self._session.fetch_value("last_number")
        return found

    async def locate(self, partition: int, chosen: Sequence[str]) -> list[Offset | None]:
        hashes = [hash_of(chosen_id) for chosen_id in chosen]
        partitions = [partition] * len(hashes)
        found = await self._session.fetch("known_transaction_ids", partitions, hashes)
        offsets = {row["hash"]: row["at_offset"] for row in found}
        return [offsets.get(hashed) for hashed in hashes]

    async def all_events(
        self, queue: int, *, after: tuple[int, Offset, int], limit: int
    ) -> list[TraceEvent]:
        found = await self._session.fetch("all_events", queue, *after, limit)
        return list(map(rows.to_event, found))

    async def all_entries(self, *, after: tuple[str, str], limit: int) -> list[Entry]:
        space, key = after
        found = await self._session.fetch("all_entries", space, hash_of(key), limit)
        return list(map(rows.to_entry, found))

    async def all_outcomes(self, *, after: str, limit: int) -> list[StoredOutcome]:
        found = await self._session.fetch("all_outcomes", to_text(after), limit)
        return [
            StoredOutcome(from_text(row["name"]), *astuple(rows.to_recorded(row))) for row in found
        ]


async def _load_log(connection: asyncpg.Connection, load: BulkLoad) -> None:
    for queue in load.queues:
        await connection.execute(QUERIES["load_queue"], *_from_queue(queue))
    await put(connection, "load_partitions", list(map(_from_partition, load.partitions)))
    if load.segments:
        await copy_segments(connection, list(load.segments))
    if load.ids:
        await copy_ids(connection, sorted(map(_from_id, load.ids)))
    await put(connection, "load_heads", [(*place, head) for place, head in load.heads.items()])


async def _load_groups(connection: asyncpg.Connection, load: BulkLoad) -> None:
    subscriptions = list(map(rows.from_subscription, load.subscriptions))
    await put(connection, "load_subscriptions", subscriptions)
    await insert_consumers(connection, list(map(_from_consumer, load.consumers)))


async def _load_rest(connection: asyncpg.Connection, load: BulkLoad) -> None:
    await put(connection, "put_dead_letters", list(map(rows.from_letter, load.dead_letters)))
    if load.events:
        await put_events(connection, load.events)
    await put(connection, "load_removals", list(map(_from_removal, load.removals)))
    await put(connection, "load_outcomes", list(map(_from_outcome, load.outcomes)))
    await put(connection, "load_entries", list(map(rows.from_entry, load.entries)))
    await put(connection, "put_entries", list(map(rows.from_entry, load.marks)))


def _from_queue(queue: Queue) -> tuple[Any, ...]:
    head = queue.number, queue.name, queue.namespace, queue.task
    return *head, *rows.from_options(queue.options), queue.created_at, queue.version


def _from_partition(partition: Partition) -> tuple[Any, ...]:
    return (
        partition.number,
        partition.queue,
        partition.name,
        partition.created_at,
        partition.start,
        partition.end,
        partition.newest_at,
    )


def _from_id(stored: StoredId) -> tuple[int, bytes, Offset]:
    return stored.partition, hash_of(stored.chosen), stored.offset


def _from_consumer(loaded: LoadedConsumer) -> tuple[Any, ...]:
    subscription, (partition, group, state) = loaded
    return subscription.queue, group, partition, subscription.id, *rows.from_consumer(state)


def _from_removal(loaded: LoadedRemoval) -> tuple[Any, ...]:
    number, removal = loaded
    place = removal.queue, number, removal.partition
    return *place, removal.kind, removal.messages, removal.executed_at


def _from_outcome(stored: StoredOutcome) -> tuple[Any, ...]:
    recorded = RecordedOutcome(stored.fingerprint, stored.outcome, stored.created_at)
    return rows.from_recorded(stored.name, recorded)
