"""Queues, partitions, consumers and subscriptions in PostgreSQL."""

from collections.abc import Iterable, Sequence

import asyncpg

from skep.errors import Unavailable
from skep.model.peer_event import CommitEffects
from skep.model.queue import Partition, Queue, Subscription
from skep.store.postgres import rows
from skep.store.postgres.peer_feed import PeerFeed
from skep.store.postgres.session import PostgresSession
from skep.store.postgres.sql import QUERIES
from skep.store.protocol import StoredConsumer

STEP = 500
"""First states of a group that are written in one transaction: some ten milliseconds."""


class PostgresCatalogueTable:
    def __init__(self, session: PostgresSession, feed: PeerFeed) -> None:
        self._session = session
        self._feed = feed

    async def put_queue(self, queue: Queue, *, replace: bool = True) -> Queue:
        values = queue.name, queue.namespace, queue.task, *rows.from_options(queue.options)

        async def work(connection: asyncpg.Connection) -> tuple[Queue, CommitEffects]:
            found = None if replace else await connection.fetch(QUERIES["find_queue"], queue.name)
            if found:
                return rows.to_queue(found[0]), CommitEffects()
            made = await connection.fetch(QUERIES["put_queue"], *values, self._session.clock.now())
            stored = rows.to_queue(made[0])
            return stored, CommitEffects(queues=(stored.number,))

        return await self._feed.write_and_publish(work)

    async def delete_queue(self, queue: int) -> bool:
        async def work(connection: asyncpg.Connection) -> tuple[bool, CommitEffects]:
            existed = bool(await connection.fetch(QUERIES["delete_queue"], queue))
            return existed, CommitEffects(queues=(queue,) if existed else ())

        return await self._feed.write_and_publish(work)

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        """Durable on return, because of the numbers.

        If PostgreSQL lost the transaction in a crash it would assign a number twice, and a server
        that still has the first partition would push to the second.
        """
        existing = await self._named(queue, names)
        # Only the missing ones: each name that is sent uses up a number.
        if missing := [name for name in names if name not in existing]:

            async def work(connection: asyncpg.Connection) -> tuple[None, CommitEffects]:
                now = self._session.clock.now()
                created = await connection.fetch(QUERIES["create_partitions"], queue, missing, now)
                return None, CommitEffects(created=tuple(map(rows.to_partition, created)))

            await self._feed.write_and_publish(work)
            existing = await self._named(queue, names)
        return [existing[name] for name in names if name in existing]

    async def _named(self, queue: int, names: Sequence[str]) -> dict[str, Partition]:
        found = await self._session.fetch("partitions_named", queue, list(names))
        return {partition.name: partition for partition in map(rows.to_partition, found)}

    async def queues(self) -> list[Queue]:
        return list(map(rows.to_queue, await self._session.fetch_all("queues")))

    async def queue(self, number: int) -> Queue | None:
        found = await self._session.fetch("queue", number)
        return rows.to_queue(found[0]) if found else None

    async def partitions(
        self, queue: int, *, after: Partition | None = None, limit: int | None = None
    ) -> Iterable[Partition]:
        number = after.number if after else -1
        found = await self._session.fetch_all("partitions", queue, number, limit)
        return list(map(rows.to_partition, found))

    async def find_partitions(self, queue: int, numbers: Sequence[int]) -> list[Partition]:
        found = await self._session.fetch_all("partitions_numbered", queue, list(numbers))
        return list(map(rows.to_partition, found))

    async def consumers(
        self, queue: int, partitions: Sequence[int] | None = None
    ) -> Iterable[StoredConsumer]:
        if partitions is None:
            found = await self._session.fetch_all("consumers", queue)
        else:
            found = await self._session.fetch_all("consumers_of", queue, list(partitions))
        return list(map(rows.to_stored_consumer, found))

    async def group_states(
        self, queue: int, group: str, *, after: int = -1, limit: int
    ) -> Sequence[StoredConsumer]:
        found = await self._session.fetch_all("group_states", queue, group, after, limit)
        return list(map(rows.to_stored_consumer, found))

    async def subscriptions(self, queue: int) -> list[Subscription]:
        return list(
            map(rows.to_subscription, await self._session.fetch_all("subscriptions", queue))
        )

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        """Many states are written in several transactions; the last one makes them effective.

        The group is listed as starting before, so that its states are purged if this is
        interrupted.
        """
        is_large = len(consumers) > STEP
        if is_large:
            await self._put_first_states(subscription, consumers)

        async def work(connection: asyncpg.Connection) -> tuple[bool, CommitEffects]:
            first = await connection.fetch(
                QUERIES["subscribe"], *rows.from_subscription(subscription)
            )
            if not first:
                await connection.execute(QUERIES["give_up_starting_group"], *_key(subscription))
                return False, CommitEffects()
            await _insert_first(connection, subscription, consumers[-STEP:])
            if is_large:
                await _check_starting(connection, "unlist_starting_group", subscription)
            return True, CommitEffects(queues=(subscription.queue,))

        return await self._feed.write_and_publish(work)

    async def _put_first_states(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> None:
        """Write all but the last ``STEP`` states."""

        async def begin(connection: asyncpg.Connection) -> None:
            await connection.execute(QUERIES["list_starting_group"], *_key(subscription))

        await self._session.write(begin)
        for start in range(0, len(consumers) - STEP, STEP):
            step = consumers[start : min(start + STEP, len(consumers) - STEP)]

            async def put(
                connection: asyncpg.Connection, step: Sequence[StoredConsumer] = step
            ) -> None:
                await _check_starting(connection, "renew_starting_group", subscription)
                await _insert_first(connection, subscription, step)

            await self._session.write(put)

    async def delete_group(self, queue: int, group: str) -> None:
        async def work(connection: asyncpg.Connection) -> tuple[None, CommitEffects]:
            # A trigger lists its states for ``purge``.
            await connection.execute(QUERIES["delete_subscription"], queue, group)
            return None, CommitEffects(queues=(queue,))

        await self._feed.write_and_publish(work)


def _key(subscription: Subscription) -> tuple[int, str, str]:
    return subscription.queue, subscription.group, subscription.id


async def _insert_first(
    connection: asyncpg.Connection,
    subscription: Subscription,
    consumers: Sequence[StoredConsumer],
) -> None:
    if consumers:
        queue, group, identity = _key(subscription)
        made = [
            (queue, group, partition, identity, *rows.from_consumer(state))
            for partition, _, state in consumers
        ]
        await connection.execute(QUERIES["insert_first_consumers"], made)


async def _check_starting(
    connection: asyncpg.Connection, query: str, subscription: Subscription
) -> None:
    if not await connection.fetch(QUERIES[query], *_key(subscription)):
        raise Unavailable(
            f"the first states of group {subscription.group!r} took too long to write; try again"
        )
