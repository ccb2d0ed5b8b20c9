"""Which partitions each lease holds, and the ages of their messages."""

from collections.abc import Collection
from typing import TypeAlias

import msgspec

from skep.core.rules import lease as leases
from skep.core.rules.latency import UNKNOWN, Ages
from skep.core.state.queue_state import GroupState, PartitionState
from skep.errors import LeaseLost
from skep.model.consumer import ConsumerState
from skep.model.name import LeaseId
from skep.store.clock import Clock

LeasedPartition: TypeAlias = tuple[GroupState, PartitionState]


class _Holding(msgspec.Struct):
    """The partitions of a lease, and those that it has settled.

    ``broken`` once a part of it was taken or ended by another. The ages of its messages are known
    to the server that granted it, until its next start.
    """

    partitions: dict[LeasedPartition, Ages] = msgspec.field(default_factory=dict)
    settled: set[int] = msgspec.field(default_factory=set)
    broken: bool = False


class LeaseTable:
    """Derived from the states of the groups: ``apply`` is called with each that is replaced."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases: dict[LeaseId, _Holding] = {}
        self.announced: set[LeaseId] = set()
        """Leases that other servers granted while this one was loading. All that they hold is
        known: it came in one event."""

    def live(self, lease_id: LeaseId, only: Collection[int] | None = None) -> list[LeasedPartition]:
        """The partitions that a lease holds, all or ``only`` some, without those it has settled.

        ``LeaseLost`` if the lease has expired or was taken over in one of them, or if it holds
        nothing any more.
        """
        holding = self._leases.get(lease_id)
        if holding is None or (only is None and holding.broken):
            raise LeaseLost(lease_id)
        held = [p for p in holding.partitions if only is None or p[1].number in only]
        now = self._clock.now()
        for group, partition in held:
            if group.removed or not leases.is_live(group.consumer(partition), lease_id, now):
                raise LeaseLost(lease_id)
        if only is not None and len(held) != len(set(only) - holding.settled):
            raise LeaseLost(lease_id)
        return held

    def partitions_of(self, lease_id: LeaseId) -> list[LeasedPartition]:
        """The partitions that a lease holds, live or not."""
        holding = self._leases.get(lease_id)
        return list(holding.partitions) if holding else []

    def is_own(self, lease_id: LeaseId) -> bool:
        """Whether this server granted a lease since its start."""
        holding = self._leases.get(lease_id)
        return holding is not None and UNKNOWN not in holding.partitions.values()

    def set_ages(self, lease_id: LeaseId, held: LeasedPartition, ages: Ages) -> None:
        """Remember the ages of the messages of a lease."""
        holding = self._leases.get(lease_id)
        if holding and held in holding.partitions:
            holding.partitions[held] = ages

    def ages(self, lease_id: LeaseId, held: LeasedPartition) -> Ages:
        """The ages of the messages of a lease, if they are known."""
        holding = self._leases.get(lease_id)
        return holding.partitions.get(held, UNKNOWN) if holding else UNKNOWN

    def apply(
        self,
        held: LeasedPartition,
        before: ConsumerState | None,
        after: ConsumerState,
        *,
        own: bool,
    ) -> None:
        """A state was replaced, by the holder of its lease (``own``) or by another."""
        old = before.lease.id if before and before.lease else None
        new = after.lease.id if after.lease else None
        if old == new:
            return
        if old is not None:
            self.end(old, held, own=own, given_back=after.comes_again)
        if new is not None:
            self._leases.setdefault(new, _Holding()).partitions[held] = UNKNOWN

    def end(
        self, lease_id: LeaseId, held: LeasedPartition, *, own: bool, given_back: bool = False
    ) -> None:
        """A lease holds a partition no more, because of its holder (``own``) or of another.

        What its holder has given back is redelivered, so it is not settled.
        """
        holding = self._leases.get(lease_id)
        if holding is None:
            return
        holding.partitions.pop(held, None)
        if not own:
            holding.broken = True
        elif not given_back:
            holding.settled.add(held[1].number)
        if not holding.partitions:
            del self._leases[lease_id]
