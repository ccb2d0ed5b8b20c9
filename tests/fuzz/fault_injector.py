"""Faults of real servers and their database, while clients go on."""

import asyncio
import os
import signal
from random import Random

from tests.support.faults.postgres_cluster import Cluster, children
from tests.support.server_process import ServerProcess
from tests.support.skewed_database_clock import set_clock

END_BACKENDS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
PAUSE_SECONDS = 1.0


class FaultInjector:
    """Breaks something, and puts it right again before it returns."""

    def __init__(
        self,
        servers: list[ServerProcess],
        cluster: Cluster | None,
        database: str,
        random: Random,
        lease_seconds: int,
    ) -> None:
        self._servers = servers
        self._cluster = cluster
        self._database = database
        self._random = random
        self._lease_seconds = lease_seconds

    async def strike(self, fault: str) -> None:
        server = self._random.choice(self._servers)
        workers = children(server.pid)
        if fault == "kill" and workers:
            os.kill(self._random.choice(workers), signal.SIGKILL)
        elif fault == "kill":
            await asyncio.to_thread(server.end, signal.SIGKILL)
            await asyncio.to_thread(server.start)
        elif fault == "stop":
            stopped = self._random.choice(workers or [server.pid])
            await _pause([stopped], self._lease_seconds * 1.3)
        elif self._cluster is not None:
            await self._strike_database(self._cluster, fault)

    async def _strike_database(self, cluster: Cluster, fault: str) -> None:
        if fault == "restart database":
            await asyncio.to_thread(cluster.restart, "immediate")
        elif fault == "pause database":
            await _pause([cluster.postmaster, *children(cluster.postmaster)], PAUSE_SECONDS)
        else:
            sql = await cluster.connect(self._database)
            try:
                if fault == "terminate":
                    await sql.execute(END_BACKENDS)
                else:
                    await set_clock(sql, hours_ahead=1)
                    await asyncio.sleep(PAUSE_SECONDS)
                    await set_clock(sql, hours_ahead=0)
            finally:
                await sql.close()


async def _pause(pids: list[int], seconds: float) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
