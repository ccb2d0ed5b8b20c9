"""A real server over a database of its own, under traffic, while somebody breaks something.

``SKEP_KILLS=20`` breaks it so often; ``SKEP_OUTAGES="30 310"`` keeps it broken for so many seconds,
one after the other; ``SKEP_SEED`` repeats what was left to chance.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from types import MappingProxyType

import asyncpg
import httpx

from tests.support.faults.history import Operation
from tests.support.faults.history_checker import check
from tests.support.faults.postgres_cluster import OPERATOR, Cluster
from tests.support.faults.recording_clients import SOURCE, TARGET
from tests.support.faults.traffic import LEASE_SECONDS, Traffic
from tests.support.server_process import ServerProcess

KILLS = int(os.environ.get("SKEP_KILLS", "2"))
OUTAGES = [float(seconds) for seconds in os.environ.get("SKEP_OUTAGES", "2").split()]
SEED = int(os.environ.get("SKEP_SEED", "1"))
USUAL_SECONDS = 1.5
"""How long is looked at what is usual."""
PATIENCE = 60.0

BACKENDS = """
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND application_name <> $1 AND backend_type = 'client backend'
 ORDER BY pid
"""


class ServerUnderTraffic:
    def __init__(
        self, cluster: Cluster, database: str, server: ServerProcess, traffic: Traffic
    ) -> None:
        self.cluster = cluster
        self.server = server
        self.traffic = traffic
        self.random = Random(SEED)
        self._database = database
        self._pid = server.pid

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection to the server's database, past everything that is in between."""
        connection = await self.cluster.connect(self._database)
        try:
            yield connection
        finally:
            await connection.close()

    async def backends(self) -> list[int]:
        """The processes that serve the server's connections."""
        async with self.operator() as sql:
            return [row[0] for row in await sql.fetch(BACKENDS, OPERATOR)]

    async def health(self) -> tuple[int, int]:
        """With what status it answers whether it is alive, and whether it is ready."""
        async with httpx.AsyncClient(base_url=self.server.url, timeout=PATIENCE) as client:
            live, ready = [await client.get(f"/health/{what}") for what in ("live", "ready")]
        return live.status_code, ready.status_code

    async def until_refused(self, number: int = 1) -> float:
        """Until so many more requests were refused; return after how many seconds."""
        began, before = time.monotonic(), self.refusals
        async with asyncio.timeout(PATIENCE):
            while self.refusals < before + number:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.02)
        return time.monotonic() - began

    @property
    def refusals(self) -> int:
        return sum(self.traffic.watched.refusals.values())

    def memory(self) -> int:
        """Bytes that the server holds."""
        pages = Path(f"/proc/{self._pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def files(self) -> int:
        """How many files and sockets the server has open."""
        return len(os.listdir(f"/proc/{self._pid}/fd"))

    async def finish(self, *excused: str) -> list[Operation]:
        """Come to the end, and see that nothing was lost, doubled, reordered or left unsaid.

        ``excused`` are the numbers of invariants that this fault may break.
        """
        history = await self.traffic.finish()

        assert not self.traffic.watched.wrong, self.traffic.watched.wrong[:10]
        assert (self.server.is_running, self.server.pid) == (True, self._pid)
        assert await self.health() == (200, 200)
        found = check(history, copies=(SOURCE, TARGET))
        broken = [each for each in found if not each.startswith(excused or ("none",))]
        assert not broken, broken[:10]
        return history


@asynccontextmanager
async def server_under_traffic(
    cluster: Cluster,
    place: Path,
    *,
    port: int | None = None,
    lease_seconds: int = LEASE_SECONDS,
    prepare: str = "SELECT",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[ServerUnderTraffic]:
    """Everything in place, and going as usual; ``port`` is where the server finds PostgreSQL.

    ``prepare`` is what is done to the database before, ``environment`` the server's.
    """
    database = await cluster.create(prepare)
    server = ServerProcess(cluster.url(database, port), **environment)
    try:
        await asyncio.to_thread(server.start)
        async with Traffic(server.url, place, SEED, lease_seconds) as traffic:
            await traffic.settle_down(USUAL_SECONDS)
            yield ServerUnderTraffic(cluster, database, server, traffic)
    finally:
        await asyncio.to_thread(server.end, 9)
