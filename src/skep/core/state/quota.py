"""Quotas: how many queues, partitions, groups, readers and staged bytes a principal may have.

They are counted in the queues that the principal may use, also if another created them.
So nothing is stored for it, and what is deleted no longer counts (docs/adr/0020).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from skep.core.state.queue_state import QueueState
from skep.errors import QuotaExceeded
from skep.model.name import RESERVED
from skep.model.quota import Quota

_SIZES: dict[str, Callable[[QueueState], int]] = {
    "queues": lambda queue: 1,
    "partitions": lambda queue: len(queue.partitions),
    "groups": lambda queue: len(queue.groups),
}

_EXISTS: dict[str, Callable[[QueueState, str], bool]] = {
    "queues": lambda queue, name: True,
    "partitions": lambda queue, name: name in queue.partitions,
    "groups": lambda queue, name: name in queue.groups,
}

MAX_COUNTS = 10_000
"""Counts that are remembered."""
_SECONDS_PER_QUEUE = 0.0001
"""How long a count is good for that leaves room: a second if there are 10,000 queues to look at."""


@dataclass(slots=True)
class Count:
    """What there was when it was counted, and what was added since."""

    size: int
    counted_at: float = field(default_factory=monotonic)

    @property
    def age(self) -> float:
        return monotonic() - self.counted_at


class QuotaHolder(Protocol):
    """Whom a quota is for: the caller of the current request."""

    @property
    def id(self) -> str | None: ...

    @property
    def quota(self) -> Quota | None: ...

    def sees(self, queue: str) -> bool: ...


principal: ContextVar[QuotaHolder | None] = ContextVar("principal", default=None)
"""The caller of the current request. None for what the broker does by itself, without limits."""


@contextmanager
def without_limits() -> Iterator[None]:
    """For what was decided before and must be finished."""
    token = principal.set(None)
    try:
        yield
    finally:
        principal.reset(token)


def limit_of(kind: str) -> tuple[QuotaHolder, int] | None:
    """The caller, and its limit of a kind, if it has one."""
    caller = principal.get()
    if caller is None or caller.quota is None:
        return None
    limit: int | None = getattr(caller.quota, kind)
    return (caller, limit) if limit else None


def check(kind: str, existing: int, count: int, limit: int) -> None:
    if existing + count > limit:
        raise QuotaExceeded(kind, limit)


class Quotas:
    """Counts what exists in queues, and what is being created in them."""

    def __init__(self, queues: Mapping[str, QueueState]) -> None:
        self._queues = queues
        self._creating: dict[tuple[str | None, str], Counter[tuple[str, str]]] = {}
        """What each principal is creating, of each kind, and in how many requests."""
        self._counts: dict[tuple[str | None, str], Count] = {}

    @contextmanager
    def reserve(self, kind: str, queue: str, names: Collection[str]) -> Iterator[None]:
        """Create some of a kind in a queue; raises ``QuotaExceeded`` before anything is written.

        What others create at the same time counts, on this server, and counts once if they
        create the same.
        """
        limited = limit_of(kind) if names and not queue.startswith(RESERVED) else None
        if limited is None:
            yield
            return
        caller, limit = limited
        creating = self._creating.setdefault((caller.id, kind), Counter())
        places = [(queue, name) for name in names]
        new = sum(place not in creating for place in places)
        if new:
            count = self._current_count(caller, kind)
            check(kind, count.size, new, limit)
            count.size += new
        creating.update(places)
        try:
            yield
        finally:
            creating -= Counter(places)
            self._creating[caller.id, kind] = creating
            if not creating:
                del self._creating[caller.id, kind]

    def check_later(self, wanted: Mapping[str, Collection[str]]) -> None:
        """Whether the caller may create these partitions, by queue, with their queues."""
        names = [name for name in wanted if not name.startswith(RESERVED)]
        self._check_new("queues", [(name, name) for name in names])
        self._check_new("partitions", [(name, each) for name in names for each in wanted[name]])

    def _check_new(self, kind: str, places: list[tuple[str, str]]) -> None:
        limited = limit_of(kind)
        if limited is None:
            return
        caller, limit = limited
        creating = self._creating.get((caller.id, kind), ())
        new = sum(place not in creating and not self._exists(kind, *place) for place in places)
        if new:
            check(kind, self._current_count(caller, kind).size, new, limit)

    def _exists(self, kind: str, queue: str, name: str) -> bool:
        known = self._queues.get(queue)
        return known is not None and _EXISTS[kind](known, name)

    def _current_count(self, caller: QuotaHolder, kind: str) -> Count:
        """What there is, counted again only as often as the number of queues allows."""
        key = caller.id, kind
        known = self._counts.get(key)
        if known is None or known.age > _SECONDS_PER_QUEUE * len(self._queues):
            if len(self._counts) >= MAX_COUNTS:
                self._counts.clear()
            known = self._counts[key] = Count(self._count(kind, caller))
        return known

    def _count(self, kind: str, caller: QuotaHolder) -> int:
        size = _SIZES[kind]
        existing = sum(
            size(queue)
            for name, queue in self._queues.items()
            if caller.sees(name) and not name.startswith(RESERVED)
        )
        creating = self._creating.get((caller.id, kind), ())
        return existing + sum(not self._exists(kind, *place) for place in creating)
