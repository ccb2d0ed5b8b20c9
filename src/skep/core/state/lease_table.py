"""Leases: which partitions each of them holds, and how old that is."""

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
    """What a lease holds, and the partitions that it held until it settled them.

    ``broken`` once somebody else took or ended a part of it. The ages of what it holds are known
    to who handed it out, and not after a restart.
    """

    places: dict[LeasedPartition, Ages] = msgspec.field(default_factory=dict)
    settled: set[int] = msgspec.field(default_factory=set)
    broken: bool = False


class LeaseTable:
    """Led by the states of the groups: ``follow`` is told of each that is replaced."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases: dict[LeaseId, _Holding] = {}
        self.announced: set[LeaseId] = set()
        """Leases that other servers granted while this one was loading. All that they hold is
        known: it came in one event."""

    def live(self, lease_id: LeaseId, only: Collection[int] | None = None) -> list[LeasedPartition]:
        """The places that a lease holds, all or ``only`` in some partitions.

        A partition that the lease itself has settled before is left out. ``LeaseLost`` if one
        of them has run out or is with somebody else, or if it holds nothing any more.
        """
        holding = self._leases.get(lease_id)
        if holding is None or (only is None and holding.broken):
            raise LeaseLost(lease_id)
        places = [p for p in holding.places if only is None or p[1].number in only]
        now = self._clock.now()
        for group, partition in places:
            if group.removed or not leases.is_live(group.consumer(partition), lease_id, now):
                raise LeaseLost(lease_id)
        if only is not None and len(places) != len(set(only) - holding.settled):
            raise LeaseLost(lease_id)
        return places

    def of(self, lease_id: LeaseId) -> list[LeasedPartition]:
        """The places that a lease holds, lost or not."""
        holding = self._leases.get(lease_id)
        return list(holding.places) if holding else []

    def is_own(self, lease_id: LeaseId) -> bool:
        """Whether this server granted a lease since its start."""
        holding = self._leases.get(lease_id)
        return holding is not None and UNKNOWN not in holding.places.values()

    def note(self, lease_id: LeaseId, held: LeasedPartition, ages: Ages) -> None:
        """Remember how old the messages are that a lease was given for."""
        holding = self._leases.get(lease_id)
        if holding and held in holding.places:
            holding.places[held] = ages

    def ages(self, lease_id: LeaseId, held: LeasedPartition) -> Ages:
        """How old the messages are that a lease was given for, if that is known."""
        holding = self._leases.get(lease_id)
        return holding.places.get(held, UNKNOWN) if holding else UNKNOWN

    def follow(
        self,
        held: LeasedPartition,
        before: ConsumerState | None,
        after: ConsumerState,
        *,
        own: bool,
    ) -> None:
        """A state was replaced. If that ends a lease, it was its ``own`` holder or another."""
        old = before.lease.id if before and before.lease else None
        new = after.lease.id if after.lease else None
        if old == new:
            return
        if old is not None:
            self.end(old, held, own=own, given_back=after.comes_again)
        if new is not None:
            self._leases.setdefault(new, _Holding()).places[held] = UNKNOWN

    def end(
        self, lease_id: LeaseId, held: LeasedPartition, *, own: bool, given_back: bool = False
    ) -> None:
        """A lease holds a partition no more, because of its ``own`` holder or of another.

        What its holder has given back comes again, so it is not settled.
        """
        holding = self._leases.get(lease_id)
        if holding is None:
            return
        holding.places.pop(held, None)
        if not own:
            holding.broken = True
        elif not given_back:
            holding.settled.add(held[1].number)
        if not holding.places:
            del self._leases[lease_id]
