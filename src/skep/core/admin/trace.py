"""Traces: the messages that share a trace id, and the events recorded for a message."""

from collections.abc import Sequence
from uuid import UUID

from msgspec.structs import replace

from skep.core.admin.message import Messages
from skep.core.cluster.peer_sync import PeerSync, current
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.segment_reader import SegmentReader
from skep.core.state.registry import Registry
from skep.core.visibility import QueueFilter
from skep.errors import Invalid, MessageNotFound
from skep.model.address import address_of
from skep.model.change import Change
from skep.model.message import Message
from skep.model.name import MAX_NUMBER, check_count, check_id, check_label, check_name, check_text
from skep.model.trace import TraceEvent, TraceName
from skep.store.protocol import TraceStore

MAX_NAMES = 20
MAX_EVENTS = 10_000


class Traces:
    def __init__(
        self,
        store: TraceStore,
        registry: Registry,
        peer_sync: PeerSync,
        committer: Committer,
        messages: Messages,
        segment_reader: SegmentReader,
        limits: Limits,
    ) -> None:
        self._peer_sync = peer_sync
        self._store = store
        self._registry = registry
        self._committer = committer
        self._messages = messages
        self._segment_reader = segment_reader
        self._limits = limits

    @current
    async def messages(
        self, trace_id: UUID, *, visible: QueueFilter | None = None, limit: int = 1000
    ) -> list[Message]:
        """The messages with a trace id, of all queues, in the order in which they were pushed.

        With ``visible`` only those of visible queues; the others do not count towards the limit.
        """
        check_count("limit", limit, least=1, most=MAX_EVENTS)
        check_id("trace_id", trace_id)
        most = limit if visible is None else MAX_EVENTS
        messages: list[Message] = []
        for number, offset in await self._store.find_trace(trace_id.bytes, limit=most):
            partition = self._registry.find_partition(number)
            if partition is None or not (visible is None or visible(partition.queue.config.name)):
                continue
            message = await self._segment_reader.message(partition, offset)
            if message:
                messages.append(message)
            if len(messages) == limit:
                break
        return sorted(messages, key=lambda m: (m.created_at, m.partition_number, m.offset))

    async def record(
        self,
        message_id: UUID,
        kind: str,
        data: bytes,
        *,
        names: Sequence[str] = (),
        group: str | None = None,
        worker: str | None = None,
    ) -> TraceEvent:
        """Record an event of a message. It is deleted with the message."""
        if not isinstance(data, bytes):
            raise Invalid("data", f"must be bytes, not {type(data).__name__}")
        if len(data) > self._limits.payload_bytes:
            raise Invalid("data", f"is larger than {self._limits.payload_bytes} bytes")
        names = _check_names(names)
        kind = check_name("kind", kind)
        group, worker = check_label("group", group), check_label("worker", worker)
        message = await self._messages.get(message_id)
        event = TraceEvent(
            partition=message.partition_number,
            offset=message.offset,
            kind=kind,
            data=data,
            names=tuple(names),
            group=group,
            worker=worker,
        )
        await self._committer.submit(Change(traces=(event,)))
        for recorded in reversed(await self.events(message_id)):
            if replace(recorded, number=0, created_at=0) == event:
                return recorded
        raise MessageNotFound(str(message_id))

    @current
    async def events(self, message_id: UUID) -> list[TraceEvent]:
        """The events of a message, oldest first."""
        self._registry.check_open()
        number, offset = address_of(check_id("message_id", message_id))
        if self._registry.find_partition(number) is None:
            return []
        return await self._store.trace_events(number, offset)

    async def named(
        self, name: str, *, before: int | None = None, limit: int | None = None
    ) -> list[TraceEvent]:
        """The events that carry a name, newest first."""
        self._registry.check_open()
        check_name("name", name)
        limit = self._limits.check_page(limit)
        if before is not None:
            check_count("before", before, most=MAX_NUMBER)
        return await self._store.named_events(name, before=before, limit=limit)

    async def names(self, *, after: str = "", limit: int | None = None) -> list[TraceName]:
        """The names that events carry, in order, starting after ``after``."""
        self._registry.check_open()
        check_text("after", after)
        limit = self._limits.check_page(limit)
        return await self._store.trace_names(after=after, limit=limit)


def _check_names(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise Invalid("names", "must be a sequence of names")
    if len(names) > MAX_NAMES:
        raise Invalid("names", f"has {len(names)} entries, at most {MAX_NAMES} are allowed")
    return list(dict.fromkeys([check_name("names", name) for name in names]))
