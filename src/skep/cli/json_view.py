"""The nouns of the client as JSON: their own words, in camel case.

A payload is what it is if it is JSON, and otherwise in base64; ``encoding`` says which.
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


def shown_message(message: Message) -> dict[str, Any]:
    """A message; ``skep push --envelope`` takes it."""
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


def shown_delivery(delivery: Delivery) -> dict[str, Any]:
    return {
        "group": delivery.group,
        "leaseId": delivery.lease_id,
        "expiresAt": delivery.expires_at,
        "truncated": delivery.truncated,
        "messages": [shown_message(message) for message in delivery.messages],
    }


def shown_settlement(settlement: Settlement) -> dict[str, Any]:
    return {
        "completed": settlement.completed,
        "deadLetters": settlement.dead_letters,
        "retryAt": settlement.retry_at,
        "released": settlement.released,
    }


def shown_letter(letter: FailedMessage) -> dict[str, Any]:
    return fields_of(letter) | _encoded("payload", letter.payload)


def shown_event(traced: TracedMessage) -> dict[str, Any]:
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


def shown_queue(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "namespace": queue.namespace,
        "task": queue.task,
        "createdAt": to_datetime(queue.created_at),
        "options": queue.options,
    }


def shown_summary(summary: QueueSummary) -> dict[str, Any]:
    return {
        **shown_queue(summary.queue),
        "partitions": summary.partitions,
        "groups": summary.groups,
        "messages": shown_counts(summary.counts),
        "messagesConsumed": summary.messages_consumed,
        "batchesConsumed": summary.batches_consumed,
    }


def shown_partition(partition: PartitionSummary) -> dict[str, Any]:
    return {
        "name": partition.name,
        "start": partition.start,
        "end": partition.end,
        "messages": shown_counts(partition.counts),
        "messagesConsumed": partition.messages_consumed,
        "batchesConsumed": partition.batches_consumed,
        "createdAt": partition.created_at,
        "firstAt": partition.first_at,
        "newestAt": partition.newest_at,
    }


def shown_removal(removal: Removal, partition: str) -> dict[str, Any]:
    return {
        "partition": partition,
        "kind": removal.kind,
        "messages": removal.messages,
        "executedAt": to_datetime(removal.executed_at),
    }


def shown_counts(counts: Counts) -> dict[str, Any]:
    return fields_of(counts) | {"completed": counts.completed}


def _encoded(name: str, content: bytes) -> dict[str, Any]:
    value, encoding = to_wire(content)
    return {name: value, "encoding": encoding}
