"""Settles and extends leases: builds the change, commits it, and retries if its basis changed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from skep.core.aio import Backoff
from skep.core.cluster.peer_sync import PeerSync
from skep.core.consume.change_builder import ChangeBuilder
from skep.core.consume.settlement_builder import SettlementBuilder
from skep.core.log.committer import Committer
from skep.errors import LeaseLost
from skep.model.change import Applied, EntryVersion, IdempotencyKey, Outcome
from skep.model.name import Instant, LeaseId
from skep.model.operation import Settlement, Verdict

T = TypeVar("T")


class Settler:
    def __init__(
        self, committer: Committer, peer_sync: PeerSync, settlement_builder: SettlementBuilder
    ) -> None:
        self._committer = committer
        self._peer_sync = peer_sync
        self._settlement_builder = settlement_builder

    async def settle(self, lease_id: LeaseId, verdicts: Sequence[Verdict] | None) -> Settlement:
        """Settle messages of a lease; all of them as completed if none are named."""
        return await self._commit_with_retry(
            lease_id, lambda change: self._settlement_builder.settle(change, lease_id, verdicts)
        )

    async def extend(self, lease_id: LeaseId, seconds: int) -> Instant:
        """Extend a lease to at least ``seconds`` from now; return when it ends."""
        return await self._commit_with_retry(
            lease_id, lambda change: self._settlement_builder.extend(change, lease_id, seconds)
        )

    async def load(self, leases: Sequence[LeaseId]) -> None:
        """Load what leases hold. Another server may have granted them."""
        if not all(map(self._settlement_builder.is_known, leases)):
            await self._peer_sync.catch_up()
            if not all(map(self._settlement_builder.is_loaded, leases)):
                await self._peer_sync.complete()

    async def build(self, build: Callable[[ChangeBuilder], T]) -> tuple[ChangeBuilder, T]:
        """Build a change of the current state.

        If a lease is missing, another server may have granted or extended it: catch up first.
        """
        change = ChangeBuilder()
        try:
            return change, build(change)
        except LeaseLost:
            await self._peer_sync.complete()
        change = ChangeBuilder()
        return change, build(change)

    def submit(
        self,
        change: ChangeBuilder,
        key: IdempotencyKey | None = None,
        based_on: tuple[EntryVersion, ...] = (),
    ) -> Awaitable[Outcome]:
        return self._committer.submit(change.submit(key, based_on), change.settle)

    async def _commit_with_retry(self, lease_id: LeaseId, build: Callable[[ChangeBuilder], T]) -> T:
        """Build a change of what a lease holds and commit it; retry if that has changed."""
        if not self._settlement_builder.is_known(lease_id):
            await self.load([lease_id])
        backoff = None
        while True:
            change, result = await self.build(build)
            if isinstance(await self.submit(change), Applied):
                return result
            backoff = backoff or Backoff("the same partitions")
            await backoff.pause()
