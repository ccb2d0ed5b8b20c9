"""Picks the partition that a pop leases next, and claims it for the time being."""

from collections.abc import Iterable

from skep.core.state.queue_state import GroupState, PartitionState
from skep.core.state.scheduler import Scheduler
from skep.core.state.state_loader import StateLoader


class PartitionPicker:
    def __init__(self, scheduler: Scheduler, loader: StateLoader) -> None:
        self._scheduler = scheduler
        self._loader = loader

    def pick(
        self, groups: list[GroupState], only: PartitionState | None
    ) -> tuple[GroupState, PartitionState] | None:
        """Claim the next ready partition, so that no other pop works on it; None if none is."""
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

    def release(self, claimed: Iterable[tuple[GroupState, PartitionState]]) -> None:
        """Let other pops have partitions again."""
        for group, partition in claimed:
            group.claimed.discard(partition.number)
            self._scheduler.refresh(group, partition)

    def _is_ready(self, group: GroupState, partition: PartitionState) -> bool:
        if not self._loader.is_complete([group]):
            self._scheduler.refresh(group, partition)
        return partition.number in group.ready
