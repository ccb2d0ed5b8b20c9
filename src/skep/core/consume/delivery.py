"""Builds a delivery: picks ready partitions and leases them in one change."""

from skep.core.aio import Backoff
from skep.core.cluster.maintenance_mode import MaintenanceMode
from skep.core.consume.lease_commit import LeaseCommitter, is_reserved
from skep.core.consume.partition_lease import DeliveryRequest, PartitionLease, PartitionLeaser
from skep.core.consume.partition_picker import PartitionPicker
from skep.core.limits import Limits
from skep.core.state.queue_state import GroupState, PartitionState
from skep.errors import Corrupted, EncryptionUnavailable, SkepError
from skep.model.lease_id import new_lease_id
from skep.model.message import Delivery
from skep.model.name import SECOND, LeaseId, to_datetime


class DeliveryBuilder:
    def __init__(
        self,
        picker: PartitionPicker,
        leaser: PartitionLeaser,
        committer: LeaseCommitter,
        mode: MaintenanceMode,
        limits: Limits,
    ) -> None:
        self._picker = picker
        self._leaser = leaser
        self._committer = committer
        self._mode = mode
        self._limits = limits

    async def build(self, groups: list[GroupState], request: DeliveryRequest) -> Delivery | None:
        """Lease what is ready now; None if nothing is.

        ``groups`` are tried in their order; within one, the partition that waits longest
        goes first.
        """
        backoff = None
        while True:
            if self._mode.pops_paused and not (groups and is_reserved(groups[0].queue)):
                return None
            lease_id = new_lease_id(request.principal)
            prepared: list[PartitionLease] = []
            try:
                await self._prepare(prepared, groups, request, lease_id)
                if not prepared:
                    return None
                granted = await self._committer.commit(prepared, lease_id)
            finally:
                self._picker.release((lease.group, lease.partition) for lease in prepared)
            if granted and any(lease.messages for lease in prepared):
                return _delivery(prepared)
            # Another pop was faster, or there was nothing but deleted messages.
            if not granted:
                backoff = backoff or Backoff("the same partitions")
                await backoff.pause()

    async def _prepare(
        self,
        prepared: list[PartitionLease],
        groups: list[GroupState],
        request: DeliveryRequest,
        lease_id: LeaseId,
    ) -> None:
        """Prepare leases until the request is served; they are added one by one."""
        budget, size, left = request.batch, self._limits.pop_bytes, request.partitions
        failure: SkepError | None = None
        tried: set[tuple[GroupState, PartitionState]] = set()
        while budget > 0 and size > 0 and left > 0:
            picked = self._picker.pick(groups, request.only)
            if picked is None:
                break
            if picked in tried:
                # There was nothing to lease a moment ago, and nothing has changed.
                self._picker.release([picked])
                break
            tried.add(picked)
            try:
                lease = await self._prepare_one(*picked, request, budget, size, lease_id)
            except (Corrupted, EncryptionUnavailable) as error:
                failure = error
                continue
            if lease is not None:
                prepared.append(lease)
                budget -= len(lease.messages)
                size -= sum(len(message.payload) for message in lease.messages)
                left -= bool(lease.messages)
        if failure is not None and not prepared:
            raise failure

    async def _prepare_one(
        self,
        group: GroupState,
        partition: PartitionState,
        request: DeliveryRequest,
        budget: int,
        size: int,
        lease_id: LeaseId,
    ) -> PartitionLease | None:
        """Prepare one lease; None, and the claim is released, if there is nothing to lease."""
        lease = None
        try:
            lease = await self._leaser.prepare(
                group, partition, request, budget=budget, size=size, lease_id=lease_id
            )
        finally:
            if lease is None:
                self._picker.release([(group, partition)])
        return lease


def _delivery(prepared: list[PartitionLease]) -> Delivery:
    granted = [lease.update.state.lease for lease in prepared if lease.update.state.lease]
    expires_at = min((lease.expires_at for lease in granted), default=None)
    return Delivery(
        group=prepared[0].group.name,
        lease_id=granted[0].id if granted else None,
        expires_at=None if expires_at is None else to_datetime(expires_at),
        messages=[message for lease in prepared for message in lease.messages],
        truncated=sum(lease.truncated for lease in prepared),
        lease_seconds=min(
            ((lease.expires_at - lease.granted_at) // SECOND for lease in granted), default=None
        ),
    )
