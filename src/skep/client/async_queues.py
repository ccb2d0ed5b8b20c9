"""Queues on a server: configuring, listing, clearing and deleting them.

The source of ``sync_queues.py``, which ``make sync`` writes.
"""

from collections.abc import Sequence
from typing import Any

from skep.client.async_connection import AsyncConnection
from skep.client.connection import PAGE, delete, post, read
from skep.errors import QueueNotFound
from skep.model.names import check_label, check_name
from skep.model.queue import Queue
from skep.model.stats import PartitionStats, QueueStats
from skep.wire import paths
from skep.wire.queue import Cleared, Configured, DeletedQueue, from_configuration, to_queue
from skep.wire.resource import QueueDetail, QueueRows, to_partition_stats, to_stats


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
        found = await self._detail(queue, limit=1)
        return to_queue(
            identifier=found.id,
            name=found.name,
            namespace=found.namespace,
            task=found.task,
            created_at=found.created_at,
            options=found.options,
        )

    async def stats(self, queue: str) -> QueueStats:
        """A queue in numbers."""
        return to_stats(await self._detail(queue, limit=1))

    async def partitions(self, queue: str) -> Sequence[PartitionStats]:
        """The partitions of a queue, oldest first."""
        found: list[PartitionStats] = []
        while True:
            some = await self._detail(queue, limit=PAGE, offset=len(found))
            found += map(to_partition_stats, some.partitions)
            if len(some.partitions) < PAGE:
                return found

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
        check_label("namespace", namespace)
        check_label("task", task)
        found: list[Queue] = []
        total = 1
        while len(found) < total:
            answer = await self._connection.send(
                read(paths.QUEUES, namespace=namespace, task=task, limit=PAGE, offset=len(found))
            )
            some = answer.decode(QueueRows)
            found += (
                to_queue(
                    identifier=row.id,
                    name=row.name,
                    namespace=row.namespace,
                    task=row.task,
                    created_at=row.created_at,
                    options=row.options,
                )
                for row in some.queues
            )
            total = some.total if some.queues else 0
        return sorted(found, key=lambda queue: (-queue.options.priority, queue.name))

    async def _detail(self, queue: str, *, limit: int, offset: int = 0) -> QueueDetail:
        request = read(paths.queue(check_name("queue", queue)), limit=limit, offset=offset)
        answer = await self._connection.send(request)
        return answer.decode(QueueDetail)
