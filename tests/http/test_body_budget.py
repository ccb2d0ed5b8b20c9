"""What of the bodies that have not arrived completely counts, and how long."""

from collections.abc import AsyncIterator

import pytest
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from skep.http.body_budget import BodyBudget
from tests.support.http.protocol_connection import Connection, connect, until
from tests.support.http.raw_connection import request

HALF = 1000
HEAD = request(b"/", b"Content-Length: %d" % (2 * HALF))
LIMIT = 10 * HALF


async def reading(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Answers when it has the whole body."""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return
        if not message["more_body"]:
            break
    await answer(send)


async def hasty(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Answers without reading the body."""
    await answer(send)


async def answer(send: ASGISendCallable) -> None:
    length = (b"content-length", b"2")
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": b"OK", "more_body": False})


@pytest.fixture
def budget() -> BodyBudget:
    return BodyBudget(LIMIT)


@pytest.fixture
async def connection(budget: BodyBudget) -> AsyncIterator[Connection]:
    async with connect(reading, budget=budget) as connection:
        yield connection


async def ended(connection: Connection) -> None:
    """Close a connection, and wait until the server knows."""
    connection.close()
    await until(lambda: connection.protocol not in connection.protocol.connections)


async def test_a_body_counts_until_it_is_complete(
    connection: Connection, budget: BodyBudget
) -> None:
    for _ in range(2):
        await connection.send(HEAD + b" " * HALF)
        await until(lambda: budget.used == HALF)
        await connection.send(b" " * (HALF - 1))
        await until(lambda: budget.used == 2 * HALF - 1)
        await connection.send(b" ")
        assert b" 200 " in await connection.read_until(b"OK")
        assert budget.used == 0

    await ended(connection)
    assert budget.used == 0


async def test_a_body_whose_client_has_gone_no_longer_counts(
    connection: Connection, budget: BodyBudget
) -> None:
    await connection.send(HEAD + b" " * HALF)
    await until(lambda: budget.used == HALF)

    await ended(connection)

    assert budget.used == 0


async def test_bodies_of_other_connections_go_on_counting(
    connection: Connection, budget: BodyBudget
) -> None:
    async with connect(reading, budget=budget) as other:
        await other.send(HEAD + b" " * HALF)
        await connection.send(HEAD + b" " * HALF)
        await until(lambda: budget.used == 2 * HALF)

        await connection.send(b" " * HALF)
        await connection.read_until(b"OK")
        await ended(connection)

        assert budget.used == HALF


async def test_a_body_that_is_rejected_no_longer_counts(
    connection: Connection, budget: BodyBudget
) -> None:
    await connection.send(request(b"/", b"Content-Length: %d" % (2 * LIMIT)) + b" " * (LIMIT + 1))

    assert b" 503 " in await connection.read_until(b"}")

    assert connection.is_open
    assert budget.used == 0
    await ended(connection)
    assert budget.used == 0


async def test_a_body_that_was_answered_before_its_end_no_longer_counts(
    budget: BodyBudget,
) -> None:
    async with connect(hasty, budget=budget) as connection:
        await connection.send(HEAD + b" " * HALF)
        await connection.read_until(b"OK")
        assert budget.used == 0

        await connection.send(b" " * HALF + HEAD + b" " * HALF)
        await connection.read_until(b"OK")
        assert budget.used == 0

        await ended(connection)
        assert budget.used == 0
