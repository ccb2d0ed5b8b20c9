"""How messages, partitions and queues leave PostgreSQL: in steps that hold nobody up."""

from collections.abc import Iterable

import asyncpg

from skep.model.name import MAX_NUMBER, Instant, Offset
from skep.model.peer_event import Cut, Happened
from skep.model.queue import Removal
from skep.store.clock import Clock
from skep.store.postgres import rows
from skep.store.postgres.log import LogRows
from skep.store.postgres.nul_text import from_texts, hash_of
from skep.store.postgres.purge import GroupPurger, Purger
from skep.store.postgres.sql import QUERIES
from skep.store.protocol import Truncation

STEP = 100
"""Segments removed in one transaction: a few milliseconds in which nobody can push there."""


class RemovingRows(LogRows):
    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._purger = Purger()
        self._group_purger = GroupPurger()

    async def truncate(
        self, queue: int, partition: int, before: Offset, *, kind: str
    ) -> Truncation:
        async def work(connection: asyncpg.Connection) -> tuple[Truncation, Happened]:
            known = await connection.fetch(QUERIES["lock_partition"], partition, queue)
            gone = await _drop_oldest(connection, partition, known[0][0], before) if known else 0
            removal = Removal(
                queue=queue,
                partition=partition,
                kind=kind,
                messages=gone,
                executed_at=self.clock.now(),
            )
            left = await connection.fetch(QUERIES["first_kept"], partition)
            start, first_at = (left[0][0], left[0][1]) if left else (0, 0)
            done = Truncation(gone, start, first_at)
            if not gone:
                return done, Happened()
            await _record(connection, removal)
            return done, Happened(cut=(Cut(partition, start, first_at),))

        return await self._write_and_tell(work)

    async def delete_message(self, queue: int, partition: int, offset: Offset) -> bool:
        if offset > MAX_NUMBER:
            return False

        async def work(connection: asyncpg.Connection) -> tuple[bool, Happened]:
            known = await connection.fetch(QUERIES["lock_partition"], partition, queue)
            done = await _blank(connection, partition, offset) if known else False
            return done, Happened(blanked=(partition,) if done else ())

        return await self._write_and_tell(work)

    async def removals(self, queue: int, *, limit: int) -> list[Removal]:
        return list(map(rows.to_removal, await (await self._db()).fetch("removals", queue, limit)))

    async def record_removal(self, removal: Removal) -> None:
        async def work(connection: asyncpg.Connection) -> None:
            await _record(connection, removal)

        await (await self._db()).write(work)

    async def forget_removals(self, queue: int, before: Instant, *, limit: int) -> int:
        async def work(connection: asyncpg.Connection) -> int:
            return len(await connection.fetch(QUERIES["forget_removals"], queue, before, limit))

        return await (await self._db()).write(work)

    async def delete_queue(self, queue: int) -> bool:
        async def work(connection: asyncpg.Connection) -> tuple[bool, Happened]:
            existed = bool(await connection.fetch(QUERIES["delete_queue"], queue))
            return existed, Happened(queues=(queue,) if existed else ())

        return await self._write_and_tell(work)

    async def purge(self) -> bool:
        database = await self._db()
        return await self._purger.step(database) or await self._group_purger.step(database)


async def _drop_oldest(
    connection: asyncpg.Connection, partition: int, first: Offset, before: Offset
) -> int:
    """Remove some segments from ``first`` on that lie wholly before an offset.

    Returns how many messages.
    """
    found = await connection.fetch(QUERIES["oldest_segments"], partition, before, STEP, first)
    if not found:
        return 0
    start, end = found[0][0], found[-1][0] + found[-1][1]
    await connection.execute(QUERIES["delete_segments"], partition, start, end)
    for at, _, ids in found:
        await _forget_ids(connection, partition, enumerate(from_texts(ids) or (), at))
    await _forget_traces(connection, partition, start, end)
    return sum(messages for _, messages, _ in found)


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


async def _blank(connection: asyncpg.Connection, partition: int, offset: Offset) -> bool:
    found = await connection.fetch(QUERIES["segments_holding"], [partition], [offset])
    segment = rows.to_segment(found[0]) if found else None
    if segment is None or offset >= segment.end:
        return False
    blanked = segment.blank(offset)
    if blanked is None:
        return False
    await connection.execute(
        QUERIES["replace_segment"],
        partition,
        segment.start,
        blanked.size,
        *rows.from_columns(blanked.columns),
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
