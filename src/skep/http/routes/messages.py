"""Looking at messages without consuming them, and doing something about one of them."""

from datetime import timedelta

from skep.core.insight.message_browser import MessageFilter
from skep.errors import Conflict
from skep.http.auth.principal import Permission
from skep.http.request import Call, Reply
from skep.http.routes.lookup import (
    asked_queue,
    asked_queues,
    message_in_path,
    partition_in_path,
    queue_of_partition,
)
from skep.http.routing import delete, get, post
from skep.model.address import partition_id
from skep.model.dead_letter import FailedMessage
from skep.model.message_view import MessageView
from skep.model.name import to_datetime
from skep.wire.message.message import (
    DeletedMessage,
    GiveUpBody,
    GroupBody,
    MessageDetail,
    MessagesQuery,
    MovedToLetters,
    Retried,
    WireMessages,
    to_message,
    to_message_detail,
    to_mode,
)
from skep.wire.pagination import in_utc

RECENT = timedelta(hours=1)
"""How far back a list goes that is not asked to go further."""


async def messages(call: Call) -> Reply:
    """Messages of one queue or of all that the caller sees, newest first."""
    query: MessagesQuery = call.query
    page = await call.broker.insight.messages.page(
        await asked_queues(
            call,
            namespace=query.namespace or query.ns,
            task=query.task,
            partition=query.partition,
        ),
        MessageFilter(
            partition=query.partition,
            status=query.status,
            from_=in_utc(query.from_) or to_datetime(call.broker.insight.clock.now()) - RECENT,
            to=in_utc(query.to),
        ),
        payloads=call.may(Permission.READ),
        before=query.before,
        offset=query.offset,
        limit=query.limit,
    )
    return Reply(
        WireMessages(
            messages=[to_message(view) for view in page.messages],
            mode=to_mode(view.group_statuses for view in page.messages),
            next=page.next,
        )
    )


async def message(call: Call) -> Reply:
    """One message with its payload, and what became of it."""
    found = await message_in_path(call)
    view = await call.broker.insight.messages.get(found.id)
    return Reply(to_message_detail(view, await _letter_of(call, view)))


async def delete_message(call: Call) -> Reply:
    """Remove one message for good; its dead letters stay."""
    found = await message_in_path(call)
    await call.broker.messages.delete(found.id)
    return Reply(
        DeletedMessage(
            partition_id=partition_id(found.partition_number),
            transaction_id=found.transaction_id,
        )
    )


async def retry(call: Call) -> Reply:
    """Send a message back that was given up: the newest dead letter of it, or a group's."""
    letter = await call.broker.insight.dead_letters.find(
        partition_in_path(call), call.params["transactionId"], group=call.body.consumer_group
    )
    if letter is None:
        found = await message_in_path(call)
        raise Conflict(f"message {found.transaction_id!r} is not among the dead letters")
    (receipt,) = await call.broker.dead_letters.replay(letter.queue, [letter.number])
    return Reply(
        Retried(
            transaction_id=receipt.transaction_id,
            consumer_group=letter.group,
            message_id=receipt.id,
            offset=receipt.offset,
        )
    )


async def give_up(call: Call) -> Reply:
    """Move a message to the dead letters of the groups that have not read it, or of one."""
    body: GiveUpBody = call.body
    found = await message_in_path(call)
    groups = await call.broker.messages.give_up(
        found.id, group=body.consumer_group, error=body.error
    )
    return Reply(
        MovedToLetters(
            transaction_id=found.transaction_id, message_id=found.id, consumer_groups=list(groups)
        )
    )


async def _letter_of(call: Call, view: MessageView) -> FailedMessage | None:
    """The newest dead letter of a message."""
    numbers = [each.dead_letter for each in view.group_statuses if each.dead_letter is not None]
    if not numbers:
        return None
    return await call.broker.dead_letters.get(view.message.queue, max(numbers))


ROUTES = (
    get(
        path="/api/v1/messages",
        handler=messages,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="Messages and what became of them, newest first; payloads for who may read them.",
        query=MessagesQuery,
        answer=WireMessages,
    ),
    get(
        path="/api/v1/messages/{partitionId}/{transactionId}",
        handler=message,
        needs=Permission.READ,
        queues=queue_of_partition,
        about="One message with its payload, and what became of it for each group.",
        answer=MessageDetail,
    ),
    delete(
        path="/api/v1/messages/{partitionId}/{transactionId}",
        handler=delete_message,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        about="Remove one message for good.",
        answer=DeletedMessage,
    ),
    post(
        path="/api/v1/messages/{partitionId}/{transactionId}/retry",
        handler=retry,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        about="Send a message back that is among the dead letters.",
        body=GroupBody,
        answer=Retried,
    ),
    post(
        path="/api/v1/messages/{partitionId}/{transactionId}/dlq",
        handler=give_up,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        about="Move a message to the dead letters of groups that have not read it.",
        body=GiveUpBody,
        answer=MovedToLetters,
    ),
)
