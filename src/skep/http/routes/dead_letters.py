"""Dead letters: list, replay, delete."""

from skep.core.insight.dead_letter_browser import DeadLetterQuery
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes.lookup import queue_in_query, queues_in_query
from skep.http.routing import delete, get, named_queue, post
from skep.wire import paths
from skep.wire.message.dead_letter import (
    DeadLetterSelection,
    DeadLetterSelectionQuery,
    DeadLettersQuery,
    DeadLettersResponse,
    DeletedDeadLetters,
    Replayed,
    WireDeadLetter,
    check_selection,
    to_number,
    to_replayed,
    to_selection,
    to_wire_dead_letter,
)
from skep.wire.pagination import Pagination, in_utc


async def letters(request: HttpRequest) -> HttpResponse:
    """Dead letters of one queue, or of all queues that the caller may see."""
    query: DeadLettersQuery = request.query
    page = await request.broker.insight.dead_letters.page(
        await queues_in_query(request, partition=query.partition),
        DeadLetterQuery(
            group=query.consumer_group,
            partition=query.partition,
            from_=in_utc(query.from_),
            to=in_utc(query.to),
        ),
        before=query.before,
        offset=query.offset,
        limit=query.limit,
    )
    with_data = request.may(Permission.READ)
    return HttpResponse(
        DeadLettersResponse(
            messages=[
                to_wire_dead_letter(letter, with_data=with_data) for letter in page.dead_letters
            ],
            total=page.total,
            next=page.next,
            pagination=Pagination(limit=query.limit, offset=query.offset, total=page.total),
        )
    )


async def letter(request: HttpRequest) -> HttpResponse:
    """One dead letter by its number."""
    number = to_number("number", request.params["number"])
    found = await request.broker.dead_letters.get(request.params["queue"], number)
    return HttpResponse(to_wire_dead_letter(found, with_data=True))


async def replay(request: HttpRequest) -> HttpResponse:
    """Append dead letters to their partitions again, for every group of the queue."""
    queue, choice = request.params["queue"], check_selection(request.body)
    broker = request.broker.dead_letters
    if choice.numbers is not None:
        receipts = await broker.replay(queue, list(dict.fromkeys(choice.numbers)))
        messages = [to_replayed(receipt) for receipt in receipts]
        return HttpResponse(Replayed(queue=queue, replayed=len(messages), messages=messages))
    count = await broker.replay_all(queue, group=choice.consumer_group, partition=choice.partition)
    return HttpResponse(Replayed(queue=queue, replayed=count))


async def delete_letters(request: HttpRequest) -> HttpResponse:
    """Delete dead letters."""
    queue, choice = request.params["queue"], check_selection(to_selection(request.query))
    broker = request.broker.dead_letters
    if choice.numbers is not None:
        numbers = list(dict.fromkeys(choice.numbers))
        await broker.delete(queue, numbers)
        count = len(numbers)
    else:
        count = await broker.delete_all(
            queue, group=choice.consumer_group, partition=choice.partition
        )
    return HttpResponse(DeletedDeadLetters(queue=queue, deleted=count))


ROUTES = (
    get(
        path=paths.DEAD_LETTERS,
        handler=letters,
        needs=Permission.STATUS,
        queues=queue_in_query,
        summary="List dead letters, newest first; payloads and errors need the permission read.",
        query=DeadLettersQuery,
        response=DeadLettersResponse,
    ),
    get(
        path=paths.DEAD_LETTER,
        handler=letter,
        needs=Permission.READ,
        queues=named_queue,
        summary="Return one dead letter with its payload.",
        response=WireDeadLetter,
    ),
    post(
        path=paths.REPLAY,
        handler=replay,
        needs=Permission.OPERATE,
        queues=named_queue,
        summary="Replay dead letters: by number, those of a group or partition, or all.",
        body=DeadLetterSelection,
        response=Replayed,
    ),
    delete(
        path=paths.QUEUE_DEAD_LETTERS,
        handler=delete_letters,
        needs=Permission.ADMIN,
        queues=named_queue,
        summary="Delete dead letters: by number, those of a group or partition, or all.",
        query=DeadLetterSelectionQuery,
        response=DeletedDeadLetters,
    ),
)
