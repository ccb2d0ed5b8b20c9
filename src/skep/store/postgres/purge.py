"""Deletes the rows of deleted queues and groups, a bounded number in each transaction."""

from typing import Any, NamedTuple

import asyncpg

from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES

ROWS = 1000
"""Rows of one kind that a transaction deletes at most: some ten milliseconds."""
PARTITIONS = 200

_FIRST_KEYS: dict[str, tuple[Any, ...]] = {
    "purge_segments": (-1, -1),
    "purge_partitions": ("",),
    "purge_consumers": ("", -1),
    "purge_dead_letters": (-1,),
    "purge_removals": (-1,),
    "purge_heads": (-1,),
}
"""The kinds of rows in the order of deletion, each with its first key."""
_KINDS = tuple(_FIRST_KEYS)


class _Place(NamedTuple):
    """The progress of a pass through the rows of a queue: the kinds left, and the next key."""

    kinds: tuple[str, ...]
    key: tuple[Any, ...]

    def next_kind(self) -> "_Place":
        left = self.kinds[1:]
        return _Place(left, _FIRST_KEYS[left[0]] if left else ())


_FIRST = _Place(_KINDS, _FIRST_KEYS[_KINDS[0]])


class PostgresPurger:
    """Deletes the rows of deleted queues, then the states of deleted groups, in bounded steps."""

    def __init__(self, session: PostgresSession) -> None:
        self._session = session
        self.queues = QueuePurger()
        self.groups = GroupPurger()

    async def purge(self) -> bool:
        return await self.queues.step(self._session) or await self.groups.step(self._session)


class QueuePurger:
    """Purges queues; keeps its progress in memory, and starts over after a restart."""

    def __init__(self) -> None:
        self._places: dict[int, _Place] = {}

    async def step(self, session: PostgresSession) -> bool:
        """Run one transaction; False if there is nothing to do, or another server does it."""
        places = await session.write(self._step)
        # Not before it is committed.
        self._places = places
        return bool(places)

    async def _step(self, connection: asyncpg.Connection) -> dict[int, _Place]:
        listed = await connection.fetch(QUERIES["next_removal"])
        if not listed:
            return {}
        queue, is_emptied = listed[0]["queue"], listed[0]["emptied"]
        place = self._places.get(queue, _FIRST)
        if place.kinds:
            return {queue: await _remove(connection, queue, place)}
        await connection.execute(QUERIES["delete_removal" if is_emptied else "set_emptied"], queue)
        return {queue: _FIRST}


async def _remove(connection: asyncpg.Connection, queue: int, place: _Place) -> _Place:
    kind = place.kinds[0]
    if kind == "purge_partitions":
        return await _remove_partitions(connection, queue, place)
    deleted = await connection.fetch(QUERIES[kind], queue, *place.key, ROWS)
    if len(deleted) < ROWS:
        return place.next_kind()
    return place._replace(key=max(map(tuple, deleted)))


async def _remove_partitions(connection: asyncpg.Connection, queue: int, place: _Place) -> _Place:
    batch = await connection.fetch(QUERIES["purge_batch"], queue, *place.key, PARTITIONS)
    if not batch:
        return place.next_kind()
    numbers = [row["number"] for row in batch]
    (counts,) = await connection.fetch(QUERIES["purge_messages"], numbers, ROWS)
    if max(counts) == ROWS:
        return place  # there may be more of them
    await connection.execute(QUERIES["purge_partitions"], numbers)
    return place._replace(key=(max(row["name"] for row in batch),))


class _GroupPlace(NamedTuple):
    """The progress of a pass through the states of a group; no partition means the end."""

    group: tuple[int, str, str]
    partition: int | None = -1


class GroupPurger:
    """Purges groups; keeps its progress in memory, like ``QueuePurger``."""

    def __init__(self) -> None:
        self._place: _GroupPlace | None = None

    async def step(self, session: PostgresSession) -> bool:
        """Run one transaction; False if there is nothing to do, or another server does it."""
        place = await session.write(self._step)
        # Not before it is committed.
        self._place = place
        return place is not None

    async def _step(self, connection: asyncpg.Connection) -> _GroupPlace | None:
        listed = await connection.fetch(QUERIES["next_group_removal"])
        if not listed:
            return None
        (row,) = listed
        group = row["queue"], row["consumer_group"], row["subscription"]
        place = self._place
        if place is None or place.group != group:
            place = _GroupPlace(group)
        if row["starting"]:
            # Keep the server that creates it from adding states.
            await connection.execute(QUERIES["give_up_starting_group"], *group)
            return place
        if place.partition is None:
            done = "delete_group_removal" if row["emptied"] else "set_group_emptied"
            await connection.execute(QUERIES[done], *group)
            return _GroupPlace(group)
        deleted = await connection.fetch(QUERIES["purge_group"], *group, place.partition, ROWS)
        last = max(state["partition"] for state in deleted) if len(deleted) == ROWS else None
        return _GroupPlace(group, last)
