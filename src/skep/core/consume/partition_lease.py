"""What one partition offers a group now, and the state that leases it."""

import logging

import msgspec

from skep.core.consume.eviction import Evictor
from skep.core.log.segment_reader import SegmentReader
from skep.core.rules import lease as leases
from skep.core.rules.eligibility import due_at, visible
from skep.core.rules.latency import UNKNOWN, Ages, ages_of
from skep.core.state.queue_state import GroupState, PartitionState
from skep.core.state.registry import Registry
from skep.errors import Corrupted, EncryptionUnavailable
from skep.model import ranges
from skep.model.change import ConsumerUpdate
from skep.model.consumer import ConsumerState
from skep.model.message import Message
from skep.model.name import SECOND, Instant, LeaseId, Offset
from skep.model.segment import Segment
from skep.store.clock import Clock

_log = logging.getLogger("skep.broker")
_QUARANTINE_SECONDS = 60
"""How long a partition whose data cannot be read is left alone before the next try."""


class DeliveryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How much a pop asks for, and under which terms."""

    batch: int
    partitions: int = 1
    auto_ack: bool = False
    only: PartitionState | None = None
    lease_seconds: int | None = None
    principal: str | None = None


class PartitionLease(msgspec.Struct, frozen=True):
    """A partition about to be leased. It has no messages if all it held was deleted."""

    group: GroupState
    partition: PartitionState
    update: ConsumerUpdate
    messages: list[Message]
    truncated: int
    ages: Ages


class PartitionLeaser:
    def __init__(
        self, clock: Clock, registry: Registry, evictor: Evictor, segment_reader: SegmentReader
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._evictor = evictor
        self._segment_reader = segment_reader

    async def prepare(
        self,
        group: GroupState,
        partition: PartitionState,
        request: DeliveryRequest,
        *,
        budget: int,
        size: int,
        lease_id: LeaseId,
    ) -> PartitionLease | None:
        """Read from the group's cursor; None if nothing can be delivered yet.

        A partition that cannot be read is left alone for a while: it must not stop the others
        of its queue.
        """
        try:
            await self._evictor.evict(group, partition)
            return await self._prepare(group, partition, request, budget, size, lease_id)
        except (Corrupted, EncryptionUnavailable) as error:
            _log.error(
                "could not read a partition, retrying: queue=%s partition=%s delay=%ds error=%s",
                group.queue.config.name,
                partition.name,
                _QUARANTINE_SECONDS,
                error,
            )
            until = self._clock.now() + _QUARANTINE_SECONDS * SECOND
            self._registry.adjust(group, partition, ready_at=until)
            raise

    async def _prepare(
        self,
        group: GroupState,
        partition: PartitionState,
        request: DeliveryRequest,
        budget: int,
        size: int,
        lease_id: LeaseId,
    ) -> PartitionLease | None:
        consumer = group.consumer(partition)
        options = group.queue.config.options
        now = self._clock.now()
        due = due_at(options, consumer, end=partition.end, newest_at=partition.newest_at)
        if due is None or due > now:
            return None
        stop = self._stop(consumer, partition, budget)
        # One more than is delivered: its age decides when it is the turn of this partition.
        segments = await self._segment_reader.segments(
            partition, consumer.cursor, messages=stop - consumer.cursor + 1, size=size
        )
        deliverable = visible(options, segments, now)
        if not deliverable:
            if segments:
                self._registry.adjust(group, partition, oldest_at=segments[0].created_at)
            return None
        messages, end = self._messages(partition, consumer, deliverable, stop, budget)
        if request.auto_ack or not messages:
            state = leases.pass_over(
                consumer if messages else group.stored(partition),
                consumer.cursor,
                end,
                consumed=len(messages),
                now=now,
                oldest_at=_next_at(segments, end),
            )
        else:
            state = leases.grant(
                consumer,
                lease_id=lease_id,
                end=end,
                skipped=_skipped(consumer.cursor, end, messages),
                now=now,
                seconds=request.lease_seconds or options.lease_time,
                oldest_at=deliverable[0].created_at,
                next_at=_next_at(segments, end),
            )
        update = group.update(partition, state, expected=consumer.revision)
        truncated = leases.missed(group.stored(partition), partition.start) if messages else 0
        ages = ages_of(deliverable) if state.lease else UNKNOWN
        return PartitionLease(group, partition, update, messages, truncated, ages)

    def _stop(self, consumer: ConsumerState, partition: PartitionState, budget: int) -> Offset:
        """Where to stop reading: a run that is redelivered ends where it ended before."""
        end = min(consumer.run_end, partition.end) if consumer.comes_again else partition.end
        return min(end, consumer.cursor + budget + ranges.size(consumer.acked))

    def _messages(
        self,
        partition: PartitionState,
        consumer: ConsumerState,
        segments: list[Segment],
        stop: Offset,
        budget: int,
    ) -> tuple[list[Message], Offset]:
        """Up to ``budget`` messages that are not acked, and where the run ends."""
        end = min(stop, segments[-1].end)
        candidates = self._segment_reader.messages(
            partition, segments, consumer.cursor, end, attempt=consumer.next_attempt
        )
        acked = consumer.acked
        messages = [m for m in candidates if not acked or not ranges.contains(acked, m.offset)]
        if len(messages) > budget:
            end = messages[budget].offset
        return messages[:budget], end


def _next_at(segments: list[Segment], end: Offset) -> Instant:
    """When the message at ``end`` was pushed, or before that: it may not be known yet."""
    for segment in reversed(segments):
        if segment.start <= end < segment.end:
            return segment.created_at
    return segments[-1].created_at


def _skipped(cursor: Offset, end: Offset, messages: list[Message]) -> ranges.Ranges:
    """The offsets of a run that are not delivered, because they are acked or deleted."""
    if len(messages) == end - cursor:
        return ()
    delivered = ranges.from_offsets(message.offset for message in messages)
    return ranges.from_offsets(ranges.missing(delivered, cursor, end))
