"""Queues on a server: configure, list, clear, delete.

Generated from ``async_queues.py``: change that, then ``make sync``.
"""

from collections.abc import Sequence
from typing import Any

from skep.client.request import PAGE, delete, post, read
from skep.client.sync_connection import Connection
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


class QueuesResource:
    """The methods of ``Broker.queues``, over HTTP."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def configure(
        self, queue: str, *, namespace: str | None = None, task: str | None = None, **options: Any
    ) -> Queue:
        """Create a queue or replace its configuration; omitted options get their defaults.

        The options are those of ``QueueOptions``. The server creates a partition ``Default``, and
        derives the labels from the name if none are given.
        """
        body = from_configuration(queue, namespace, task, options)
        answer = self._connection.send(post(paths.CONFIGURE, body, repeatable=False))
        configured = answer.decode(Configured)
        return to_queue(
            identifier=configured.queue_id,
            name=configured.queue,
            namespace=configured.namespace,
            task=configured.task,
            created_at=configured.created_at,
            options=configured.options,
        )

    def get(self, queue: str) -> Queue:
        """Return the configuration of a queue."""
        return to_described(self._detail(queue, limit=1))

    def stats(self, queue: str) -> QueueStats:
        """Return the counters of a queue."""
        return to_stats(self._detail(queue, limit=1))

    def summary(self, queue: str) -> QueueSummary:
        """Return a queue with its message counts by status, over all groups."""
        return to_summary(self._detail(queue, limit=1))

    def summaries(
        self, *, namespace: str | None = None, task: str | None = None
    ) -> Sequence[QueueSummary]:
        """Return the summaries of all queues with these labels, by name."""
        return [to_summary(row) for row in self._rows(namespace, task)]

    def partitions(self, queue: str) -> Sequence[PartitionStats]:
        """Return the partitions of a queue, oldest first."""
        return [to_partition_stats(detail) for detail in self._partitions(queue)]

    def partition_summaries(self, queue: str) -> Sequence[PartitionSummary]:
        """Return the partitions of a queue with their message counts by status."""
        details = self._partitions(queue)
        return [to_partition_summary(queue, detail) for detail in details]

    def removals(self, queue: str, *, limit: int = 100) -> Sequence[Removal]:
        """Return the retention history of the last 90 days, newest first."""
        request = read(paths.removals(check_name("queue", queue)), limit=limit)
        answer = self._connection.send(request)
        return to_removals(answer.decode(Removals))

    def clear(self, queue: str, *, partition: str | None = None) -> int:
        """Delete all messages pushed so far; offsets and groups stay. Return how many."""
        check_label("partition", partition)
        request = delete(paths.clear(check_name("queue", queue)), partition=partition)
        answer = self._connection.send(request)
        return answer.decode(Cleared).count

    def delete(self, queue: str) -> None:
        """Delete a queue with its messages, groups, dead letters and traces."""
        answer = self._connection.send(delete(paths.queue(check_name("queue", queue))))
        if not answer.decode(DeletedQueue).existed:
            raise QueueNotFound(queue)

    def list(self, *, namespace: str | None = None, task: str | None = None) -> Sequence[Queue]:
        """Return the queues with these labels, the highest priority first, then by name."""
        queues = [to_described(row) for row in self._rows(namespace, task)]
        return sorted(queues, key=lambda queue: (-queue.options.priority, queue.name))

    def _rows(self, namespace: str | None, task: str | None) -> Sequence[QueueRow]:
        labels = {
            "namespace": check_label("namespace", namespace),
            "task": check_label("task", task),
        }
        rows: list[QueueRow] = []
        total = 1
        while len(rows) < total:
            request = read(paths.QUEUES, **labels, limit=PAGE, offset=len(rows))
            page = (self._connection.send(request)).decode(QueuesResponse)
            rows += page.queues
            total = page.total if page.queues else 0
        return rows

    def _partitions(self, queue: str) -> Sequence[PartitionDetail]:
        partitions: list[PartitionDetail] = []
        while True:
            page = (self._detail(queue, limit=PAGE, offset=len(partitions))).partitions
            partitions += page
            if len(page) < PAGE:
                return partitions

    def _detail(self, queue: str, *, limit: int, offset: int = 0) -> QueueDetail:
        request = read(paths.queue(check_name("queue", queue)), limit=limit, offset=offset)
        answer = self._connection.send(request)
        return answer.decode(QueueDetail)
