"""A database that others keep busy: hardly a connection is left, or a table is locked."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import asyncpg
import pytest

from skep import AsyncClient
from tests.support.faults.postgres_cluster import MAX_CONNECTIONS, OPERATOR
from tests.support.faults.server_under_traffic import ServerUnderTraffic

pytestmark = pytest.mark.xdist_group("killed")

LEFT = 3
POLLS = 50
LOCK_SECONDS = 10.0
"""How long a statement waits for a lock; who comes while another waits, waits for both."""

END_SURPLUS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE application_name <> $1 AND backend_type = 'client backend' ORDER BY pid OFFSET $2
"""


@asynccontextmanager
async def few_connections(scene: ServerUnderTraffic) -> AsyncIterator[None]:
    """Others hold all connections but a few, and the server has to begin anew."""
    async with AsyncExitStack() as stack:
        sql = await stack.enter_async_context(scene.operator())
        held = 1
        while held < MAX_CONNECTIONS - LEFT:
            await sql.execute(END_SURPLUS, OPERATOR, LEFT)
            # The server may be faster.
            with suppress(asyncpg.TooManyConnectionsError):
                await stack.enter_async_context(scene.operator())
                held += 1
        yield


QUIET = "quiet"
"""A queue where nothing is ever pushed to."""


async def make_quiet(url: str) -> None:
    """Who polls later is known to the queue by then, and writes nothing."""
    async with AsyncClient(url) as client:
        await client.queues.configure(QUIET)
        assert await client.pop(QUIET) is None


async def poll(url: str, seconds: float) -> list[object]:
    """Many long polls at once."""
    async with AsyncClient(url) as client:
        return await asyncio.gather(*[client.pop(QUIET, wait=seconds) for _ in range(POLLS)])


async def test_three_connections_are_enough_to_go_on(scene: ServerUnderTraffic) -> None:
    await make_quiet(scene.server.url)
    async with few_connections(scene):
        await scene.traffic.until_done(2)
        assert await poll(scene.server.url, 1) == [None] * POLLS
    await scene.traffic.recover()

    await scene.finish()


async def test_a_locked_table_is_a_refusal_and_not_a_hang(scene: ServerUnderTraffic) -> None:
    await make_quiet(scene.server.url)
    async with scene.operator() as sql, sql.transaction():
        await sql.execute("LOCK TABLE queen.segment IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        assert await poll(scene.server.url, 1) == [None] * POLLS
        await scene.until_refused()
        refused = time.monotonic() - began
    await scene.traffic.recover()

    # A commit waits at most as long as a lock, and for the one before it.
    assert refused < 2 * LOCK_SECONDS + 2
    assert scene.traffic.watched.longest < 2 * LOCK_SECONDS + 2
    await scene.finish()
