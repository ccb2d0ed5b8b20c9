"""The bytes that the applications of a principal have staged and not committed.

They are counted in the store at most once in a few seconds for each principal, and added up in
between. With several servers the count misses only what the others stage in that time.
"""

from skep.core.aio import KeyedLocks
from skep.core.sink import manifest
from skep.core.state import quota
from skep.core.state.quota import MAX_COUNTS, Count
from skep.store.protocol import EntryStore

MIN_CHUNK_BYTES = 64 << 10
"""The least that a chunk counts: the number of chunks is limited too."""
RECOUNT_SECONDS = 5.0
REFUSED_SECONDS = 1.0
"""How long a count is used that leaves no room."""


class StagedBytes:
    def __init__(self, store: EntryStore) -> None:
        self._store = store
        self._counts: dict[str | None, Count] = {}
        self._counting = KeyedLocks[str | None]()

    async def add(self, key: str, size: int) -> None:
        """Count a chunk for the caller; raises ``QuotaExceeded`` beyond its quota.

        A chunk that replaces another counts in its place.
        """
        limited = quota.limit_of("staged_bytes")
        if limited is None:
            return
        caller, limit = limited
        replaced = await manifest.find_size(self._store, key)
        weight = _weight(size) - (0 if replaced is None else _weight(replaced))
        if weight <= 0:
            return
        count = await self._count(caller.id, limit - weight)
        quota.check("staged_bytes", count.size, weight, limit)
        count.size += weight

    async def _count(self, owner: str | None, room: int) -> Count:
        async with self._counting.of(owner):
            recent = self._counts.get(owner)
            if recent is not None:
                seconds = RECOUNT_SECONDS if recent.size <= room else REFUSED_SECONDS
                if recent.age < seconds:
                    return recent
            if len(self._counts) >= MAX_COUNTS:
                self._counts.clear()
            counted = self._counts[owner] = Count(await self._staged(owner))
            return counted

    async def _staged(self, owner: str | None) -> int:
        sizes = await manifest.read_sizes(self._store)
        owners = await manifest.read_owners(self._store, list({app for app, _ in sizes}))
        return sum(_weight(size) for app, size in sizes if owners.get(app) == owner)


def _weight(size: int) -> int:
    return max(size, MIN_CHUNK_BYTES)
