"""Whether the broker is open and its store can be written."""

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
        """Whether long polls return at once, because the broker is about to close."""
        return self._waiters.closed

    @property
    def is_closed(self) -> bool:
        return self._registry.closed

    def check_store(self) -> None:
        """Raise ``StoreFailed`` if the store must be reopened."""
        if self._store.failure is not None:
            raise StoreFailed(self._store.failure)

    def gauges(self) -> Sequence[Gauge]:
        """The gauges of the store for monitoring."""
        return () if self._registry.closed else self._store.gauges()

    async def check(self) -> None:
        """Raise if the store cannot be written; an overloaded store counts as healthy."""
        self._registry.check_open()
        with suppress(Overloaded):
            await self._committer.submit(Change())
