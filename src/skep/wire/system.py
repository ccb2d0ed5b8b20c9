"""``/api/v1/system``"""

from skep.wire.body import Body


class SwitchBody(Body, frozen=True, kw_only=True):
    enabled: bool


class BufferStats(Body, frozen=True, kw_only=True):
    """What is laid aside while pushing is in maintenance. It is in the store like all else."""

    pending_count: int
    failed_count: int = 0
    db_healthy: bool = True


class MaintenanceAnswer(Body, frozen=True, kw_only=True):
    maintenance_mode: bool
    pop_maintenance_mode: bool
    buffered_messages: int
    buffer_healthy: bool = True
    buffer_stats: BufferStats
    message: str
