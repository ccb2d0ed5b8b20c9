"""A server that stops hangs up on nobody whose request it may have."""

import asyncio

import pytest

from skep import Broker
from tests.support.in_process_server import ReadyServer

QUESTION = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
SOON = 10


@pytest.fixture
async def server(broker: Broker) -> ReadyServer:
    return ReadyServer(broker, 0)


async def test_a_request_that_was_on_its_way_is_answered_before_the_line_is_closed(
    server: ReadyServer,
) -> None:
    serving = asyncio.create_task(server.serve())
    await server.ready.wait()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(QUESTION)
    await reader.readuntil(b"}")

    # It has left here, and the server has not looked yet.
    writer.write(QUESTION)
    server.should_exit = True
    await server.shutdown()

    async with asyncio.timeout(SOON):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close\r\n" in answer
    writer.close()
    await serving


async def test_a_line_on_which_nothing_comes_is_closed_soon(server: ReadyServer) -> None:
    serving = asyncio.create_task(server.serve())
    await server.ready.wait()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(QUESTION)
    await reader.readuntil(b"}")

    server.should_exit = True

    async with asyncio.timeout(SOON):
        assert await reader.read() == b""
        await serving
    writer.close()
