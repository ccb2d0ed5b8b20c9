"""Dead letters: looking at them, sending them back, throwing them away."""

from skep.core.insight.dead_letter_browser import DeadLetterQuery
from skep.http.auth.principal import Permission
from skep.http.request import Call, Reply
from skep.http.routes.lookup import asked_queue, asked_queues
from skep.http.routing import delete, get, named_queue, post
from skep.wire.message.dead_letter import (
    DeadLetterPage,
    DeletedLetters,
    LetterChoice,
    LetterChoiceQuery,
    LettersQuery,
    Replayed,
    WireLetter,
    check_choice,
    to_choice,
    to_letter,
    to_number,
    to_replayed,
)
from skep.wire.pagination import Pagination, in_utc


async def letters(call: Call) -> Reply:
    """Dead letters of one queue or of all that the caller sees."""
    query: LettersQuery = call.query
    page = await call.broker.insight.dead_letters.page(
        await asked_queues(call, partition=query.partition),
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
    with_data = call.may(Permission.READ)
    return Reply(
        DeadLetterPage(
            messages=[to_letter(letter, with_data=with_data) for letter in page.dead_letters],
            total=page.total,
            next=page.next,
            pagination=Pagination(limit=query.limit, offset=query.offset, total=page.total),
        )
    )


async def letter(call: Call) -> Reply:
    """One dead letter by its number."""
    number = to_number("number", call.params["number"])
    found = await call.broker.dead_letters.get(call.params["queue"], number)
    return Reply(to_letter(found, with_data=True))


async def replay(call: Call) -> Reply:
    """Put dead letters back at the end of their partitions, for every group of the queue."""
    queue, choice = call.params["queue"], check_choice(call.body)
    broker = call.broker.dead_letters
    if choice.numbers is not None:
        receipts = await broker.replay(queue, list(dict.fromkeys(choice.numbers)))
        messages = [to_replayed(receipt) for receipt in receipts]
        return Reply(Replayed(queue=queue, replayed=len(messages), messages=messages))
    count = await broker.replay_all(queue, group=choice.consumer_group, partition=choice.partition)
    return Reply(Replayed(queue=queue, replayed=count))


async def delete_letters(call: Call) -> Reply:
    """Throw dead letters away for good."""
    queue, choice = call.params["queue"], check_choice(to_choice(call.query))
    broker = call.broker.dead_letters
    if choice.numbers is not None:
        numbers = list(dict.fromkeys(choice.numbers))
        await broker.delete(queue, numbers)
        count = len(numbers)
    else:
        count = await broker.delete_all(
            queue, group=choice.consumer_group, partition=choice.partition
        )
    return Reply(DeletedLetters(queue=queue, deleted=count))


ROUTES = (
    get(
        path="/api/v1/dlq",
        handler=letters,
        needs=Permission.STATUS,
        queues=asked_queue,
        about="Dead letters, newest first; payloads and error texts need the permission read.",
        query=LettersQuery,
        answer=DeadLetterPage,
    ),
    get(
        path="/api/v1/dlq/{queue}/{number}",
        handler=letter,
        needs=Permission.READ,
        queues=named_queue,
        about="One dead letter with its payload.",
        answer=WireLetter,
    ),
    post(
        path="/api/v1/dlq/{queue}/replay",
        handler=replay,
        needs=Permission.OPERATE,
        queues=named_queue,
        about="Send dead letters back: by number, those of a group or partition, or all.",
        body=LetterChoice,
        answer=Replayed,
    ),
    delete(
        path="/api/v1/dlq/{queue}",
        handler=delete_letters,
        needs=Permission.ADMIN,
        queues=named_queue,
        about="Throw dead letters away: by number, those of a group or partition, or all.",
        query=LetterChoiceQuery,
        answer=DeletedLetters,
    ),
)
