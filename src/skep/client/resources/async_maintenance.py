"""Maintenance of a server: buffer pushes, pause pops.

The source of ``sync_maintenance.py``, which ``make sync`` writes.
"""

from skep.client.async_connection import AsyncConnection
from skep.client.request import ClientRequest, post, read
from skep.model.maintenance import MaintenanceState
from skep.wire import paths
from skep.wire.admin.maintenance import MaintenanceResponse, SwitchBody, to_maintenance_state


class AsyncMaintenanceResource:
    """The methods of ``Broker.maintenance``, over HTTP. Both switches survive a restart."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self) -> MaintenanceState:
        """Return what is in maintenance, and the number of buffered messages."""
        return await self._send(read(paths.MAINTENANCE))

    async def set_pushing(self, on: bool) -> MaintenanceState:
        """Start or stop buffering pushes, durably. At the end they are delivered in order."""
        return await self._send(_switch(paths.MAINTENANCE, on))

    async def set_popping(self, on: bool) -> MaintenanceState:
        """Start or stop returning every pop empty."""
        return await self._send(_switch(paths.MAINTENANCE_OF_POPS, on))

    async def _send(self, request: ClientRequest) -> MaintenanceState:
        answer = await self._connection.send(request)
        return to_maintenance_state(answer.decode(MaintenanceResponse))


def _switch(path: str, on: bool) -> ClientRequest:
    # Idempotent.
    return post(path, SwitchBody(enabled=on), repeatable=True, last_counts=True)
