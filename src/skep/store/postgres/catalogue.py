"""Queues, partitions, consumers and subscriptions in PostgreSQL."""

from collections.abc import Iterable, Sequence

import asyncpg

from skep.model.news import Happened
from skep.model.queue import Partition, Queue, Subscription
from skep.store.postgres import rows
from skep.store.postgres.news import NewsRows
from skep.store.postgres.sql import QUERIES
from skep.store.postgres.writing import insert_consumers
from skep.store.protocol import StoredConsumer


class CatalogueRows(NewsRows):
    async def put_queue(self, queue: Queue, *, replace: bool = True) -> Queue:
        values = queue.name, queue.namespace, queue.task, *rows.from_options(queue.options)

        async def work(connection: asyncpg.Connection) -> tuple[Queue, Happened]:
            known = None if replace else await connection.fetch(QUERIES["find_queue"], queue.name)
            if known:
                return rows.to_queue(known[0]), Happened()
            made = await connection.fetch(QUERIES["put_queue"], *values, self.clock.now())
            stored = rows.to_queue(made[0])
            return stored, Happened(queues=(stored.number,))

        return await self._write_and_tell(work)

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        """On disk when it returns, for the sake of their numbers.

        If PostgreSQL forgot in a crash that it had given one, it would give it again, and who
        still knows it would push into a stranger's partition.
        """
        known = await self._named(queue, names)
        if len(known) < len(set(names)):

            async def work(connection: asyncpg.Connection) -> tuple[None, Happened]:
                now = self.clock.now()
                made = await connection.fetch(QUERIES["create_partitions"], queue, list(names), now)
                return None, Happened(born=tuple(map(rows.to_partition, made)))

            await self._write_and_tell(work)
            known = await self._named(queue, names)
        return [known[name] for name in names if name in known]

    async def _named(self, queue: int, names: Sequence[str]) -> dict[str, Partition]:
        database = await self._db()
        found = await database.fetch("partitions_named", queue, list(names))
        return {partition.name: partition for partition in map(rows.to_partition, found)}

    async def queues(self) -> list[Queue]:
        database = await self._db()
        return list(map(rows.to_queue, await database.fetch_all("queues")))

    async def queue(self, number: int) -> Queue | None:
        database = await self._db()
        found = await database.fetch("queue", number)
        return rows.to_queue(found[0]) if found else None

    async def partitions(
        self, queue: int, *, after: Partition | None = None, limit: int | None = None
    ) -> Iterable[Partition]:
        database = await self._db()
        number = after.number if after else -1
        found = await database.fetch_all("partitions", queue, number, limit)
        return list(map(rows.to_partition, found))

    async def consumers(
        self, queue: int, partitions: Sequence[int] | None = None
    ) -> Iterable[StoredConsumer]:
        database = await self._db()
        if partitions is None:
            found = await database.fetch_all("consumers", queue)
        else:
            found = await database.fetch_all("consumers_of", queue, list(partitions))
        return list(map(_to_stored, found))

    async def group_states(self, queue: int, group: str) -> Sequence[StoredConsumer]:
        database = await self._db()
        return list(map(_to_stored, await database.fetch_all("group_states", queue, group)))

    async def subscriptions(self, queue: int) -> list[Subscription]:
        database = await self._db()
        return list(map(rows.to_subscription, await database.fetch_all("subscriptions", queue)))

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        cursors = [
            (subscription.queue, name, partition, subscription.id, *rows.from_consumer(state))
            for partition, name, state in consumers
        ]

        async def work(connection: asyncpg.Connection) -> tuple[bool, Happened]:
            first = await connection.fetch(
                QUERIES["subscribe"], *rows.from_subscription(subscription)
            )
            if not first:
                return False, Happened()
            await insert_consumers(connection, cursors)
            return True, Happened(queues=(subscription.queue,))

        return await self._write_and_tell(work)

    async def delete_group(self, queue: int, group: str) -> None:
        async def work(connection: asyncpg.Connection) -> tuple[None, Happened]:
            await connection.execute(QUERIES["delete_subscription"], queue, group)
            await connection.execute(QUERIES["delete_consumers"], queue, group)
            return None, Happened(queues=(queue,))

        await self._write_and_tell(work)


def _to_stored(row: asyncpg.Record) -> StoredConsumer:
    return StoredConsumer(row[0], row[1], rows.to_consumer(row[2:]))
