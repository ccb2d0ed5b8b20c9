"""The client's objects as JSON, with names in camel case.

A payload that is JSON is embedded, any other is base64; ``encoding`` says which.
"""

from typing import Any

from skep.cli.output import fields_of
from skep.model.dead_letter import FailedMessage
from skep.model.message import Delivery, Message
from skep.model.message_view import TracedMessage
from skep.model.name import to_datetime
from skep.model.operation import Settlement
from skep.model.queue import Queue, Removal
from skep.model.stats import Counts, PartitionSummary, QueueSummary
from skep.wire.payload import to_wire


def message_json(message: Message) -> dict[str, Any]:
    """Return a message as ``skep push --envelope`` accepts it."""
    return {
        "id": message.id,
        "queue": message.queue,
        "partition": message.partition,
        "offset": message.offset,
        "transactionId": message.transaction_id,
        "traceId": message.trace_id,
        "producer": message.producer,
        "createdAt": message.created_at,
        "attempt": message.attempt,
        **_encoded("payload", message.payload),
    }


def delivery_json(delivery: Delivery) -> dict[str, Any]:
    return {
        "group": delivery.group,
        "leaseId": delivery.lease_id,
        "expiresAt": delivery.expires_at,
        "truncated": delivery.truncated,
        "messages": [message_json(message) for message in delivery.messages],
    }


def settlement_json(settlement: Settlement) -> dict[str, Any]:
    return {
        "completed": settlement.completed,
        "deadLetters": settlement.dead_letters,
        "retryAt": settlement.retry_at,
        "released": settlement.released,
    }


def dead_letter_json(letter: FailedMessage) -> dict[str, Any]:
    return fields_of(letter) | _encoded("payload", letter.payload)


def event_json(traced: TracedMessage) -> dict[str, Any]:
    event, message = traced.event, traced.message
    return {
        "number": event.number,
        "kind": event.kind,
        "names": event.names,
        "group": event.group,
        "worker": event.worker,
        "createdAt": to_datetime(event.created_at),
        "queue": message.queue,
        "partition": message.partition,
        "offset": message.offset,
        "transactionId": message.transaction_id,
        **_encoded("data", event.data),
    }


def queue_json(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "namespace": queue.namespace,
        "task": queue.task,
        "createdAt": to_datetime(queue.created_at),
        "options": queue.options,
    }


def summary_json(summary: QueueSummary) -> dict[str, Any]:
    return {
        **queue_json(summary.queue),
        "partitions": summary.partitions,
        "groups": summary.groups,
        "messages": counts_json(summary.counts),
        "messagesConsumed": summary.messages_consumed,
        "batchesConsumed": summary.batches_consumed,
    }


def partition_json(partition: PartitionSummary) -> dict[str, Any]:
    return {
        "name": partition.name,
        "start": partition.start,
        "end": partition.end,
        "messages": counts_json(partition.counts),
        "messagesConsumed": partition.messages_consumed,
        "batchesConsumed": partition.batches_consumed,
        "createdAt": partition.created_at,
        "firstAt": partition.first_at,
        "newestAt": partition.newest_at,
    }


def removal_json(removal: Removal, partition: str) -> dict[str, Any]:
    return {
        "partition": partition,
        "kind": removal.kind,
        "messages": removal.messages,
        "executedAt": to_datetime(removal.executed_at),
    }


def counts_json(counts: Counts) -> dict[str, Any]:
    return fields_of(counts) | {"completed": counts.completed}


def _encoded(name: str, content: bytes) -> dict[str, Any]:
    value, encoding = to_wire(content)
    return {name: value, "encoding": encoding}
