"""Entries in PostgreSQL."""

from collections.abc import Sequence

from skep.model.entry import Entry
from skep.store.postgres import rows
from skep.store.postgres.nul_text import hash_of
from skep.store.postgres.session import PostgresSession


class PostgresEntryTable:
    def __init__(self, session: PostgresSession) -> None:
        self._session = session

    async def find_entries(self, space: str, wanted: Sequence[str]) -> list[Entry]:
        hashes = [hash_of(key) for key in wanted]
        found = await self._session.fetch("find_entries", space, hashes)
        return list(map(rows.to_entry, found))

    async def list_entries(
        self, space: str, *, prefix: str = "", after: str = "", limit: int
    ) -> list[Entry]:
        found = await self._session.fetch("list_entries", space, prefix, after, limit)
        return list(map(rows.to_entry, found))
