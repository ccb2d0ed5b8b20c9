"""What the fault tests share."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.faults.postgres_cluster import Cluster
from tests.support.faults.server_under_traffic import ServerUnderTraffic, server_under_traffic
from tests.support.faults.tcp_proxy import Wire


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
async def scene(cluster: Cluster, tmp_path: Path) -> AsyncIterator[ServerUnderTraffic]:
    async with server_under_traffic(cluster, tmp_path) as scene:
        yield scene


@pytest.fixture
async def wire(cluster: Cluster) -> AsyncIterator[Wire]:
    async with Wire(cluster.port) as wire:
        yield wire


@pytest.fixture
async def wired(cluster: Cluster, wire: Wire, tmp_path: Path) -> AsyncIterator[ServerUnderTraffic]:
    """The same with a network in between that does as it is told."""
    async with server_under_traffic(cluster, tmp_path, port=wire.port) as scene:
        yield scene
