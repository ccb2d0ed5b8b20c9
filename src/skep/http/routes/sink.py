"""The sink: rows are staged by many, and published once by one."""

import asyncio
from collections.abc import Iterable, Sequence

from skep.core.sink.chunk import CHUNK_ROWS
from skep.errors import Forbidden
from skep.http.auth.principal import ANYBODY, Permission
from skep.http.limits import ANY_SIZE
from skep.http.request import Call, Reply
from skep.http.routing import Route, every_queue, no_queue
from skep.model.sink import Stage, StagedRows
from skep.wire.journal.arrow_reader import MEDIA_TYPE, to_rows
from skep.wire.journal.sink import (
    AppAnswer,
    CommitAnswer,
    CommitBody,
    StageAnswer,
    StageQuery,
    from_published,
    to_stages,
)


async def stage(call: Call) -> Reply:
    query: StageQuery = call.query
    rows = await asyncio.to_thread(_allowed_rows, call)
    count = await call.broker.sink.stage(
        query.app,
        query.version,
        query.stage,
        query.chunk,
        rows,
        queue=query.queue,
        producer=call.principal.subject,
        owner=_owner(call),
    )
    return Reply(StageAnswer(rows=count), 201)


async def commit(call: Call) -> Reply:
    body: CommitBody = call.body
    stages = to_stages(body)
    await _check_queues(call, stages)
    done = await call.broker.sink.commit(
        body.app,
        body.version,
        stages,
        owner=_owner(call),
        checkpoint=body.checkpoint,
    )
    return Reply(from_published(done))


async def abort(call: Call) -> Reply:
    body: CommitBody = call.body
    stages = to_stages(body)
    await _check_queues(call, stages)
    await call.broker.sink.abort(body.app, body.version, stages, owner=_owner(call))
    return Reply(status=204)


async def app(call: Call) -> Reply:
    name = call.params["app"]
    version = await call.broker.sink.last_version(name)
    if call.principal.restricted and not await _is_owner(call, name):
        version = None
    return Reply(AppAnswer(app=name, version=version))


async def reset(call: Call) -> Reply:
    name = call.params["app"]
    return Reply(AppAnswer(app=name, version=await call.broker.sink.reset(name)))


def _allowed_rows(call: Call) -> StagedRows:
    rows = to_rows(call.body, most=CHUNK_ROWS)
    if call.principal.restricted:
        call.principal.check_queues({queue for queue in rows.queues or () if queue is not None})
    return rows


async def _is_owner(call: Call, name: str) -> bool:
    owner = await call.broker.sink.owner(name)
    return owner is not None and owner == call.principal.id


def _owner(call: Call) -> str | None:
    """Who an application belongs to: nobody, if the server authenticates nobody."""
    principal = call.principal
    if principal.id is None and principal is not ANYBODY:
        raise Forbidden("an application belongs to a key or a subject: the token has no 'sub'")
    return principal.id


async def _check_queues(call: Call, stages: Sequence[Stage]) -> None:
    """Who is for some queues may neither publish nor drop what lies there for others."""
    if call.principal.restricted:
        body: CommitBody = call.body
        queues = await call.broker.sink.queues(body.app, body.version, stages)
        call.principal.check_queues(queues)


def _asked_queue(call: Call) -> Iterable[str]:
    """The queue that is asked for; those in the rows are looked at when these are decoded."""
    return () if call.query.queue is None else (call.query.queue,)


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/journal/stage",
        handler=stage,
        needs=Permission.PUSH,
        queues=_asked_queue,
        about="Keep a chunk of rows, unseen, until it is committed; the same again replaces it.",
        takes=MEDIA_TYPE,
        query=StageQuery,
        answer=StageAnswer,
        status=201,
    ),
    Route(
        method="POST",
        path="/api/v1/journal/commit",
        handler=commit,
        needs=Permission.PUSH,
        queues=no_queue,
        about="Publish stages as a version of an app, once; 409 if something of them is missing, "
        "the version is older than the last, or it was committed with other rows.",
        body=CommitBody,
        body_bytes=ANY_SIZE,
        answer=CommitAnswer,
    ),
    Route(
        method="POST",
        path="/api/v1/journal/abort",
        handler=abort,
        needs=Permission.PUSH,
        queues=no_queue,
        about="Drop stages, unless they are committed.",
        body=CommitBody,
        body_bytes=ANY_SIZE,
        status=204,
    ),
    Route(
        method="GET",
        path="/api/v1/journal/apps/{app}",
        handler=app,
        needs=Permission.STATUS,
        queues=no_queue,
        about="See which version of an app was committed last: none, for a caller that is for some "
        "queues and does not own the app.",
        answer=AppAnswer,
    ),
    Route(
        method="DELETE",
        path="/api/v1/journal/apps/{app}",
        handler=reset,
        needs=Permission.OPERATE,
        queues=every_queue,
        about="Forget which versions of an app were committed, so that it may start over.",
        answer=AppAnswer,
    ),
)
