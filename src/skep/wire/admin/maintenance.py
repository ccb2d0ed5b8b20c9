"""``/api/v1/system``"""

from typing import Annotated

import msgspec

from skep.model.maintenance import MaintenanceState
from skep.wire.body import Body


class SwitchBody(Body, frozen=True, kw_only=True):
    enabled: bool


class BufferStats(Body, frozen=True, kw_only=True):
    """Messages buffered in the store until push maintenance ends."""

    pending_count: int


class MaintenanceResponse(Body, frozen=True, kw_only=True):
    maintenance_mode: bool
    pop_maintenance_mode: bool
    buffered_messages: int
    buffer_stats: BufferStats
    message: str


def to_maintenance_state(answer: MaintenanceResponse) -> MaintenanceState:
    return MaintenanceState(
        pushing=answer.maintenance_mode,
        popping=answer.pop_maintenance_mode,
        aside=answer.buffered_messages,
    )


class BackupBody(Body, frozen=True, kw_only=True):
    """``path`` is relative to the backup directory of the server, and must not exist yet."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class BackupResponse(Body, frozen=True, kw_only=True):
    """The path of the backup on the server."""

    path: str
