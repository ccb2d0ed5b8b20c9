"""Which queues a request is about that names them in its query, or its partition by id."""

from collections.abc import Iterable
from uuid import UUID

from skep.errors import Invalid, PartitionNotFound
from skep.http.call import Call
from skep.model.address import partition_of
from skep.model.queue import Queue


def asked_queue(call: Call) -> Iterable[str]:
    """For a route with the queue in its query, if it is about one."""
    return () if call.query.queue is None else (call.query.queue,)


def asked_queues(
    call: Call,
    *,
    namespace: str | None = None,
    task: str | None = None,
    partition: str | None = None,
) -> list[Queue]:
    """The queue in the query, which must exist, or all that the caller sees.

    If one queue is asked for, it must have the ``partition`` that is.
    """
    name: str | None = call.query.queue
    if name is None:
        return call.broker.insight.queues.find(call.principal.sees, namespace=namespace, task=task)
    config = call.broker.queues.get(name)
    if partition is not None:
        known = call.broker.queues.partitions(name)
        if all(each.name != partition for each in known):
            raise PartitionNotFound(name, partition)
    return [config] if namespace in (None, config.namespace) and task in (None, config.task) else []


def queue_of_partition(call: Call) -> Iterable[str]:
    """For a route with the id of a partition in its path."""
    found = call.broker.addresses.partition(partition_in_path(call))
    return () if found is None else (found[0],)


def partition_in_path(call: Call) -> int:
    """The number of the partition whose id is in the path."""
    text = call.params["partition_id"]
    try:
        return partition_of(UUID(text))
    except (ValueError, Invalid):
        raise Invalid("partitionId", f"{text[:64]!r} is not the id of a partition") from None
