"""Queues, partitions, consumers and subscriptions in PostgreSQL."""

from collections.abc import Iterable, Sequence

import asyncpg

from skep.model.queue import Partition, Queue, Subscription
from skep.store.postgres import rows
from skep.store.postgres.opening import Opening
from skep.store.postgres.sql import QUERIES
from skep.store.postgres.writing import insert_consumers
from skep.store.protocol import StoredConsumer


class CatalogueRows(Opening):
    async def put_queue(self, queue: Queue) -> Queue:
        database = await self._db()
        values = queue.name, queue.namespace, queue.task, *rows.from_options(queue.options)

        async def work(connection: asyncpg.Connection) -> Queue:
            made = await connection.fetch(QUERIES["put_queue"], *values, self.clock.now())
            return rows.to_queue(made[0])

        return await database.write(work)

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        """On disk when it returns, for the sake of their numbers.

        If PostgreSQL forgot in a crash that it had given one, it would give it again, and who
        still knows it would push into a stranger's partition.
        """
        database = await self._db()
        known = await self._named(queue, names)
        if len(known) < len(set(names)):

            async def work(connection: asyncpg.Connection) -> None:
                now = self.clock.now()
                await connection.execute(QUERIES["create_partitions"], queue, list(names), now)

            await database.write(work)
            known = await self._named(queue, names)
        return [known[name] for name in names if name in known]

    async def _named(self, queue: int, names: Sequence[str]) -> dict[str, Partition]:
        database = await self._db()
        found = await database.fetch("partitions_named", queue, list(names))
        return {partition.name: partition for partition in map(rows.to_partition, found)}

    async def queues(self) -> list[Queue]:
        database = await self._db()
        return list(map(rows.to_queue, await database.fetch("queues")))

    async def partitions(self, queue: int) -> Iterable[Partition]:
        database = await self._db()
        return list(map(rows.to_partition, await database.fetch("partitions", queue)))

    async def consumers(self, queue: int) -> Iterable[StoredConsumer]:
        database = await self._db()
        found = await database.fetch("consumers", queue)
        return [StoredConsumer(row[0], row[1], rows.to_consumer(row[2:])) for row in found]

    async def subscriptions(self, queue: int) -> list[Subscription]:
        database = await self._db()
        return list(map(rows.to_subscription, await database.fetch("subscriptions", queue)))

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        cursors = [
            (subscription.queue, name, partition, subscription.id, *rows.from_consumer(state))
            for partition, name, state in consumers
        ]

        async def work(connection: asyncpg.Connection) -> bool:
            first = await connection.fetch(
                QUERIES["subscribe"], *rows.from_subscription(subscription)
            )
            if first:
                await insert_consumers(connection, cursors)
            return bool(first)

        return await (await self._db()).write(work)

    async def delete_group(self, queue: int, group: str) -> None:
        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(QUERIES["delete_subscription"], queue, group)
            await connection.execute(QUERIES["delete_consumers"], queue, group)

        await (await self._db()).write(work)
