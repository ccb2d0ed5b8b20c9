"""A network between server and database that is slow, tears, loses answers, or says nothing."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.faults.postgres_cluster import Cluster
from tests.support.faults.server_under_traffic import (
    KILLS,
    OUTAGES,
    ServerUnderTraffic,
    server_under_traffic,
)
from tests.support.faults.tcp_proxy import CHUNK, Wire

pytestmark = pytest.mark.xdist_group("killed")

NOTICED_SECONDS = 15.0
"""After which a connection that says nothing is given up."""
LATENCY = 0.2
PATIENT_SECONDS = 30
"""A lease that outlasts the round trips of three commits."""


async def test_a_slow_network_only_makes_it_slow(
    cluster: Cluster, wire: Wire, tmp_path: Path
) -> None:
    async with server_under_traffic(
        cluster, tmp_path, port=wire.port, lease_seconds=PATIENT_SECONDS
    ) as scene:
        for way in wire.ways:
            way.delay = LATENCY / 2
        await scene.traffic.until_done(1, "settle")
        for way in wire.ways:
            way.delay, way.slice = 0.0, 1
        await scene.traffic.until_done(1, "settle")
        for way in wire.ways:
            way.slice = CHUNK
        await scene.traffic.recover()

        await scene.finish()


async def test_torn_and_deaf_connections_and_lost_commits_lose_and_double_nothing(
    wired: ServerUnderTraffic, wire: Wire
) -> None:
    for _ in range(10 * KILLS):
        wire.reset_one(wired.random)
        await asyncio.sleep(wired.random.uniform(0.02, 0.1))
    await wire.lose_commits(4 * KILLS)
    await wired.traffic.recover()

    for way in wire.ways:
        way.passes.clear()
        await asyncio.sleep(OUTAGES[0])
        way.passes.set()
    await wired.traffic.recover()

    history = await wired.finish()
    assert any(operation.result == "info" for operation in history)


async def test_silence_is_noticed_and_the_server_goes_on_by_itself(
    wired: ServerUnderTraffic, wire: Wire
) -> None:
    began = time.monotonic()
    wire.silence()

    noticed = await wired.until_refused()
    assert await wired.health() == (200, 503)
    await asyncio.sleep(OUTAGES[0] - (time.monotonic() - began))
    wire.forget()
    await wired.traffic.recover()

    assert noticed < NOTICED_SECONDS
    await wired.finish()
