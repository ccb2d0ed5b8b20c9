"""Queues: configure, list, clear and delete them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from skep.core.aio import Backoff
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.log.committer import Committer
from skep.core.state.catalogue import Catalogue
from skep.core.state.partition_order import in_order
from skep.core.state.queue_state import PartitionState
from skep.core.state.quota import Quotas
from skep.core.state.registry import Registry
from skep.model.change import Change
from skep.model.dead_letter import DeadLetterFilter
from skep.model.name import (
    DEFAULT_PARTITION,
    Offset,
    check_count,
    check_label,
    check_queue_name,
    to_datetime,
)
from skep.model.queue import Queue, Removal, labels_of, options_from
from skep.model.stats import PartitionStats, QueueStats
from skep.store.protocol import Store

CLEARED = "cleared"
MAX_REMOVALS = 10_000


class Queues:
    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        registry: Registry,
        quotas: Quotas,
        peer_sync: PeerSync,
        committer: Committer,
    ) -> None:
        self._peer_sync = peer_sync
        self._store = store
        self._catalogue = catalogue
        self._registry = registry
        self._quotas = quotas
        self._committer = committer

    async def configure(
        self, queue: str, *, namespace: str | None = None, task: str | None = None, **options: Any
    ) -> Queue:
        """Create a queue or replace its configuration; an option left out has its default.

        The options are those of ``QueueOptions``.
        """
        config = _config(queue, namespace, task, options)
        return (await self._catalogue.configure(config)).config

    async def create(
        self, queue: str, *, namespace: str | None = None, task: str | None = None, **options: Any
    ) -> tuple[Queue, int]:
        """Configure a queue and create its partition ``Default``; return both.

        Labels that are not given are taken from the queue's name.
        """
        self._registry.check_open()
        first, second = labels_of(check_queue_name("queue", queue))
        config = _config(queue, namespace or first, task or second, options)
        self._quotas.check_later({config.name: [DEFAULT_PARTITION]})
        backoff = Backoff(f"queue {queue!r}")
        while True:
            state = await self._catalogue.ensure_queue(config.name)
            await self._catalogue.ensure_partitions(state, [DEFAULT_PARTITION])
            # Last, because this write makes the partition durable, too.
            configured = await self._catalogue.configure(config)
            partition = state.partitions.get(DEFAULT_PARTITION)
            # Otherwise the queue was deleted meanwhile, and this is another one.
            if configured is state and partition is not None:
                return state.config, partition.number
            await backoff.pause()

    @current
    async def get(self, queue: str) -> Queue:
        """The configuration of a queue."""
        return self._registry.queue(queue).config

    @current
    async def list(self, *, namespace: str | None = None, task: str | None = None) -> list[Queue]:
        """The queues with these labels, the highest priority first, then by name."""
        check_label("namespace", namespace)
        check_label("task", task)
        return [state.config for state in self._registry.matching(namespace, task)]

    @current
    async def has(self, queue: str, partition: str) -> bool:
        """Whether a queue has a partition of this name."""
        return partition in self._registry.queue(queue).partitions

    @current
    async def partitions(self, queue: str) -> Iterator[PartitionStats]:
        """The partitions of a queue, oldest first."""
        partitions = await in_order(self._registry.queue(queue))
        return (_partition_stats(partition) for partition in partitions)

    @current
    async def stats(self, queue: str) -> QueueStats:
        """A queue in numbers."""
        state = self._registry.queue(queue)
        config = state.config
        return QueueStats(
            name=config.name,
            namespace=config.namespace,
            task=config.task,
            partitions=len(state.partitions),
            messages=state.kept,
            pushed=sum((await self._store.heads(config.number)).values()),
            depth=state.depth,
            groups=len(state.groups),
            dead_letters=await self._store.count_dead_letters(
                DeadLetterFilter(queue=config.number)
            ),
        )

    @current
    async def clear(self, queue: str, *, partition: str | None = None) -> int:
        """Delete all messages pushed so far; offsets and groups stay. Returns how many."""
        partitions = self._registry.partitions_of(queue, partition)
        return sum([await self.truncate(each, each.end, CLEARED) for each in partitions])

    async def truncate(self, partition: PartitionState, before: Offset, kind: str) -> int:
        """Delete the messages before an offset, in steps; return how many."""
        removed = 0
        if partition.start < before:
            await self._pin(partition)
        while partition.start < before and (
            step := await self._catalogue.truncate(partition, before, kind)
        ):
            removed += step
        return removed

    async def _pin(self, partition: PartitionState) -> None:
        """Store the cursors of groups without a state, so that they notice what they missed."""
        updates = [
            group.update(partition, replace(group.consumer(partition), version=1))
            for group in partition.queue.groups.values()
            if group.consumer(partition).version == 0
        ]
        for update in updates:
            # Stale if a pop was faster: then the state exists, which is all that is needed. Each
            # in its own change, because a pop of one group says nothing about the others.
            await self._committer.submit(Change(consumers=(update,)))

    @current
    async def delete(self, queue: str) -> None:
        """Delete a queue with all its messages, groups, dead letters and traces."""
        await self._catalogue.forget_queue(queue)

    @current
    async def removals(self, queue: str, *, limit: int = 100) -> Sequence[Removal]:
        """The retention history of the last 90 days, newest first."""
        check_count("limit", limit, least=1, most=MAX_REMOVALS)
        return await self._store.removals(self._registry.queue(queue).config.number, limit=limit)


def _config(
    queue: str, namespace: str | None, task: str | None, options: Mapping[str, Any]
) -> Queue:
    return Queue(
        number=0,
        name=check_queue_name("queue", queue),
        namespace=check_label("namespace", namespace),
        task=check_label("task", task),
        options=options_from(options),
    )


def _partition_stats(partition: PartitionState) -> PartitionStats:
    return PartitionStats(
        name=partition.name,
        number=partition.number,
        start=partition.start,
        end=partition.end,
        newest_at=to_datetime(partition.newest_at) if partition.newest_at else None,
    )
