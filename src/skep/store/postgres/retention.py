"""Truncates partitions and redacts messages in PostgreSQL, in short transactions."""

from collections.abc import Iterable

import asyncpg

from skep.model.name import MAX_NUMBER, Instant, Offset
from skep.model.peer_event import CommitEffects, PartitionTruncated
from skep.model.queue import Removal
from skep.store.postgres import rows
from skep.store.postgres.nul_text import from_texts, hash_of
from skep.store.postgres.peer_feed import PeerFeed
from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES
from skep.store.protocol import Truncation

STEP = 100
"""Segments deleted in one transaction: pushes to the partition wait a few milliseconds."""


class PostgresRetentionTable:
    def __init__(self, session: PostgresSession, feed: PeerFeed) -> None:
        self._session = session
        self._feed = feed

    async def truncate(
        self, queue: int, partition: int, before: Offset, *, kind: str
    ) -> Truncation:
        async def work(connection: asyncpg.Connection) -> tuple[Truncation, CommitEffects]:
            locked = await connection.fetch(QUERIES["lock_partition"], partition, queue)
            first = locked[0]["start_offset"] if locked else 0
            removed = await _drop_oldest(connection, partition, first, before) if locked else 0
            removal = Removal(
                queue=queue,
                partition=partition,
                kind=kind,
                messages=removed,
                executed_at=self._session.clock.now(),
            )
            left = await connection.fetch(QUERIES["first_kept"], partition)
            start = left[0]["start_offset"] if left else 0
            first_at = left[0]["first_at"] if left else 0
            truncation = Truncation(removed, start, first_at)
            if not removed:
                return truncation, CommitEffects()
            await _record(connection, removal)
            return truncation, CommitEffects(
                truncated=(PartitionTruncated(partition, start, first_at),)
            )

        return await self._feed.write_and_publish(work)

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        if offset > MAX_NUMBER:
            return False

        async def work(connection: asyncpg.Connection) -> tuple[bool, CommitEffects]:
            locked = await connection.fetch(QUERIES["lock_partition"], partition, queue)
            is_redacted = await _redact(connection, partition, offset) if locked else False
            return is_redacted, CommitEffects(redacted=(partition,) if is_redacted else ())

        return await self._feed.write_and_publish(work)

    async def removals(self, queue: int, *, limit: int) -> list[Removal]:
        return list(map(rows.to_removal, await self._session.fetch("removals", queue, limit)))

    async def record_removal(self, removal: Removal) -> None:
        async def work(connection: asyncpg.Connection) -> None:
            await _record(connection, removal)

        await self._session.write(work)

    async def forget_removals(self, queue: int, before: Instant, *, limit: int) -> int:
        async def work(connection: asyncpg.Connection) -> int:
            return len(await connection.fetch(QUERIES["forget_removals"], queue, before, limit))

        return await self._session.write(work)


async def _drop_oldest(
    connection: asyncpg.Connection, partition: int, first: Offset, before: Offset
) -> int:
    """Delete up to ``STEP`` segments from ``first`` on that end at ``before`` or earlier.

    Returns the number of their messages.
    """
    oldest = await connection.fetch(QUERIES["oldest_segments"], partition, before, STEP, first)
    if not oldest:
        return 0
    start, end = oldest[0]["start_offset"], oldest[-1]["start_offset"] + oldest[-1]["messages"]
    await connection.execute(QUERIES["delete_segments"], partition, start, end)
    for row in oldest:
        ids = from_texts(row["transaction_ids"]) or ()
        await _forget_ids(connection, partition, enumerate(ids, row["start_offset"]))
    await _forget_traces(connection, partition, start, end)
    return sum(row["messages"] for row in oldest)


async def _forget_ids(
    connection: asyncpg.Connection, partition: int, ids: Iterable[tuple[Offset, str | None]]
) -> None:
    chosen = [(offset, hash_of(text)) for offset, text in ids if text is not None]
    if chosen:
        offsets, hashes = zip(*chosen, strict=True)
        await connection.execute(
            QUERIES["delete_transaction_ids"], partition, list(hashes), list(offsets)
        )


async def _forget_traces(
    connection: asyncpg.Connection, partition: int, start: Offset, stop: Offset
) -> None:
    await connection.execute(QUERIES["delete_trace_names"], partition, start, stop)
    await connection.execute(QUERIES["delete_trace_events"], partition, start, stop)


async def _redact(connection: asyncpg.Connection, partition: int, offset: Offset) -> bool:
    holding = await connection.fetch(QUERIES["segments_holding"], [partition], [offset])
    segment = rows.to_segment(holding[0]) if holding else None
    if segment is None or offset >= segment.end:
        return False
    redacted = segment.blank(offset)
    if redacted is None:
        return False
    await connection.execute(
        QUERIES["replace_segment"],
        partition,
        segment.start,
        redacted.size,
        *rows.from_columns(redacted.columns),
    )
    await _forget_ids(connection, partition, [(offset, segment.chosen_id(offset))])
    await _forget_traces(connection, partition, offset, offset + 1)
    return True


async def _record(connection: asyncpg.Connection, removal: Removal) -> None:
    await connection.execute(
        QUERIES["put_removal"],
        removal.queue,
        removal.partition,
        removal.kind,
        removal.messages,
        removal.executed_at,
    )
