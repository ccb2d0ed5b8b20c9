"""Moves the cursors of a group to an offset, an instant, the beginning or the end."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from skep.core.aio import Backoff
from skep.core.log.committer import Committer
from skep.core.rules import lease as leases
from skep.core.state.queue_state import GroupState, PartitionState
from skep.errors import Conflict, Invalid
from skep.model.address import MAX_OFFSET
from skep.model.change import Applied, Change, ConsumerUpdate
from skep.model.name import Offset, check_count, from_datetime
from skep.store.protocol import LogStore

Target: TypeAlias = Literal["beginning", "end"] | int | datetime
_STEP = 500
"""Partitions moved in one change."""


class CursorMover:
    def __init__(self, store: LogStore, committer: Committer) -> None:
        self._store = store
        self._committer = committer

    async def move(
        self, group: GroupState, partitions: Sequence[PartitionState], to: Target
    ) -> int:
        """Move the group's cursors in steps of several partitions; return how many moved."""
        for start in range(0, len(partitions), _STEP):
            await self._step(group, partitions[start : start + _STEP], to)
        return len(partitions)

    async def _step(
        self, group: GroupState, partitions: Sequence[PartitionState], to: Target
    ) -> None:
        targets = [(partition, await self._offset(partition, to)) for partition in partitions]
        backoff = Backoff(f"group {group.name!r}")
        while True:
            updates = [_moved(group, partition, cursor) for partition, cursor in targets]
            outcome = await self._committer.submit(Change(consumers=tuple(updates)))
            if isinstance(outcome, Applied):
                return
            if group.removed:
                raise Conflict(f"group {group.name!r} was deleted meanwhile")
            await backoff.pause()

    async def _offset(self, partition: PartitionState, to: Target) -> Offset:
        if to == "beginning":
            return partition.start
        if to == "end":
            return partition.end
        if isinstance(to, datetime):
            return await self._store.offset_at(partition.number, from_datetime("to", to))
        return int(to)


def check_target(to: object) -> None:
    if isinstance(to, datetime):
        from_datetime("to", to)
    elif isinstance(to, int):
        check_count("to", to, most=MAX_OFFSET)
    elif to not in ("beginning", "end"):
        raise Invalid("to", f"{to!r} is not 'beginning', 'end', an offset or a datetime")


def check_offset(partitions: Sequence[PartitionState], to: Target) -> None:
    """Raise ``Invalid`` if ``to`` is an offset beyond the end of a partition."""
    if isinstance(to, int):
        for partition in partitions:
            if to > partition.end:
                raise Invalid(
                    "to", f"{to} lies beyond the end of {partition.name!r}, {partition.end}"
                )


def _moved(group: GroupState, partition: PartitionState, cursor: Offset) -> ConsumerUpdate:
    # The age of the message at the new cursor is unknown, but not older than the first.
    consumer = group.consumer(partition)
    return group.update(partition, leases.seek(consumer, cursor, oldest_at=partition.first_at))
