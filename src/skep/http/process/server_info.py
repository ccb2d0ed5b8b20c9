"""Identity and counters of this server process."""

import os
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib import metadata

from skep.http.body_budget import BodyBudget
from skep.http.limits import HttpLimits
from skep.http.rejection import RejectionLog


def _version() -> str:
    try:
        return metadata.version("skep")
    except metadata.PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """One process that serves a broker over HTTP."""

    hostname: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    version: str = field(default_factory=_version)
    started: float = field(default_factory=time.monotonic)
    responses: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """Responses by method, route and status."""
    bodies: BodyBudget = field(default_factory=lambda: BodyBudget(HttpLimits().unfinished_bytes))
    rejections: RejectionLog = field(default_factory=RejectionLog)
    quota_rejections: Counter[str] = field(default_factory=Counter)
    """Requests rejected because of a quota, by its name."""

    @property
    def worker_id(self) -> str:
        return f"{self.hostname}-{self.pid}"

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started
