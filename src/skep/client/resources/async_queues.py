"""Queues on a server: configuring, listing, clearing and deleting them.

The source of ``sync_queues.py``, which ``make sync`` writes.
"""

from collections.abc import Sequence
from typing import Any

from skep.client.async_connection import AsyncConnection
from skep.client.request import PAGE, delete, post, read
from skep.errors import QueueNotFound
from skep.model.name import check_label, check_name
from skep.model.queue import Queue, Removal
from skep.model.stats import PartitionStats, PartitionSummary, QueueStats, QueueSummary
from skep.wire import paths
from skep.wire.admin.queue import Cleared, Configured, DeletedQueue, from_configuration, to_queue
from skep.wire.admin.retention import Removals, to_removals
from skep.wire.stats.resource import PartitionDetail, QueueDetail, QueueRow, QueuesResponse
from skep.wire.stats.resource_response import (
    to_described,
    to_partition_stats,
    to_partition_summary,
    to_stats,
    to_summary,
)


class AsyncQueues:
    """What ``Broker.queues`` has, over HTTP."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def configure(
        self, queue: str, *, namespace: str | None = None, task: str | None = None, **options: Any
    ) -> Queue:
        """Create a queue or replace its configuration; an option left out has its default.

        The options are those of ``QueueOptions``. The server gives a queue a partition
        ``Default``, and the labels in its name if none are given.
        """
        body = from_configuration(queue, namespace, task, options)
        answer = await self._connection.send(post(paths.CONFIGURE, body, repeatable=False))
        made = answer.decode(Configured)
        return to_queue(
            identifier=made.queue_id,
            name=made.queue,
            namespace=made.namespace,
            task=made.task,
            created_at=made.created_at,
            options=made.options,
        )

    async def get(self, queue: str) -> Queue:
        """The configuration of a queue."""
        return to_described(await self._detail(queue, limit=1))

    async def stats(self, queue: str) -> QueueStats:
        """A queue in numbers."""
        return to_stats(await self._detail(queue, limit=1))

    async def summary(self, queue: str) -> QueueSummary:
        """A queue, and what became of its messages, seen by all groups together."""
        return to_summary(await self._detail(queue, limit=1))

    async def summaries(
        self, *, namespace: str | None = None, task: str | None = None
    ) -> Sequence[QueueSummary]:
        """The same of all queues with these labels, by name."""
        return [to_summary(row) for row in await self._rows(namespace, task)]

    async def partitions(self, queue: str) -> Sequence[PartitionStats]:
        """The partitions of a queue, oldest first."""
        return [to_partition_stats(each) for each in await self._partitions(queue)]

    async def partition_summaries(self, queue: str) -> Sequence[PartitionSummary]:
        """The same with what became of the messages of each."""
        return [to_partition_summary(queue, each) for each in await self._partitions(queue)]

    async def removals(self, queue: str, *, limit: int = 100) -> Sequence[Removal]:
        """The retention history of the last 90 days, newest first."""
        request = read(paths.removals(check_name("queue", queue)), limit=limit)
        answer = await self._connection.send(request)
        return to_removals(answer.decode(Removals))

    async def clear(self, queue: str, *, partition: str | None = None) -> int:
        """Remove all messages pushed so far; offsets and groups stay. Returns how many."""
        check_label("partition", partition)
        request = delete(paths.clear(check_name("queue", queue)), partition=partition)
        answer = await self._connection.send(request)
        return answer.decode(Cleared).count

    async def delete(self, queue: str) -> None:
        """Remove a queue with all its messages, groups, dead letters and traces."""
        answer = await self._connection.send(delete(paths.queue(check_name("queue", queue))))
        if not answer.decode(DeletedQueue).existed:
            raise QueueNotFound(queue)

    async def list(
        self, *, namespace: str | None = None, task: str | None = None
    ) -> Sequence[Queue]:
        """The queues with these labels, the highest priority first, then by name."""
        found = [to_described(row) for row in await self._rows(namespace, task)]
        return sorted(found, key=lambda queue: (-queue.options.priority, queue.name))

    async def _rows(self, namespace: str | None, task: str | None) -> Sequence[QueueRow]:
        labels = {
            "namespace": check_label("namespace", namespace),
            "task": check_label("task", task),
        }
        found: list[QueueRow] = []
        total = 1
        while len(found) < total:
            request = read(paths.QUEUES, **labels, limit=PAGE, offset=len(found))
            some = (await self._connection.send(request)).decode(QueuesResponse)
            found += some.queues
            total = some.total if some.queues else 0
        return found

    async def _partitions(self, queue: str) -> Sequence[PartitionDetail]:
        found: list[PartitionDetail] = []
        while True:
            some = (await self._detail(queue, limit=PAGE, offset=len(found))).partitions
            found += some
            if len(some) < PAGE:
                return found

    async def _detail(self, queue: str, *, limit: int, offset: int = 0) -> QueueDetail:
        request = read(paths.queue(check_name("queue", queue)), limit=limit, offset=offset)
        answer = await self._connection.send(request)
        return answer.decode(QueueDetail)
