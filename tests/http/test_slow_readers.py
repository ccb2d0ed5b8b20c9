"""Clients that read slowly, and clients that do not read."""

from collections.abc import AsyncIterator

import pytest
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

from skep.http.limits import MB, HttpLimits
from tests.support.http.protocol_connection import Connection, connect, until
from tests.support.http.raw_connection import get

SIZE = 8 * MB
LIMITS = HttpLimits(write_seconds=30)
SOON, LATE = 20, 31


def sending(piece: int) -> ASGI3Application:
    """An application whose response is large, sent in pieces."""

    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        length = (b"content-length", b"%d" % SIZE)
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        for end in range(piece, SIZE + 1, piece):
            body = b" " * piece
            await send({"type": "http.response.body", "body": body, "more_body": end < SIZE})

    return app


@pytest.fixture(params=[SIZE, MB // 16], ids=["at once", "in pieces"])
async def connection(request: pytest.FixtureRequest) -> AsyncIterator[Connection]:
    """With a response that the client has to read."""
    async with connect(sending(request.param), limits=LIMITS) as connection:
        await connection.send(get(b"/"))
        await connection.read_until(b"\r\n\r\n")
        await until(lambda: connection.unread > 0)
        yield connection


async def test_a_client_that_reads_slowly_but_steadily_stays_connected(
    connection: Connection,
) -> None:
    read = 0
    for now in range(0, 4 * SOON, SOON):
        connection.protocol.check(now)
        read += len(await connection.read(3 * MB // 2))
        await until(lambda: connection.unread > 0)

    assert connection.is_open
    assert read == 6 * MB


async def test_a_client_that_does_not_read_is_disconnected(connection: Connection) -> None:
    connection.protocol.check(0)
    connection.protocol.check(SOON)
    assert connection.is_open

    connection.protocol.check(LATE)

    assert not connection.is_open


async def test_a_client_that_stops_reading_is_disconnected(connection: Connection) -> None:
    connection.protocol.check(0)
    await connection.read(3 * MB)
    await until(lambda: connection.unread > 0)
    for now in (SOON, SOON + LATE - 2):
        connection.protocol.check(now)
        assert connection.is_open

    connection.protocol.check(SOON + LATE)

    assert not connection.is_open


async def test_a_client_that_waits_for_its_response_is_not_taken_for_one_that_does_not_read() -> (
    None
):
    async def silent(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        await receive()
        await receive()

    async with connect(silent, limits=LIMITS) as connection:
        await connection.send(get(b"/"))
        await until(lambda: connection.protocol.cycle is not None)
        for now in range(0, 10 * LATE, LATE):
            connection.protocol.check(now)

        assert connection.is_open
