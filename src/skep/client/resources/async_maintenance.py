"""Maintenance of a server: laying pushes aside, letting pops find nothing.

The source of ``sync_maintenance.py``, which ``make sync`` writes.
"""

from skep.client.async_connection import AsyncConnection
from skep.client.request import Request, post, read
from skep.model.maintenance import MaintenanceState
from skep.wire import paths
from skep.wire.admin.maintenance import MaintenanceResponse, SwitchBody, to_maintenance_state


class AsyncMaintenance:
    """What ``Broker.maintenance`` has, over HTTP. Both switches last over a restart."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> MaintenanceState:
        """What is in maintenance, and how many messages lie aside."""
        return await self._send(read(paths.MAINTENANCE))

    async def set_pushing(self, on: bool) -> MaintenanceState:
        """Begin or end to lay pushes aside, durably. At the end they are delivered in order."""
        return await self._send(_switch(paths.MAINTENANCE, on))

    async def set_popping(self, on: bool) -> MaintenanceState:
        """Begin or end to answer every pop with nothing."""
        return await self._send(_switch(paths.MAINTENANCE_OF_POPS, on))

    async def _send(self, request: Request) -> MaintenanceState:
        answer = await self._connection.send(request)
        return to_maintenance_state(answer.decode(MaintenanceResponse))


def _switch(path: str, on: bool) -> Request:
    # To switch twice is to switch once.
    return post(path, SwitchBody(enabled=on), repeatable=True, last_counts=True)
