"""Queues, partitions, consumers and subscriptions in RocksDB."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

import msgspec
from rocksdict import WriteBatch

from skep.model.consumer import Consumer
from skep.model.names import Offset
from skep.model.queue import Partition, Queue, Subscription
from skep.store.protocol import StoredConsumer
from skep.store.rocksdb import keys
from skep.store.rocksdb.rows import Rows
from skep.store.rocksdb.values import Decoder, encode

_queue = Decoder(Queue)
_partition = Decoder(Partition)
_consumer = Decoder(Consumer)
_subscription = Decoder(Subscription)


_SPARSE = 10
"""Partitions whose numbers are further apart than this on average are read one by one."""

_STEP = 500
"""States that are encoded at a time."""

RECENT = 10_000
"""Partitions written last that are kept in memory: those that are pushed to all the time."""


class CatalogueRows(Rows):
    """Queues are few and are kept in memory; partitions and consumers are read when needed."""

    def _load(self) -> None:
        super()._load()
        self._recent: OrderedDict[int, Partition] = OrderedDict()
        self._queues = {
            queue.number: queue
            for queue in (_queue(value) for _, value in self._db.scan(b"q", b"r"))
        }

    async def put_queue(self, queue: Queue, *, replace: bool = True) -> Queue:
        stored, is_written = await self._outlasting_stalls(partial(self._put_queue, queue, replace))
        if is_written:
            await self._db.sync()
        return stored

    def _put_queue(self, queue: Queue, replace: bool) -> tuple[Queue, bool]:
        known = next((q for q in self._queues.values() if q.name == queue.name), None)
        if known and not replace:
            return known, False
        queue = msgspec.structs.replace(
            queue,
            number=known.number if known else self.next_number(),
            created_at=known.created_at if known else self.clock.now(),
            version=self.next_number(),
        )
        batch = WriteBatch(raw_mode=True)
        batch.put(keys.queue_key(queue.number), encode(queue))
        self._write(batch)
        self._queues[queue.number] = queue
        return queue, True

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        """Not synced: the log of writes keeps its order, so the append that follows makes it so."""
        return await self._outlasting_stalls(partial(self._create_partitions, queue, names))

    def _create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        if queue not in self._queues:
            return []
        made: dict[str, Partition] = {}
        batch = WriteBatch(raw_mode=True)
        now = self.clock.now()
        for name in names:
            known = self._db.get(keys.name_key(queue, name))
            partition = self.partition(queue, keys.unpack(known)) if known else None
            if partition is None and name not in made:
                partition = Partition(
                    number=self.next_number(), queue=queue, name=name, created_at=now
                )
                self._put_partition(batch, partition)
                batch.put(keys.name_key(queue, name), keys.pack(partition.number))
            if partition is not None:
                made[name] = partition
        if not batch.is_empty():
            self._write(batch)
            self._remember(made.values())
        return [made[name] for name in names]

    async def queues(self) -> list[Queue]:
        return list(self._queues.values())

    async def queue(self, number: int) -> Queue | None:
        return self._queues.get(number)

    async def partitions(
        self, queue: int, *, after: Partition | None = None, limit: int | None = None
    ) -> Iterable[Partition]:
        if queue not in self._queues:
            return ()
        return islice(self._read_partitions(queue, after.number if after else -1), limit)

    async def consumers(
        self, queue: int, partitions: Sequence[int] | None = None
    ) -> Iterable[StoredConsumer]:
        if queue not in self._queues:
            return ()
        if partitions is None:
            prefix = b"c" + keys.pack(queue)
            return self._read_consumers(prefix, keys.after(prefix))
        if max(partitions) - min(partitions) > _SPARSE * len(partitions):
            ranges = [(number, number) for number in partitions]
        else:
            ranges = [(min(partitions), max(partitions))]
        wanted = set(partitions)
        return (
            consumer
            for first, last in ranges
            for consumer in self._read_consumers(
                keys.consumer_key(queue, first, ""), keys.consumer_key(queue, last + 1, "")
            )
            if consumer.partition in wanted
        )

    async def group_states(self, queue: int, group: str) -> Sequence[StoredConsumer]:
        return [each for each in await self.consumers(queue) if each.group == group]

    async def subscriptions(self, queue: int) -> list[Subscription]:
        if queue not in self._queues:
            return []
        prefix = b"g" + keys.pack(queue)
        return [_subscription(value) for _, value in self._db.scan(prefix, keys.after(prefix))]

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        states: list[tuple[bytes, bytes]] = []
        for index, (partition, group, state) in enumerate(consumers, 1):
            key = keys.consumer_key(subscription.queue, partition, group)
            states.append((key, encode(state)))
            if index % _STEP == 0:
                await asyncio.sleep(0)
        is_new = await self._outlasting_stalls(partial(self._subscribe, subscription, states))
        if is_new:
            await self._db.sync()
        return is_new

    def _subscribe(self, subscription: Subscription, states: Sequence[tuple[bytes, bytes]]) -> bool:
        place = keys.subscription_key(subscription.queue, subscription.group)
        if self._db.get(place) is not None or subscription.queue not in self._queues:
            return False
        batch = WriteBatch(raw_mode=True)
        for key, state in states:
            batch.put(key, state)
        batch.put(place, encode(subscription))
        self._write(batch)
        return True

    async def delete_group(self, queue: int, group: str) -> None:
        batch = WriteBatch(raw_mode=True)
        batch.delete(keys.subscription_key(queue, group))
        prefix = b"c" + keys.pack(queue)
        for key, _ in self._db.scan(prefix, keys.after(prefix)):
            if keys.consumer_place(key)[1] == group:
                batch.delete(key)
        self._write(batch)
        await self._db.sync()

    def queue_version(self, queue: int) -> int | None:
        known = self._queues.get(queue)
        return known.version if known else None

    def partition(self, queue: int, partition: int) -> Partition | None:
        if queue not in self._queues:
            return None
        known = self._recent.get(partition)
        if known is None:
            value = self._db.get(keys.partition_key(queue, partition))
            known = None if value is None else _partition(value)
        return known if known and known.queue == queue else None

    def subscription(self, queue: int, group: str) -> Subscription | None:
        if queue not in self._queues:
            return None
        value = self._db.get(keys.subscription_key(queue, group))
        return None if value is None else _subscription(value)

    def consumer(self, queue: int, partition: int, group: str) -> Consumer | None:
        if queue not in self._queues:
            return None
        value = self._db.get(keys.consumer_key(queue, partition, group))
        return None if value is None else _consumer(value)

    def _read_partitions(self, queue: int, after: int = -1) -> Iterator[Partition]:
        lower, upper = keys.partition_key(queue, after + 1), keys.after(b"p" + keys.pack(queue))
        return (_partition(value) for _, value in self._db.scan(lower, upper))

    def _read_consumers(self, lower: bytes, upper: bytes) -> Iterator[StoredConsumer]:
        return (
            StoredConsumer(*keys.consumer_place(key), _consumer(value))
            for key, value in self._db.scan(lower, upper)
        )

    def _put_partition(self, batch: WriteBatch, partition: Partition) -> None:
        batch.put(keys.partition_key(partition.queue, partition.number), encode(partition))

    def _remember(self, written: Iterable[Partition]) -> None:
        """Keep what has been written, not before, and at once: the next to read builds on it."""
        for partition in written:
            self._recent[partition.number] = partition
            self._recent.move_to_end(partition.number)
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def _end(self, partition: int) -> Offset:
        """The end of a partition whose queue is not known; needed only if it holds nothing."""
        found = (self.partition(queue, partition) for queue in self._queues)
        return next((known.end for known in found if known), 0)
