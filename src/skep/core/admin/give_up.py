"""Dead-letters a message on an operator's request."""

from collections.abc import Collection
from uuid import UUID

from msgspec.structs import replace

from skep.core.aio import Backoff
from skep.core.cluster.peer_sync import PeerSync
from skep.core.log.committer import Committer
from skep.core.log.segment_reader import SegmentReader
from skep.core.rules.ack import MAX_ERROR
from skep.core.state import message_status
from skep.core.state.queue_state import GroupState, PartitionState
from skep.core.state.registry import Registry
from skep.errors import Conflict, GroupNotFound, MessageNotFound
from skep.model import ranges
from skep.model.change import Applied, Change, ConsumerUpdate
from skep.model.consumer import ConsumerState
from skep.model.name import Instant, Offset, check_label, check_text
from skep.store.clock import Clock

BY_HAND = "moved to the dead letters by hand"


class ManualGiveUp:
    """Dead-letters a message for groups that have not completed it.

    The message is completed for these groups in the change that dead-letters it, so none of them
    gets it afterwards. Groups that completed it are not affected. While a consumer holds it under
    a lease, the call raises ``Conflict``.
    """

    def __init__(
        self,
        clock: Clock,
        registry: Registry,
        committer: Committer,
        peer_sync: PeerSync,
        segment_reader: SegmentReader,
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._committer = committer
        self._peer_sync = peer_sync
        self._segment_reader = segment_reader

    async def give_up(
        self, message_id: UUID, *, group: str | None = None, error: str = ""
    ) -> list[str]:
        """Dead-letter a message for one group, or all that have not completed it; return which."""
        check_label("group", group)
        reason = check_text("error", error)[:MAX_ERROR] or BY_HAND
        backoff = Backoff("the same partition")
        while True:
            await self._peer_sync.complete()
            partition, offset = self._registry.locate(message_id)
            if not await self._segment_reader.holds(partition, offset):
                raise MessageNotFound(str(message_id))
            groups = self._groups(partition, offset, group)
            change = self._change(partition, offset, groups, reason)
            if isinstance(await self._committer.submit(change), Applied):
                return [each.name for each in groups]
            await backoff.pause()

    def _groups(
        self, partition: PartitionState, offset: Offset, only: str | None
    ) -> list[GroupState]:
        """The groups that have not completed the message; raises ``Conflict`` if there are none."""
        groups = partition.queue.groups
        if only is not None and only not in groups:
            raise GroupNotFound(partition.queue.config.name, only)
        chosen = list(groups.values()) if only is None else [groups[only]]
        now = self._clock.now()
        for group in chosen:
            if message_status.is_held(group.consumer(partition), offset, now):
                raise Conflict(
                    f"a consumer of group {group.name!r} holds the message; "
                    "wait until it has settled it, or its lease has run out"
                )
        unread = [
            group
            for group in chosen
            if not message_status.is_done(group.consumer(partition), offset)
        ]
        if not unread:
            raise Conflict("no group has this message pending: it is completed, or not popped yet")
        return unread

    def _change(
        self, partition: PartitionState, offset: Offset, groups: Collection[GroupState], error: str
    ) -> Change:
        now = self._clock.now()
        return Change(
            consumers=tuple(_passed(group, partition, offset, now) for group in groups),
            dead_letters=tuple(
                group.give_up(
                    partition, offset, error=error, attempts=group.consumer(partition).attempt
                )
                for group in groups
            ),
        )


def _passed(
    group: GroupState, partition: PartitionState, offset: Offset, now: Instant
) -> ConsumerUpdate:
    consumer = group.stored(partition)
    return group.update(partition, without(consumer, offset, now), expected=consumer.revision)


def without(consumer: ConsumerState, offset: Offset, now: Instant) -> ConsumerState:
    """The state with one message completed that no live lease holds.

    A live lease on other messages stays. An expired lease is removed, so that a late ack is
    rejected. If no message in flight is left, the attempt is over.
    """
    acked = ranges.union(consumer.acked, ((offset, offset + 1),))
    cursor, acked = ranges.advance(consumer.cursor, acked)
    state = replace(consumer, version=consumer.version + 1, cursor=cursor, acked=acked)
    if consumer.live_lease(now):
        return state
    if cursor < consumer.run_end:
        return replace(state, lease=None, failed=())
    return replace(state, lease=None, failed=(), run_end=0, attempt=0, retries=0, ready_at=0)
