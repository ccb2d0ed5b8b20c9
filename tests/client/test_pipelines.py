"""Runs of pipelines through a client."""

import pytest
from msgspec.structs import replace

from skep import AsyncClient
from skep.errors import Invalid, NotFound
from skep.testing.clock import ManualClock
from tests.support.broker_builders import a_run, moment
from tests.support.faulty_transport import Fault, Weather


async def test_a_run_that_was_told_is_found(client: AsyncClient, clock: ManualClock) -> None:
    run = a_run("a/1", messages=3, groups=("g",), error="no room", state="failed")

    heard = await client.pipelines.put(run)

    assert heard == replace(run, updated_at=moment(clock))
    assert await client.pipelines.get("a/1") == heard
    assert await client.pipelines.list() == [heard]


async def test_runs_come_the_newest_first_and_as_many_as_asked_for(
    client: AsyncClient, clock: ManualClock
) -> None:
    for number in range(3):
        await client.pipelines.put(a_run(f"r{number}"))
        clock.advance(1)

    assert [run.id for run in await client.pipelines.list(limit=2)] == ["r2", "r1"]
    assert [run.id for run in await client.pipelines.list(limit=2, offset=2)] == ["r0"]


async def test_a_run_is_forgotten_once(client: AsyncClient) -> None:
    await client.pipelines.put(a_run())

    await client.pipelines.delete("archive-1")

    with pytest.raises(NotFound):
        await client.pipelines.get("archive-1")
    with pytest.raises(NotFound):
        await client.pipelines.delete("archive-1")


async def test_a_run_is_told_again_if_the_answer_is_lost(
    client: AsyncClient, weather: Weather
) -> None:
    weather.coming.append(Fault.ANSWER_LOST)

    await client.pipelines.put(a_run())

    assert weather.count("/pipelines/archive-1") == 2


async def test_a_run_that_cannot_be_kept_is_not_sent(client: AsyncClient, weather: Weather) -> None:
    with pytest.raises(Invalid, match="queues"):
        await client.pipelines.put(a_run(queues=("",)))

    assert weather.count("/pipelines/archive-1") == 0
