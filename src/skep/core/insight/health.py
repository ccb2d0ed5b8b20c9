"""Whether the broker can do its work."""

from collections.abc import Sequence
from contextlib import suppress

from skep.core.log.committer import Committer
from skep.core.state.registry import Registry
from skep.core.state.waiters import Waiters
from skep.errors import Overloaded, StoreFailed
from skep.model.change import Change
from skep.store.protocol import Gauge, Store


class StoreHealth:
    def __init__(
        self, store: Store, registry: Registry, waiters: Waiters, committer: Committer
    ) -> None:
        self._store = store
        self._registry = registry
        self._waiters = waiters
        self._committer = committer

    @property
    def is_stopping(self) -> bool:
        """Whether long polls are answered at once, because the broker will be closed soon."""
        return self._waiters.closed

    @property
    def is_closed(self) -> bool:
        return self._registry.closed

    def check_store(self) -> None:
        """Raise ``StoreFailed`` if only opening the store again can help."""
        if self._store.failure is not None:
            raise StoreFailed(self._store.failure)

    def gauges(self) -> Sequence[Gauge]:
        """What the store tells of itself to an operator who watches it."""
        return () if self._registry.closed else self._store.gauges()

    async def check(self) -> None:
        """Raise what stands against writing; a store that has much to do is not broken."""
        self._registry.check_open()
        with suppress(Overloaded):
            await self._committer.submit(Change())
