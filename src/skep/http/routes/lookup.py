"""Finds the queue, partition or message that a request names."""

from collections.abc import Iterable
from uuid import UUID

from skep.errors import Invalid, MessageNotFound, PartitionNotFound
from skep.http.auth.principal import not_accessible
from skep.http.request import HttpRequest
from skep.model.address import address_of, partition_of
from skep.model.message import Message
from skep.model.queue import Queue


def queue_in_query(request: HttpRequest) -> Iterable[str]:
    """For a route with an optional queue in its query."""
    return () if request.query.queue is None else (request.query.queue,)


async def queues_in_query(
    request: HttpRequest,
    *,
    namespace: str | None = None,
    task: str | None = None,
    partition: str | None = None,
) -> list[Queue]:
    """The queue in the query, which must exist, or all queues that the caller may see.

    With one queue and a ``partition``, the queue must have it.
    """
    name: str | None = request.query.queue
    if name is None:
        return await request.broker.insight.queues.find(
            request.principal.sees, namespace=namespace, task=task
        )
    config = await request.broker.queues.get(name)
    if partition is not None and not await request.broker.queues.has(name, partition):
        raise PartitionNotFound(name, partition)
    return [config] if namespace in (None, config.namespace) and task in (None, config.task) else []


async def queue_of_partition(request: HttpRequest) -> Iterable[str]:
    """For a route with the id of a partition in its path."""
    names = await request.broker.held_messages.partition(partition_in_path(request))
    if names is None:
        raise not_accessible()
    return (names[0],)


def partition_in_path(request: HttpRequest) -> int:
    """The number of the partition whose id is in the path."""
    text = request.params["partitionId"]
    try:
        return partition_of(UUID(text))
    except (ValueError, Invalid):
        raise Invalid("partitionId", f"{text[:64]!r} is not the id of a partition") from None


async def message_in_path(request: HttpRequest) -> Message:
    """The message that the path names by partition and transaction id."""
    return await find_message(request, partition_in_path(request), request.params["transactionId"])


async def find_message(request: HttpRequest, partition: int, transaction_id: str) -> Message:
    """The message with a transaction id in a partition, or with this message id."""
    names = await request.broker.held_messages.partition(partition)
    try:
        message = names and await request.broker.messages.find(*names, transaction_id)
    except Invalid as error:
        raise Invalid("transactionId", error.reason) from None
    return message or await _find_by_id(request, partition, transaction_id)


async def _find_by_id(request: HttpRequest, partition: int, text: str) -> Message:
    try:
        message_id = UUID(text)
        if address_of(message_id)[0] == partition:
            return await request.broker.messages.get(message_id)
    except (ValueError, Invalid):
        pass
    raise MessageNotFound(text)
