"""Taking: choose ready partitions, lease them in one change, hand them over."""

import asyncio
import logging
from collections.abc import Iterable

from skep.core.aio import Backoff
from skep.core.cluster.maintenance_mode import NORMAL_POP, MaintenanceMode
from skep.core.consume.eviction import Evictor
from skep.core.consume.partition_lease import DeliveryRequest, PartitionLease, PartitionLeaser
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.rules import lease as leases
from skep.core.state.lease_table import LeaseTable
from skep.core.state.queue_state import GroupState, PartitionState, QueueState
from skep.core.state.registry import Registry
from skep.core.state.scheduler import Scheduler
from skep.core.state.state_loader import StateLoader
from skep.errors import Corrupted, EncryptionUnavailable, LeaseLost, SkepError
from skep.model.change import Applied, Change, Outcome, QueueVersion
from skep.model.lease_id import new_lease_id
from skep.model.message import Delivery
from skep.model.name import RESERVED, SECOND, LeaseId, to_datetime
from skep.store.clock import Clock

_log = logging.getLogger("skep.take")
_QUARANTINE = 60 * SECOND
"""How long a partition whose data cannot be read is left alone before the next try."""


class DeliveryBuilder:
    def __init__(
        self,
        clock: Clock,
        registry: Registry,
        loader: StateLoader,
        lease_table: LeaseTable,
        scheduler: Scheduler,
        committer: Committer,
        partition_leaser: PartitionLeaser,
        evictor: Evictor,
        mode: MaintenanceMode,
        limits: Limits,
    ) -> None:
        self._mode = mode
        self._limits = limits
        self._clock = clock
        self._registry = registry
        self._loader = loader
        self._lease_table = lease_table
        self._scheduler = scheduler
        self._committer = committer
        self._partition_leaser = partition_leaser
        self._evictor = evictor

    async def build(self, groups: list[GroupState], take: DeliveryRequest) -> Delivery | None:
        """Lease what is ready now; None if nothing is.

        ``groups`` are tried in their order; within one, the partition that waits longest
        goes first.
        """
        backoff = None
        while True:
            if self._mode.pops_paused and not (groups and _is_reserved(groups[0].queue)):
                return None
            lease_id = new_lease_id(take.principal)
            claims: list[PartitionLease] = []
            try:
                await self._claim_some(claims, groups, take, lease_id)
                if not claims:
                    return None
                outcome = await self._commit(claims, lease_id)
            finally:
                self._unclaim((claim.group, claim.partition) for claim in claims)
            # Otherwise somebody was faster, or there was nothing but deleted messages.
            if isinstance(outcome, Applied) and any(claim.messages for claim in claims):
                self._note_ages(claims, lease_id)
                return _delivery(claims)
            if not isinstance(outcome, Applied):
                backoff = backoff or Backoff("the same partitions")
                await backoff.pause()

    async def _claim_some(
        self,
        claims: list[PartitionLease],
        groups: list[GroupState],
        take: DeliveryRequest,
        lease_id: LeaseId,
    ) -> None:
        budget, size, left = take.batch, self._limits.pop_bytes, take.partitions
        failure: SkepError | None = None
        tried: set[tuple[GroupState, PartitionState]] = set()
        while budget > 0 and size > 0 and left > 0:
            place = self._next(groups, take.only)
            if place is None:
                break
            if place in tried:
                # Nothing came of it a moment ago, and nothing has changed.
                self._unclaim([place])
                break
            tried.add(place)
            try:
                claim = await self._claim(*place, take, budget, size, lease_id)
            except (Corrupted, EncryptionUnavailable) as error:
                failure = error
                continue
            if claim is not None:
                claims.append(claim)
                budget -= len(claim.messages)
                size -= sum(len(message.payload) for message in claim.messages)
                left -= bool(claim.messages)
        if failure is not None and not claims:
            raise failure

    def _next(
        self, groups: list[GroupState], only: PartitionState | None
    ) -> tuple[GroupState, PartitionState] | None:
        """Take the next ready partition, and mark it so that nobody else works on it."""
        for group in groups:
            partition = only
            if only is None:
                partition = self._scheduler.next_for(group)
            elif not self._is_ready(group, only):
                continue
            if partition is not None:
                group.ready.discard(partition.number)
                group.claimed.add(partition.number)
                return group, partition
        return None

    def _is_ready(self, group: GroupState, partition: PartitionState) -> bool:
        if not self._loader.is_complete([group]):
            self._scheduler.refresh(group, partition)
        return partition.number in group.ready

    async def _claim(
        self,
        group: GroupState,
        partition: PartitionState,
        take: DeliveryRequest,
        budget: int,
        size: int,
        lease_id: LeaseId,
    ) -> PartitionLease | None:
        """Prepare one lease; None, and unclaimed, if there is nothing to lease after all.

        A partition that cannot be read is left alone for a while: it must not stop the others
        of its queue.
        """
        claim = None
        try:
            await self._evictor.evict(group, partition)
            claim = await self._partition_leaser.prepare(
                group, partition, take, budget=budget, size=size, lease_id=lease_id
            )
        except (Corrupted, EncryptionUnavailable) as error:
            _log.error("%s/%s: %s", group.queue.config.name, partition.name, error)
            until = self._clock.now() + _QUARANTINE
            self._registry.adjust(group, partition, ready_at=until)
            raise
        finally:
            if claim is None:
                self._unclaim([(group, partition)])
        return claim

    def _note_ages(self, claims: list[PartitionLease], lease_id: LeaseId) -> None:
        for claim in claims:
            self._lease_table.note(lease_id, (claim.group, claim.partition), claim.ages)

    async def _commit(self, claims: list[PartitionLease], lease_id: LeaseId) -> Outcome:
        queue = claims[0].group.queue
        queues: tuple[QueueVersion, ...] = queue.versions
        if any(claim.group.queue is not queue for claim in claims):
            queues = tuple({claim.group.queue.versions[0] for claim in claims})
        submitted = self._committer.submit(
            Change(
                consumers=tuple([claim.update for claim in claims]),
                queues=queues,
                based_on=() if _is_reserved(queue) else NORMAL_POP,
            )
        )
        try:
            return await asyncio.shield(submitted)
        except asyncio.CancelledError:
            # Whoever asked has gone: the lease must not outlive the request.
            submitted.add_done_callback(lambda _: self._give_back(lease_id))
            raise

    def _give_back(self, lease_id: LeaseId) -> None:
        try:
            held = self._lease_table.live(lease_id)
            updates = tuple(g.update(p, leases.release(g.stored(p))) for g, p in held)
            self._committer.submit(Change(consumers=updates)).add_done_callback(_ignore)
        except LeaseLost:
            pass
        except SkepError as error:
            _log.warning("an undelivered lease stays until it expires: %s", error)

    def _unclaim(self, places: Iterable[tuple[GroupState, PartitionState]]) -> None:
        for group, partition in places:
            group.claimed.discard(partition.number)
            self._scheduler.refresh(group, partition)


def _is_reserved(queue: QueueState) -> bool:
    """Whether a queue is one of our own, whose pops are never paused."""
    return queue.config.name.startswith(RESERVED)


def _delivery(claims: list[PartitionLease]) -> Delivery:
    held = [claim.update.state.lease for claim in claims if claim.update.state.lease]
    expires_at = min((lease.expires_at for lease in held), default=None)
    return Delivery(
        group=claims[0].group.name,
        lease_id=held[0].id if held else None,
        expires_at=None if expires_at is None else to_datetime(expires_at),
        messages=[message for claim in claims for message in claim.messages],
        truncated=sum(claim.truncated for claim in claims),
        lease_seconds=min(
            ((lease.expires_at - lease.granted_at) // SECOND for lease in held), default=None
        ),
    )


def _ignore(outcome: asyncio.Future[Outcome]) -> None:
    """Read the result of something whose failure costs no more than waiting for the expiry."""
    if not outcome.cancelled():
        outcome.exception()
