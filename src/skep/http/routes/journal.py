"""The journal: whole queues in bulk, for Spark and other bulk readers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import TYPE_CHECKING

import msgspec

from skep.core.journal.journal import Selection
from skep.core.journal.reader_group import Reader, Start, StartAtTime
from skep.core.journal.scan import PartitionFilter
from skep.errors import Invalid, NotFound, OutcomeUnknown, SkepError, Unavailable
from skep.http.auth.principal import Permission, not_accessible
from skep.http.limits import MB
from skep.http.problems import status_of
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route, no_queue, post
from skep.model.journal import Position, Step, behind
from skep.model.name import MILLISECOND, check_count
from skep.wire import paths
from skep.wire.journal.journal import (
    BeginBody,
    BeginResponse,
    HeadsBody,
    HeadsResponse,
    MoveBody,
    ReadBody,
    ReaderResponse,
    StartAt,
    to_start,
)

if TYPE_CHECKING:
    from skep.wire.journal.arrow_writer import Writer

ARROW = "application/vnd.apache.arrow.stream"
MAX_BATCH_ROWS = 100_000


async def heads(request: HttpRequest) -> HttpResponse:
    """Heads of queues, and the position of a time; with a wait, after the heads have moved."""
    body: HeadsBody = request.body
    result = await request.broker.journal.look(
        Selection(queues=body.queues, pattern=body.pattern),
        request.principal.sees,
        at=None if body.at is None else body.at * MILLISECOND,
        after=body.after,
        wait_ms=body.wait,
        max_rows=body.max_rows,
        max_bytes=body.max_bytes,
    )
    if body.wait:
        await request.authorize()
    return HttpResponse(
        HeadsResponse(
            heads=result.heads, first=result.first, at=result.at, end=result.end, rows=result.rows
        )
    )


async def read(request: HttpRequest) -> HttpResponse:
    """The messages of ranges as a stream of Arrow record batches."""
    body: ReadBody = request.body
    check_count("batchRows", body.batch_rows, least=1, most=MAX_BATCH_ROWS)
    if not body.columns or len(set(body.columns)) != len(body.columns):
        raise Invalid("columns", "must name at least one column, and none twice")
    selected = PartitionFilter(
        partitions=body.partitions, prefix=body.prefix or "", share=body.share
    )
    steps = await request.broker.journal.read(
        body.queue, body.number, body.ranges, selected, in_order=body.in_order
    )
    return HttpResponse(_stream(body, steps), media_type=ARROW.encode())


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
        # The status is already sent; a stream that just ended would not report the error.
        again = isinstance(error, Unavailable | OutcomeUnknown)
        last = writer.fail(str(error), status_of(error), again=again)
    for piece in last:
        yield piece


def _writer(body: ReadBody) -> "Writer":
    # Imported here: it takes a second and eighty megabytes, and most servers never need it.
    from skep.wire.journal.arrow_writer import Writer

    return Writer(body)


async def begin(request: HttpRequest) -> HttpResponse:
    """The start position of a reader group; the same until the group has moved on."""
    request.principal.check(Permission.READ)
    await _check_group(request)
    body: BeginBody = request.body
    position, pinned = await request.broker.reader_groups.begin(
        request.params["group"],
        Selection(queues=body.queues, pattern=body.pattern),
        _start(body.start),
        request.principal.sees,
    )
    return HttpResponse(BeginResponse(position=position, pinned=pinned))


def _start(start: msgspec.Raw) -> Start:
    try:
        decoded = to_start(start)
    except msgspec.ValidationError:
        raise Invalid(
            "start", "must be 'earliest', 'latest', 'group', a position, or a time with 'at'"
        ) from None
    if isinstance(decoded, StartAt):
        return StartAtTime(at=decoded.at * MILLISECOND, otherwise=decoded.otherwise)
    return decoded


async def move(request: HttpRequest) -> HttpResponse:
    """Record the position of a reader group."""
    await _check_group(request)
    body: MoveBody = request.body
    moved = await request.broker.reader_groups.move(
        request.params["group"], body.position, stay=body.stay
    )
    return await _to_response(request, moved)


async def _check_group(request: HttpRequest) -> None:
    """The position of a group decides how long queues keep messages, so check access to them."""
    existing = await request.broker.reader_groups.find(request.params["group"])
    if existing is not None:
        request.principal.check_queues(existing.position.queues)


async def reader(request: HttpRequest) -> HttpResponse:
    """The position of a reader group, and its lag."""
    try:
        group = await request.broker.reader_groups.get(request.params["group"])
    except NotFound:
        if request.principal.restricted:
            raise not_accessible() from None
        raise
    request.principal.check_queues(group.position.queues)
    return await _to_response(request, group)


async def _to_response(request: HttpRequest, reader: Reader) -> HttpResponse:
    heads = await request.broker.journal.heads_of(reader.position)
    lag = sum(
        behind(queue.lanes, reader.position.queues[name].lanes)
        for name, queue in heads.queues.items()
    )
    return HttpResponse(
        ReaderResponse(group=reader.group, position=reader.position, heads=heads, lag=lag)
    )


def _selected(request: HttpRequest) -> Iterable[str]:
    """The named queues; a pattern only matches queues that the caller may see."""
    return request.body.queues or ()


def _of_position(request: HttpRequest) -> Iterable[str]:
    position: Position = request.body.position
    return position.queues


def _of_body(request: HttpRequest) -> Iterable[str]:
    return (request.body.queue,)


ROUTES = (
    post(
        path=paths.JOURNAL_HEADS,
        handler=heads,
        needs=Permission.READ,
        queues=_selected,
        summary="Heads of queues, the position of a time, and the end of the next batch; may wait.",
        body=HeadsBody,
        body_bytes=2 * MB,
        response=HeadsResponse,
    ),
    post(
        path=paths.JOURNAL_READ,
        handler=read,
        needs=Permission.READ,
        queues=_of_body,
        summary="Messages between two positions as Arrow record batches.",
        body=ReadBody,
        body_bytes=2 * MB,
        response=bytes,
        media_type=ARROW,
    ),
    Route(
        method="PUT",
        path=paths.JOURNAL_GROUP,
        handler=begin,
        needs=Permission.POP,
        queues=_selected,
        summary="Decide once where a reader group starts.",
        body=BeginBody,
        body_bytes=2 * MB,
        response=BeginResponse,
    ),
    post(
        path=paths.JOURNAL_POSITION,
        handler=move,
        needs=Permission.POP,
        queues=_of_position,
        summary="Record the position of a reader group; its lag is counted from there.",
        body=MoveBody,
        body_bytes=2 * MB,
        response=ReaderResponse,
    ),
    Route(
        method="GET",
        path=paths.JOURNAL_GROUP,
        handler=reader,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="Return the position of a reader group, and its lag.",
        response=ReaderResponse,
    ),
)
