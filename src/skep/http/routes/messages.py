"""Messages without consuming them: browse, delete, retry, give up."""

from datetime import timedelta

from skep.core.insight.message_browser import MessageFilter
from skep.errors import Conflict
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.lookup import (
    message_in_path,
    partition_in_path,
    queue_in_query,
    queue_of_partition,
    queues_in_query,
)
from skep.http.routing import delete, get, post
from skep.model.address import partition_id
from skep.model.dead_letter import FailedMessage
from skep.model.message_view import MessageView
from skep.model.name import to_datetime
from skep.wire import paths
from skep.wire.message.message import (
    DeletedMessage,
    GiveUpBody,
    GroupBody,
    MessageDetail,
    MessagesQuery,
    MovedToDeadLetters,
    Retried,
    WireMessages,
    to_message,
    to_message_detail,
    to_mode,
)
from skep.wire.pagination import in_utc

RECENT = timedelta(hours=1)
"""Default start of a list, before now."""


async def messages(request: HttpRequest) -> HttpResponse:
    """Messages of one queue, or of all queues that the caller may see, newest first."""
    query: MessagesQuery = request.query
    page = await request.broker.insight.messages.page(
        await queues_in_query(
            request,
            namespace=query.namespace or query.ns,
            task=query.task,
            partition=query.partition,
        ),
        MessageFilter(
            partition=query.partition,
            status=query.status,
            from_=in_utc(query.from_) or to_datetime(request.broker.insight.clock.now()) - RECENT,
            to=in_utc(query.to),
        ),
        payloads=request.may(Permission.READ),
        before=query.before,
        offset=query.offset,
        limit=query.limit,
    )
    return HttpResponse(
        WireMessages(
            messages=[to_message(view) for view in page.messages],
            mode=to_mode(view.group_statuses for view in page.messages),
            next=page.next,
        )
    )


async def message(request: HttpRequest) -> HttpResponse:
    """One message with its payload and status."""
    message = await message_in_path(request)
    view = await request.broker.insight.messages.get(message.id)
    return HttpResponse(to_message_detail(view, await _letter_of(request, view)))


async def delete_message(request: HttpRequest) -> HttpResponse:
    """Delete one message; its dead letters stay."""
    message = await message_in_path(request)
    await request.broker.messages.delete(message.id)
    return HttpResponse(
        DeletedMessage(
            partition_id=partition_id(message.partition_number),
            transaction_id=message.transaction_id,
        )
    )


async def retry(request: HttpRequest) -> HttpResponse:
    """Replay the newest dead letter of a message, or that of a group."""
    letter = await request.broker.insight.dead_letters.find(
        partition_in_path(request),
        request.params["transactionId"],
        group=request.body.consumer_group,
    )
    if letter is None:
        message = await message_in_path(request)
        raise Conflict(f"message {message.transaction_id!r} is not a dead letter")
    (receipt,) = await request.broker.dead_letters.replay(letter.queue, [letter.number])
    return HttpResponse(
        Retried(
            transaction_id=receipt.transaction_id,
            consumer_group=letter.group,
            message_id=receipt.id,
            offset=receipt.offset,
        )
    )


async def give_up(request: HttpRequest) -> HttpResponse:
    """Dead-letter a message for the groups that have not read it, or for one group."""
    body: GiveUpBody = request.body
    message = await message_in_path(request)
    groups = await request.broker.messages.give_up(
        message.id, group=body.consumer_group, error=body.error
    )
    return HttpResponse(
        MovedToDeadLetters(
            transaction_id=message.transaction_id,
            message_id=message.id,
            consumer_groups=list(groups),
        )
    )


async def _letter_of(request: HttpRequest, view: MessageView) -> FailedMessage | None:
    """The newest dead letter of a message."""
    numbers = [each.dead_letter for each in view.group_statuses if each.dead_letter is not None]
    if not numbers:
        return None
    return await request.broker.dead_letters.get(view.message.queue, max(numbers))


ROUTES = (
    get(
        path=paths.MESSAGES,
        handler=messages,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="List messages with their status, newest first; payloads need the permission read.",
        query=MessagesQuery,
        response=WireMessages,
    ),
    get(
        path=paths.MESSAGE,
        handler=message,
        needs=Permission.READ,
        queues=queue_of_partition,
        summary="Return one message with its payload, and its status for each group.",
        response=MessageDetail,
    ),
    delete(
        path=paths.MESSAGE,
        handler=delete_message,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        summary="Delete one message.",
        response=DeletedMessage,
    ),
    post(
        path=paths.RETRY_MESSAGE,
        handler=retry,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        summary="Replay the dead letter of a message.",
        body=GroupBody,
        response=Retried,
    ),
    post(
        path=paths.GIVE_UP_MESSAGE,
        handler=give_up,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        summary="Dead-letter a message for groups that have not read it.",
        body=GiveUpBody,
        response=MovedToDeadLetters,
    ),
)
