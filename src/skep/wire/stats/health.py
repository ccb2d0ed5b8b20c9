"""``GET /health`` and ``GET /metrics``."""

from typing import Literal

import msgspec

from skep.wire.body import Body
from skep.wire.stats.analytics import Usage


class HealthResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the server works and its store accepts writes."""

    status: Literal["healthy", "unhealthy"]
    database: Literal["connected", "disconnected"]
    server: str
    worker_id: str
    version: str
    uptime: str
    error: str | None = None


class Alive(Body, frozen=True, kw_only=True):
    """Any response means that the process is alive."""

    status: Literal["alive"] = "alive"


class ReadyResponse(Body, frozen=True, kw_only=True, omit_defaults=True):
    status: Literal["ready", "not ready"]
    error: str | None = None


class Rate(Body, frozen=True, kw_only=True):
    """The number since the start, and the rate per second."""

    total: int
    rate: float


class Cpu(Body, frozen=True, kw_only=True):
    """CPU time so far, in seconds."""

    user: float
    system: float


class Memory(Body, frozen=True, kw_only=True):
    """Bytes."""

    rss: int
    peak_rss: int


class MetricsResponse(Body, frozen=True, kw_only=True):
    """``messages`` counts pushed and popped messages."""

    uptime: float
    requests: Rate
    messages: Rate
    memory: Memory
    cpu: Cpu


def to_memory(usage: Usage) -> Memory:
    return Memory(rss=usage.rss_bytes, peak_rss=usage.peak_rss_bytes)


def to_cpu(usage: Usage) -> Cpu:
    return Cpu(user=usage.user_seconds, system=usage.system_seconds)
