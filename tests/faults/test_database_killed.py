"""A database whose connections, processes, or all of it die under a server that stays."""

import asyncio

import pytest

from skep import AsyncClient, Draft
from skep.client.retry import Retry
from skep.errors import Unavailable
from tests.support.faults.postgres_cluster import Mode
from tests.support.faults.server_under_traffic import KILLS, OUTAGES, ServerUnderTraffic

pytestmark = pytest.mark.xdist_group("killed")

MODES: tuple[Mode, ...] = ("fast", "immediate")
MB = 1 << 20
CROWD, CROWDS = 120, 5
"""How many push at once, and how often such a crowd comes."""
MEMORY_TO_SPARE = 64 * MB
"""Less than a half of what the crowds send after the second."""
FILES_TO_SPARE = 10


async def end_connections(scene: ServerUnderTraffic, rounds: int) -> None:
    async with scene.operator() as sql:
        for _ in range(rounds):
            if backends := await scene.backends():
                await sql.execute("SELECT pg_terminate_backend($1)", scene.random.choice(backends))
            await asyncio.sleep(scene.random.uniform(0.02, 0.1))


async def test_connections_that_die_take_nothing_with_them(scene: ServerUnderTraffic) -> None:
    await end_connections(scene, rounds=10 * KILLS)
    await scene.traffic.recover()

    # The postmaster ends all the others, and recovers as after a crash.
    scene.cluster.kill_backend((await scene.backends())[0])
    await scene.until_refused()
    await scene.traffic.recover()

    for mode in MODES:
        await scene.traffic.until_done(1)
        await asyncio.to_thread(scene.cluster.restart, mode)
    await scene.traffic.recover()

    await scene.finish()


async def crowd(url: str) -> list[BaseException | object]:
    """Many large pushes at once, each tried once."""
    async with AsyncClient(url, retry=Retry(attempts=1)) as client:
        pushes = [client.push("orders", [Draft(b"x" * (MB // 2), "p0")]) for _ in range(CROWD)]
        return await asyncio.gather(*pushes, return_exceptions=True)


async def test_a_database_that_is_killed_is_missed_and_then_used_again(
    scene: ServerUnderTraffic,
) -> None:
    for _ in range(KILLS):
        await asyncio.to_thread(scene.cluster.kill)
        await scene.until_refused(5)
        assert await scene.health() == (200, 503)
        await asyncio.to_thread(scene.cluster.start)
        await scene.traffic.recover()

    files = scene.files()
    for seconds in OUTAGES:
        with scene.cluster.down():
            await assert_that_nothing_piles_up(scene, seconds)
        await scene.traffic.recover()
        assert scene.files() - files < FILES_TO_SPARE

    await scene.finish()


async def assert_that_nothing_piles_up(scene: ServerUnderTraffic, seconds: float) -> None:
    await scene.until_refused()
    held: list[int] = []
    for _ in range(CROWDS):
        answers = await crowd(scene.server.url)
        assert all(isinstance(answer, Unavailable) for answer in answers), answers
        held.append(scene.memory())
        await asyncio.sleep(seconds / CROWDS)

    assert await scene.health() == (200, 503)
    # Those who come later find the room that the first ones left.
    assert held[-1] - held[1] < MEMORY_TO_SPARE
