"""Looking at messages without consuming them, and doing something about one of them."""

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
"""How far back a list goes that is not asked to go further."""


async def messages(request: HttpRequest) -> HttpResponse:
    """Messages of one queue or of all that the caller sees, newest first."""
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
    """One message with its payload, and what became of it."""
    found = await message_in_path(request)
    view = await request.broker.insight.messages.get(found.id)
    return HttpResponse(to_message_detail(view, await _letter_of(request, view)))


async def delete_message(request: HttpRequest) -> HttpResponse:
    """Remove one message for good; its dead letters stay."""
    found = await message_in_path(request)
    await request.broker.messages.delete(found.id)
    return HttpResponse(
        DeletedMessage(
            partition_id=partition_id(found.partition_number),
            transaction_id=found.transaction_id,
        )
    )


async def retry(request: HttpRequest) -> HttpResponse:
    """Send a message back that was given up: the newest dead letter of it, or a group's."""
    letter = await request.broker.insight.dead_letters.find(
        partition_in_path(request),
        request.params["transactionId"],
        group=request.body.consumer_group,
    )
    if letter is None:
        found = await message_in_path(request)
        raise Conflict(f"message {found.transaction_id!r} is not among the dead letters")
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
    """Move a message to the dead letters of the groups that have not read it, or of one."""
    body: GiveUpBody = request.body
    found = await message_in_path(request)
    groups = await request.broker.messages.give_up(
        found.id, group=body.consumer_group, error=body.error
    )
    return HttpResponse(
        MovedToDeadLetters(
            transaction_id=found.transaction_id, message_id=found.id, consumer_groups=list(groups)
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
        summary="Messages and what became of them, newest first; payloads for who may read them.",
        query=MessagesQuery,
        response=WireMessages,
    ),
    get(
        path=paths.MESSAGE,
        handler=message,
        needs=Permission.READ,
        queues=queue_of_partition,
        summary="One message with its payload, and what became of it for each group.",
        response=MessageDetail,
    ),
    delete(
        path=paths.MESSAGE,
        handler=delete_message,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        summary="Remove one message for good.",
        response=DeletedMessage,
    ),
    post(
        path=paths.RETRY_MESSAGE,
        handler=retry,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        summary="Send a message back that is among the dead letters.",
        body=GroupBody,
        response=Retried,
    ),
    post(
        path=paths.GIVE_UP_MESSAGE,
        handler=give_up,
        needs=Permission.OPERATE,
        queues=queue_of_partition,
        summary="Move a message to the dead letters of groups that have not read it.",
        body=GiveUpBody,
        response=MovedToDeadLetters,
    ),
)
