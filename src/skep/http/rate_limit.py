"""Request rate of each principal: a token bucket."""

from collections.abc import Callable
from time import monotonic

from skep.errors import RateLimited

MAX_BUCKETS = 10_000
"""Principals in memory; the oldest entry is dropped first."""
BURST_SECONDS = 1.0
"""Requests not made within this time may be made at once."""


class RateLimit:
    """A bucket is one number: the time when it will be full again."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._full_at: dict[str | None, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, principal: str | None, rate: int) -> None:
        """Raise ``RateLimited`` if the principal sends more than ``rate`` requests a second."""
        now = self._now()
        full_at = self._full_at.get(principal)
        if full_at is None:
            full_at = now
            if len(self._full_at) >= MAX_BUCKETS:
                del self._full_at[next(iter(self._full_at))]
        elif full_at < now:
            full_at = now
        full_at += 1 / rate
        if (too_early := full_at - now - BURST_SECONDS) > _ROUNDING:
            raise RateLimited(rate, too_early)
        self._full_at[principal] = full_at


_ROUNDING = 1e-6
