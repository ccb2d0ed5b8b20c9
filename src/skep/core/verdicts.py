"""What callers say of a lease and its messages, as the broker works with it."""

from collections.abc import Iterable

from skep.errors import Invalid
from skep.model.message import Delivery, Message
from skep.model.names import LeaseId, check_lease_id, check_text
from skep.model.operation import Status, Verdict


def lease_of(lease: Delivery | str) -> LeaseId:
    if isinstance(lease, Delivery):
        if lease.lease_id is None:
            raise Invalid("lease", "this delivery was acknowledged when it was popped")
        return lease.lease_id
    return check_lease_id("lease", lease)


def verdicts_on(messages: Iterable[Message], status: Status, error: str) -> list[Verdict]:
    check_text("error", error)
    if not isinstance(messages, Iterable):
        raise Invalid("messages", f"must be messages, not {type(messages).__name__}")
    messages = list(messages)
    if not messages or not all(isinstance(message, Message) for message in messages):
        raise Invalid("messages", "must be messages, at least one")
    return [
        Verdict(message.partition_number, message.offset, status, error) for message in messages
    ]
