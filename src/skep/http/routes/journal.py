"""The journal: whole queues as tables and streams, for Spark and others who read in bulk."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import TYPE_CHECKING

import msgspec

from skep.core.journal.journal import Selection
from skep.core.journal.reader_group import Reader, Start, StartAtTime
from skep.core.journal.scan import PartitionFilter
from skep.errors import Invalid, NotFound, OutcomeUnknown, SkepError, Unavailable
from skep.http.auth.principal import Permission, not_yours
from skep.http.limits import MB
from skep.http.problems import status_of
from skep.http.request import Call, Reply
from skep.http.routing import Route, no_queue, post
from skep.model.journal import Position, Step, behind
from skep.model.name import MILLISECOND, check_count
from skep.wire.journal.journal import (
    BeginAnswer,
    BeginBody,
    HeadsAnswer,
    HeadsBody,
    MoveBody,
    ReadBody,
    ReaderAnswer,
    StartAt,
    to_start,
)

if TYPE_CHECKING:
    from skep.wire.journal.arrow_writer import Writer

ARROW = "application/vnd.apache.arrow.stream"
MAX_BATCH_ROWS = 100_000


async def heads(call: Call) -> Reply:
    """How far queues go, and where a time is; with a wait not before there is something new."""
    body: HeadsBody = call.body
    found = await call.broker.journal.look(
        Selection(queues=body.queues, pattern=body.pattern),
        call.principal.sees,
        at=None if body.at is None else body.at * MILLISECOND,
        after=body.after,
        wait_ms=body.wait,
        max_rows=body.max_rows,
        max_bytes=body.max_bytes,
    )
    if body.wait:
        await call.authorize()
    return Reply(
        HeadsAnswer(
            heads=found.heads, first=found.first, at=found.at, end=found.end, rows=found.rows
        )
    )


async def read(call: Call) -> Reply:
    """The messages of ranges as a stream of Arrow record batches."""
    body: ReadBody = call.body
    check_count("batchRows", body.batch_rows, least=1, most=MAX_BATCH_ROWS)
    if not body.columns or len(set(body.columns)) != len(body.columns):
        raise Invalid("columns", "must name at least one column, and none twice")
    some = PartitionFilter(partitions=body.partitions, prefix=body.prefix or "", share=body.share)
    steps = await call.broker.journal.read(
        body.queue, body.number, body.ranges, some, in_order=body.in_order
    )
    return Reply(_stream(body, steps), media_type=ARROW.encode())


async def _stream(body: ReadBody, steps: AsyncIterator[Step]) -> AsyncGenerator[bytes, None]:
    writer = await asyncio.to_thread(_writer, body)
    for piece in writer.begin():
        yield piece
    try:
        async for step in steps:
            for piece in writer.write(step):
                yield piece
        last = writer.end()
    except SkepError as error:
        # It is too late for a status; a stream that merely ended would not say why.
        again = isinstance(error, Unavailable | OutcomeUnknown)
        last = writer.fail(str(error), status_of(error), again=again)
    for piece in last:
        yield piece


def _writer(body: ReadBody) -> "Writer":
    # Here and not above: it costs a second and eighty megabytes, and most servers never need it.
    from skep.wire.journal.arrow_writer import Writer

    return Writer(body)


async def begin(call: Call) -> Reply:
    """Where a group begins to read; the same answer until it has moved on from there."""
    call.principal.check(Permission.READ)
    await _check_group(call)
    body: BeginBody = call.body
    position, pinned = await call.broker.reader_groups.begin(
        call.params["group"],
        Selection(queues=body.queues, pattern=body.pattern),
        _start(body.start),
        call.principal.sees,
    )
    return Reply(BeginAnswer(position=position, pinned=pinned))


def _start(start: msgspec.Raw) -> Start:
    try:
        asked = to_start(start)
    except msgspec.ValidationError:
        raise Invalid(
            "start", "must be 'earliest', 'latest', 'group', a position, or a time with 'at'"
        ) from None
    if isinstance(asked, StartAt):
        return StartAtTime(at=asked.at * MILLISECOND, otherwise=asked.otherwise)
    return asked


async def move(call: Call) -> Reply:
    """Say how far a group is."""
    await _check_group(call)
    body: MoveBody = call.body
    found = await call.broker.reader_groups.move(
        call.params["group"], body.position, stay=body.stay
    )
    return await _shown(call, found)


async def _check_group(call: Call) -> None:
    """Who moves a group decides how long the queues keep messages that it has read so far."""
    known = await call.broker.reader_groups.find(call.params["group"])
    if known is not None:
        call.principal.check_queues(known.position.queues)


async def reader(call: Call) -> Reply:
    """How far a group is, and how many messages lie behind it."""
    try:
        found = await call.broker.reader_groups.get(call.params["group"])
    except NotFound:
        if call.principal.restricted:
            raise not_yours() from None
        raise
    call.principal.check_queues(found.position.queues)
    return await _shown(call, found)


async def _shown(call: Call, found: Reader) -> Reply:
    heads = await call.broker.journal.heads_of(found.position)
    lag = sum(
        behind(queue.lanes, found.position.queues[name].lanes)
        for name, queue in heads.queues.items()
    )
    return Reply(ReaderAnswer(group=found.group, position=found.position, heads=heads, lag=lag))


def _selected(call: Call) -> Iterable[str]:
    """Those that are named; of a pattern only those are found that the caller sees."""
    return call.body.queues or ()


def _of_position(call: Call) -> Iterable[str]:
    position: Position = call.body.position
    return position.queues


def _of_body(call: Call) -> Iterable[str]:
    return (call.body.queue,)


ROUTES = (
    post(
        path="/api/v1/journal/heads",
        handler=heads,
        needs=Permission.READ,
        queues=_selected,
        about="How far queues go, where a time is, and where a reader's next batch ends; may wait.",
        body=HeadsBody,
        body_bytes=2 * MB,
        answer=HeadsAnswer,
    ),
    post(
        path="/api/v1/journal/read",
        handler=read,
        needs=Permission.READ,
        queues=_of_body,
        about="Messages between two positions as Arrow record batches.",
        body=ReadBody,
        body_bytes=2 * MB,
        answer=bytes,
        media_type=ARROW,
    ),
    Route(
        method="PUT",
        path="/api/v1/journal/groups/{group}",
        handler=begin,
        needs=Permission.POP,
        queues=_selected,
        about="Decide once where a group begins to read the journal.",
        body=BeginBody,
        body_bytes=2 * MB,
        answer=BeginAnswer,
    ),
    post(
        path="/api/v1/journal/groups/{group}/position",
        handler=move,
        needs=Permission.POP,
        queues=_of_position,
        about="Say how far a group is in the journal: its lag is counted from there.",
        body=MoveBody,
        body_bytes=2 * MB,
        answer=ReaderAnswer,
    ),
    Route(
        method="GET",
        path="/api/v1/journal/groups/{group}",
        handler=reader,
        needs=Permission.STATUS,
        queues=no_queue,
        about="How far a group is in the journal, and how far it is behind.",
        answer=ReaderAnswer,
    ),
)
