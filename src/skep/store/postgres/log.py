"""Segments and the journal in PostgreSQL."""

from skep.model.journal import Range, SegmentPlace
from skep.model.name import MAX_NUMBER, Instant, Offset
from skep.model.segment import Segment
from skep.store.postgres.catalogue import CatalogueRows
from skep.store.postgres.nul_text import hash_of
from skep.store.postgres.rows import to_segment


class LogRows(CatalogueRows):
    async def read(
        self, partition: int, offset: Offset, *, messages: int, size: int
    ) -> list[Segment]:
        if offset > MAX_NUMBER:
            return []
        database = await self._db()
        found = await database.fetch("read_segments", partition, offset, messages, size)
        return list(map(to_segment, found))

    async def find_offset(self, partition: int, transaction_id: str) -> Offset | None:
        database = await self._db()
        found: Offset | None = await database.fetch_value(
            "find_offset", partition, hash_of(transaction_id)
        )
        return found

    async def offset_at(self, partition: int, moment: Instant) -> Offset:
        found: Offset = await (await self._db()).fetch_value("offset_at", partition, moment)
        return found

    async def find_trace(self, trace_id: bytes, *, limit: int) -> list[tuple[int, Offset]]:
        found = await (await self._db()).fetch("find_trace", trace_id, limit)
        return [(row[0], row[1]) for row in found]

    async def heads(self, queue: int) -> dict[int, int]:
        return {row[0]: row[1] for row in await (await self._db()).fetch_all("heads", queue)}

    async def read_journal(
        self, queue: int, lane: int, position: int, *, limit: int, backwards: bool = False
    ) -> list[Segment]:
        name = "read_journal_backwards" if backwards else "read_journal"
        found = await (await self._db()).fetch(name, queue, lane, min(position, MAX_NUMBER), limit)
        return list(map(to_segment, found))

    async def read_places(
        self, queue: int, lane: int, position: int, *, limit: int
    ) -> list[SegmentPlace]:
        found = await (await self._db()).fetch(
            "read_places", queue, lane, min(position, MAX_NUMBER), limit
        )
        return [
            SegmentPlace(
                stands=Range(lane, row[0], row[1]),
                size=row[2],
                created_at=row[3],
                before=None if row[4] is None else Range(row[4], row[5], row[6]),
            )
            for row in found
        ]
