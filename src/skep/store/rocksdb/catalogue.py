"""Queues, partitions, consumers and subscriptions in RocksDB."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec
from rocksdict import WriteBatch

from skep.model.consumer import ConsumerState
from skep.model.name import Offset
from skep.model.queue import Partition, Queue, Subscription
from skep.store.commit.evaluation import CommitRound
from skep.store.protocol import StoredConsumer
from skep.store.rocksdb import keys
from skep.store.rocksdb.context import RocksContext
from skep.store.rocksdb.record_codec import Decoder, encode

_queue = Decoder(Queue)
_partition = Decoder(Partition)
_consumer = Decoder(ConsumerState)
_subscription = Decoder(Subscription)


_SPARSE = 10
"""Partitions whose numbers are further apart than this on average are read one by one."""

STEP = 500
"""States that are written in one step."""
_PAUSE_SECONDS = 0.001
"""Between two steps, so that other calls are served."""

RECENT = 10_000
"""Partitions that are kept in memory: those written last."""


class GroupRecord(NamedTuple):
    """A group, and the name that its rows are stored under."""

    subscription: Subscription
    stored: str


class RocksCatalogueTable:
    """Keeps queues and groups in memory, because they are few; reads the rest when needed."""

    def __init__(self, context: RocksContext) -> None:
        self._context = context
        self._recent: OrderedDict[int, Partition] = OrderedDict()
        self._queues = {
            queue.number: queue
            for queue in (_queue(value) for _, value in context.db.scan(b"q", b"r"))
        }
        self._groups: dict[int, dict[str, GroupRecord]] = {queue: {} for queue in self._queues}
        for key, value in context.db.scan(b"g", b"h"):
            self.keep_group(GroupRecord(_subscription(value), key[9:].decode()))
        self._starting: set[tuple[int, str]] = set()
        """Groups whose first states are being written, by queue and stored name."""

    def has_queue(self, queue: int) -> bool:
        return queue in self._queues

    async def put_queue(self, queue: Queue, *, replace: bool = True) -> Queue:
        stored, is_written = await self._context.retry_stalled(
            partial(self._put_queue, queue, replace)
        )
        if is_written:
            await self._context.db.sync()
        return stored

    def _put_queue(self, queue: Queue, replace: bool) -> tuple[Queue, bool]:
        existing = next((q for q in self._queues.values() if q.name == queue.name), None)
        if existing and not replace:
            return existing, False
        queue = msgspec.structs.replace(
            queue,
            number=existing.number if existing else self._context.next_number(),
            created_at=existing.created_at if existing else self._context.clock.now(),
            version=self._context.next_number(),
        )
        batch = WriteBatch(raw_mode=True)
        batch.put(keys.queue_key(queue.number), encode(queue))
        self._context.write(batch)
        self.keep_queue(queue)
        return queue, True

    def keep_queue(self, queue: Queue) -> None:
        self._queues[queue.number] = queue
        self._groups.setdefault(queue.number, {})

    async def create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        """Not synced: the log keeps its order, so the sync of the first append includes it."""
        return await self._context.retry_stalled(partial(self._create_partitions, queue, names))

    def _create_partitions(self, queue: int, names: Sequence[str]) -> list[Partition]:
        if queue not in self._queues:
            return []
        made: dict[str, Partition] = {}
        batch = WriteBatch(raw_mode=True)
        now = self._context.clock.now()
        for name in names:
            stored_number = self._context.db.get(keys.name_key(queue, name))
            partition = self.partition(queue, keys.unpack(stored_number)) if stored_number else None
            if partition is None and name not in made:
                partition = Partition(
                    number=self._context.next_number(), queue=queue, name=name, created_at=now
                )
                put_partition(batch, partition)
                batch.put(keys.name_key(queue, name), keys.pack(partition.number))
            if partition is not None:
                made[name] = partition
        if not batch.is_empty():
            self._context.write(batch)
            self.remember(made.values())
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

    async def find_partitions(self, queue: int, numbers: Sequence[int]) -> list[Partition]:
        found = (self.partition(queue, number) for number in numbers)
        return [partition for partition in found if partition is not None]

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

    async def group_states(
        self, queue: int, group: str, *, after: int = -1, limit: int
    ) -> Sequence[StoredConsumer]:
        record = self._groups.get(queue, {}).get(group)
        if record is None:
            return []
        lower, upper = keys.consumer_key(queue, after + 1, ""), keys.after(b"c" + keys.pack(queue))
        states = self._read_consumers(lower, upper)
        return list(islice((state for state in states if state.group == group), limit))

    async def subscriptions(self, queue: int) -> list[Subscription]:
        groups = self._groups.get(queue, {})
        return [groups[name].subscription for name in sorted(groups)]

    async def subscribe(
        self, subscription: Subscription, consumers: Sequence[StoredConsumer]
    ) -> bool:
        """Many states are written in steps; they take effect with the subscription, at the end.

        The group is listed for ``purge`` before, so that after a crash its states are deleted.
        """
        queue, group = subscription.queue, subscription.group
        if queue not in self._queues or group in self._groups[queue]:
            return False
        made = GroupRecord(subscription, self._free_name(queue, group))
        self._starting.add((queue, made.stored))
        is_new = False
        try:
            for start in range(0, len(consumers) - STEP, STEP):
                step = partial(self._put_first_states, made, consumers[start : start + STEP])
                await self._context.retry_stalled(step)
                await asyncio.sleep(_PAUSE_SECONDS)
            last = consumers[(len(consumers) - 1) // STEP * STEP :]
            is_new = await self._context.retry_stalled(partial(self._subscribe, made, last))
        finally:
            self._starting.discard((queue, made.stored))
            if not is_new and len(consumers) > STEP and queue in self._queues:
                self._context.purging_groups[queue, made.stored] = b""
        if is_new:
            await self._context.db.sync()
        return is_new

    def _free_name(self, queue: int, group: str) -> str:
        """A name to store a group under that no other rows have."""
        place = queue, group
        is_taken = place in self._starting or place in self._context.purging_groups
        return f"{group}\x00{self._context.next_number()}" if is_taken else group

    def _put_first_states(self, made: GroupRecord, states: Sequence[StoredConsumer]) -> None:
        queue = made.subscription.queue
        if queue in self._queues:
            batch = WriteBatch(raw_mode=True)
            batch.put(keys.listed_group_key(queue, made.stored), b"")
            self._put_states(batch, made, states)
            self._context.write(batch)

    def _subscribe(self, made: GroupRecord, states: Sequence[StoredConsumer]) -> bool:
        queue, group = made.subscription.queue, made.subscription.group
        if queue not in self._queues or group in self._groups[queue]:
            return False
        batch = WriteBatch(raw_mode=True)
        self._put_states(batch, made, states)
        batch.delete(keys.listed_group_key(queue, made.stored))
        batch.put(keys.subscription_key(queue, made.stored), encode(made.subscription))
        self._context.write(batch)
        self.keep_group(made)
        return True

    def keep_group(self, group: GroupRecord) -> None:
        subscription = group.subscription
        if subscription.queue in self._queues:
            self._groups[subscription.queue][subscription.group] = group

    def _put_states(
        self, batch: WriteBatch, group: GroupRecord, states: Sequence[StoredConsumer]
    ) -> None:
        for number, _, state in states:
            key = keys.consumer_key(group.subscription.queue, number, group.stored)
            batch.put(key, encode(state))

    async def delete_group(self, queue: int, group: str) -> None:
        record = self._groups.get(queue, {}).get(group)
        if record is None:
            return
        batch = WriteBatch(raw_mode=True)
        batch.delete(keys.subscription_key(queue, record.stored))
        batch.put(keys.listed_group_key(queue, record.stored), b"")
        self._context.write(batch)
        del self._groups[queue][group]
        self._context.purging_groups[queue, record.stored] = b""
        await self._context.db.sync()

    async def delete_queue(self, queue: int) -> bool:
        if queue not in self._queues:
            return False
        batch = WriteBatch(raw_mode=True)
        batch.delete(keys.queue_key(queue))
        batch.put(keys.removed_queue_key(queue), b"")
        self._context.write(batch)
        del self._queues[queue], self._groups[queue]
        self._context.purging_queues[queue] = {}
        # Their states are purged with the queue.
        for listed in [group for group in self._context.purging_groups if group[0] == queue]:
            del self._context.purging_groups[listed]
        await self._context.db.sync()
        return True

    def put_consumers(self, batch: WriteBatch, round_: CommitRound) -> None:
        for (queue, partition, group), state in round_.consumers.items():
            stored = self._groups[queue][group].stored
            batch.put(keys.consumer_key(queue, partition, stored), encode(state))

    def queue_version(self, queue: int) -> int | None:
        stored = self._queues.get(queue)
        return stored.version if stored else None

    def partition(self, queue: int, partition: int) -> Partition | None:
        if queue not in self._queues:
            return None
        stored = self._recent.get(partition)
        if stored is None:
            value = self._context.db.get(keys.partition_key(queue, partition))
            stored = None if value is None else _partition(value)
        return stored if stored and stored.queue == queue else None

    def subscription(self, queue: int, group: str) -> Subscription | None:
        record = self._groups.get(queue, {}).get(group)
        return record.subscription if record else None

    def consumer(self, queue: int, partition: int, group: str) -> ConsumerState | None:
        record = self._groups.get(queue, {}).get(group)
        if record is None:
            return None
        value = self._context.db.get(keys.consumer_key(queue, partition, record.stored))
        return None if value is None else _consumer(value)

    def _read_partitions(self, queue: int, after: int = -1) -> Iterator[Partition]:
        lower, upper = keys.partition_key(queue, after + 1), keys.after(b"p" + keys.pack(queue))
        return (_partition(value) for _, value in self._context.db.scan(lower, upper))

    def _read_consumers(self, lower: bytes, upper: bytes) -> Iterator[StoredConsumer]:
        """The states of existing groups between two keys of one queue."""
        groups = self._groups[keys.unpack(lower[1:9])]
        wanted = {group.stored: name for name, group in groups.items()}
        for key, value in self._context.db.scan(lower, upper):
            partition, stored = keys.consumer_place(key)
            if stored in wanted:
                yield StoredConsumer(partition, wanted[stored], _consumer(value))

    def remember(self, written: Iterable[Partition]) -> None:
        """Keep partitions that were just written; the next commit reads them from here."""
        for partition in written:
            self._recent[partition.number] = partition
            self._recent.move_to_end(partition.number)
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def end_of(self, partition: int) -> Offset:
        """The end of a partition of any queue; 0 if it does not exist."""
        owners = (self.partition(queue, partition) for queue in self._queues)
        return next((owner.end for owner in owners if owner), 0)


def put_partition(batch: WriteBatch, partition: Partition) -> None:
    batch.put(keys.partition_key(partition.queue, partition.number), encode(partition))
