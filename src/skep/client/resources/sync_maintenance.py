"""Maintenance of a server: buffer pushes, pause pops.

Generated from ``async_maintenance.py``: change that, then ``make sync``.
"""

from skep.client.request import ClientRequest, post, read
from skep.client.sync_connection import Connection
from skep.model.maintenance import MaintenanceState
from skep.wire import paths
from skep.wire.admin.maintenance import MaintenanceResponse, SwitchBody, to_maintenance_state


class MaintenanceResource:
    """The methods of ``Broker.maintenance``, over HTTP. Both switches survive a restart."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> MaintenanceState:
        """Return what is in maintenance, and the number of buffered messages."""
        return self._send(read(paths.MAINTENANCE))

    def set_pushing(self, on: bool) -> MaintenanceState:
        """Start or stop buffering pushes, durably. At the end they are delivered in order."""
        return self._send(_switch(paths.MAINTENANCE, on))

    def set_popping(self, on: bool) -> MaintenanceState:
        """Start or stop returning every pop empty."""
        return self._send(_switch(paths.MAINTENANCE_OF_POPS, on))

    def _send(self, request: ClientRequest) -> MaintenanceState:
        answer = self._connection.send(request)
        return to_maintenance_state(answer.decode(MaintenanceResponse))


def _switch(path: str, on: bool) -> ClientRequest:
    # Idempotent.
    return post(path, SwitchBody(enabled=on), repeatable=True, last_counts=True)
