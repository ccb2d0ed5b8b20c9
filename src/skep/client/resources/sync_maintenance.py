"""Maintenance of a server: laying pushes aside, letting pops find nothing.

Generated from ``async_maintenance.py``: change that, then ``make sync``.
"""

from skep.client.request import Request, post, read
from skep.client.sync_connection import Connection
from skep.model.maintenance import MaintenanceState
from skep.wire import paths
from skep.wire.admin.maintenance import MaintenanceResponse, SwitchBody, to_maintenance_state


class Maintenance:
    """What ``Broker.maintenance`` has, over HTTP. Both switches last over a restart."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> MaintenanceState:
        """What is in maintenance, and how many messages lie aside."""
        return self._send(read(paths.MAINTENANCE))

    def set_pushing(self, on: bool) -> MaintenanceState:
        """Begin or end to lay pushes aside, durably. At the end they are delivered in order."""
        return self._send(_switch(paths.MAINTENANCE, on))

    def set_popping(self, on: bool) -> MaintenanceState:
        """Begin or end to answer every pop with nothing."""
        return self._send(_switch(paths.MAINTENANCE_OF_POPS, on))

    def _send(self, request: Request) -> MaintenanceState:
        answer = self._connection.send(request)
        return to_maintenance_state(answer.decode(MaintenanceResponse))


def _switch(path: str, on: bool) -> Request:
    # To switch twice is to switch once.
    return post(path, SwitchBody(enabled=on), repeatable=True, last_counts=True)
