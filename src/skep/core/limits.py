"""Limits on the size of requests and on the memory of the broker."""

from dataclasses import dataclass

from skep.model.name import check_count
from skep.model.pop_request import PopRequest

MB = 1 << 20
DEFAULT_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    payload_bytes: int = 4 * MB
    push_messages: int = 10_000
    pop_messages: int = 10_000
    pop_bytes: int = 16 * MB
    """A delivery ends when it holds this much, but has at least one message."""
    pop_partitions: int = 1_000
    wait_seconds: int = 3_600
    lease_seconds: int = 43_200
    page: int = 1_000
    cache_bytes: int = 16 * MB
    pending_bytes: int = 64 * MB
    """What may wait for the store; beyond that, callers are rejected as overloaded."""

    publish_bytes: int = 16 * MB
    publish_messages: int = 100_000
    publish_partitions: int = 4_000
    publish_ids: int = 40_000
    """What a sink may publish in one change; more is published in several, a quarter of it each.
    A partition counts for each chunk that has rows for it."""

    def check_pop(self, request: PopRequest) -> None:
        check_count("batch", request.batch, least=1, most=self.pop_messages)
        check_count("partitions", request.partitions, least=1, most=self.pop_partitions)
        if request.lease_seconds is not None:
            check_count("lease_seconds", request.lease_seconds, least=1, most=self.lease_seconds)
        request.check_wait(self.wait_seconds)

    @property
    def step_partitions(self) -> int:
        return max(1, self.publish_partitions // 4)

    @property
    def step_ids(self) -> int:
        return max(1, self.publish_ids // 4)

    def check_page(self, limit: int | None) -> int:
        """The number of entries of a page: ``limit``, or the default if it is None."""
        if limit is None:
            return min(DEFAULT_PAGE, self.page)
        return check_count("limit", limit, least=1, most=self.page)
