"""The status of messages in each group, dead letters included."""

from uuid import UUID

from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.log.segment_reader import SegmentReader
from skep.core.state import message_status
from skep.core.state.queue_state import PartitionState
from skep.core.state.registry import Registry
from skep.errors import Corrupted, EncryptionUnavailable, MessageNotFound
from skep.model.consumer import ConsumerState
from skep.model.message import Message
from skep.model.message_view import GroupStatus, MessageView
from skep.model.name import Instant, Offset, to_datetime
from skep.model.segment import DELETED, ENCRYPTED, Segment
from skep.store.protocol import DeadLetterStore


class MessageInspector:
    def __init__(
        self,
        store: DeadLetterStore,
        registry: Registry,
        peer_sync: PeerSync,
        segment_reader: SegmentReader,
    ) -> None:
        self._peer_sync = peer_sync
        self._store = store
        self._registry = registry
        self._segment_reader = segment_reader

    async def segment(self, segment: Segment, *, payloads: bool) -> "InspectedSegment":
        """A segment with the current status of its messages."""
        partition = self._registry.find_partition(segment.partition)
        dead_letters: dict[Offset, dict[str, int]] = {}
        for offset, group, number in await self._store.given_up(
            segment.partition, segment.start, segment.end
        ):
            dead_letters.setdefault(offset, {})[group] = number
        return InspectedSegment(
            segment,
            partition,
            dead_letters,
            self._store.clock.now(),
            self._segment_reader if payloads else None,
        )

    @current
    async def message(self, message_id: UUID) -> MessageView:
        """One message with its payload and its status in each group."""
        partition, offset = self._registry.locate(message_id)
        segments = await self._segment_reader.segments(partition, offset, messages=1, size=1)
        if segments and segments[0].start <= offset:
            inspected = await self.segment(segments[0], payloads=True)
            view = inspected.view(offset)
            if view is not None:
                return view
        raise MessageNotFound(str(message_id))


class InspectedSegment:
    """A segment with everything that is needed for the status of its messages."""

    def __init__(
        self,
        segment: Segment,
        partition: PartitionState | None,
        dead_letters: dict[Offset, dict[str, int]],
        now: Instant,
        segment_reader: SegmentReader | None,
    ) -> None:
        self._segment = segment
        self._partition = partition
        self._dead_letters = dead_letters
        self._now = now
        self._segment_reader = segment_reader
        groups = partition.queue.groups.items() if partition else ()
        self._consumers: dict[str, ConsumerState] = {
            name: group.consumer(partition) for name, group in groups if partition
        }

    def view(self, offset: Offset) -> MessageView | None:
        """A message; None if it was deleted, or is not known to be committed."""
        partition, flags = self._partition, self._segment.flag(offset)
        if partition is None or flags & DELETED or offset >= partition.end:
            return None
        group_statuses = self._group_statuses(offset)
        message = self._whole(partition, offset)
        return MessageView(
            queue=partition.queue.config,
            message=message or self._bare(partition, offset),
            shown=message is not None,
            encrypted=bool(flags & ENCRYPTED),
            status=message_status.status_of([each.status for each in group_statuses]),
            group_statuses=group_statuses,
        )

    def _group_statuses(self, offset: Offset) -> list[GroupStatus]:
        dead_letters = self._dead_letters.get(offset, {})
        current = [
            self._group_status(name, consumer, offset, dead_letters.get(name))
            for name, consumer in self._consumers.items()
        ]
        deleted = [
            GroupStatus(group=name, status="dead_letter", dead_letter=number)
            for name, number in dead_letters.items()
            if name not in self._consumers
        ]
        return current + deleted

    def _group_status(
        self, group: str, consumer: ConsumerState, offset: Offset, dead_letter: int | None
    ) -> GroupStatus:
        held = message_status.is_held(consumer, offset, self._now)
        status = message_status.status_for(consumer, offset, self._now)
        lease = consumer.lease
        in_flight = consumer.cursor <= offset < consumer.run_end
        return GroupStatus(
            group=group,
            status=status if dead_letter is None else "dead_letter",
            lease_expires_at=to_datetime(lease.expires_at) if lease and held else None,
            attempt=consumer.attempt if in_flight else 0,
            dead_letter=dead_letter,
        )

    def _whole(self, partition: PartitionState, offset: Offset) -> Message | None:
        """The message with its payload, if that is requested and can be read."""
        if self._segment_reader is None:
            return None
        try:
            messages = self._segment_reader.messages(partition, [self._segment], offset, offset + 1)
            return next(messages, None)
        except (Corrupted, EncryptionUnavailable):
            return None

    def _bare(self, partition: PartitionState, offset: Offset) -> Message:
        columns, index = self._segment.columns, offset - self._segment.start
        return Message(
            queue=partition.queue.config.name,
            partition=partition.name,
            partition_number=partition.number,
            offset=offset,
            payload=b"",
            chosen_id=columns.transaction_ids[index] if columns.transaction_ids else None,
            trace=columns.trace_ids[index] if columns.trace_ids else None,
            producer=columns.producers[index] if columns.producers else None,
            created_at=to_datetime(self._segment.created_at),
        )
