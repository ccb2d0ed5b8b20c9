"""Pushing: drafts become appends, appends become receipts."""

from collections.abc import Awaitable, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID, uuid4

from skep.core.aio.backoff import Backoff
from skep.core.cluster.maintenance_mode import NORMAL_PUSH, MaintenanceMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.log.encryption import KeyRing, place_of
from skep.core.produce.capacity import FillLevel
from skep.core.state.catalogue import Catalogue
from skep.core.state.queue_state import QueueState
from skep.errors import Invalid, QueueFull
from skep.model.change import (
    CHANGE_WEIGHT,
    Append,
    Appended,
    Applied,
    Capacity,
    Change,
    EntryVersion,
    Gone,
    Outcome,
    QueueVersion,
    Stale,
    weight_of,
)
from skep.model.message import Draft, Receipt, Receipts
from skep.model.name import check_name, check_queue_name, check_transaction_id
from skep.model.segment import ENCRYPTED, Columns
from skep.store.protocol import LogStore


class PushBatch:
    """The drafts of one push to one queue, checked, and sorted by partition.

    Columns are taken apart once and checked as a whole: a message costs no more than it must.
    """

    def __init__(
        self, queue: str, drafts: Sequence[Draft], limits: Limits, *, internal: bool = False
    ) -> None:
        self.queue = queue if internal else check_queue_name("queue", queue)
        if not isinstance(drafts, Sequence):
            raise Invalid("drafts", f"must be a sequence, not {type(drafts).__name__}")
        if not drafts or len(drafts) > limits.push_messages:
            raise Invalid(
                "drafts", f"must be 1 to {limits.push_messages} messages, not {len(drafts)}"
            )
        try:
            self.payloads = [draft.payload for draft in drafts]
            self.ids = [draft.transaction_id for draft in drafts]
            self.traces = [draft.trace_id for draft in drafts]
            names = [draft.partition for draft in drafts]
        except AttributeError:
            raise Invalid("drafts", "must all be of type Draft") from None
        size = self._check_payloads(limits.payload_bytes)
        self._check_ids()
        self._sent_ids = self.ids
        self.weight = CHANGE_WEIGHT + weight_of(len(drafts), size)
        self.by_partition = _by_partition(names)

    def __len__(self) -> int:
        return len(self.payloads)

    def choose_ids(self, *, encrypted: bool) -> None:
        """Give an id to each draft that has none, if they are encrypted.

        An encrypted payload is bound to its transaction id, so it needs one before it has a place.
        """
        if encrypted:
            self.ids = [chosen or str(uuid4()) for chosen in self._sent_ids]
        else:
            self.ids = self._sent_ids

    def receipts(self, appended: Sequence[Appended]) -> Sequence[Receipt]:
        """Where each draft is, in the order in which they were given."""
        if len(self.by_partition) == 1:
            (name,) = self.by_partition
            return Receipts(name, appended[0], self.ids)
        made = [
            Receipts(name, places, [self.ids[index] for index in indexes])
            for (name, indexes), places in zip(self.by_partition.items(), appended, strict=True)
        ]
        ordered = zip(chain(*self.by_partition.values()), chain(*made), strict=True)
        return [receipt for _, receipt in sorted(ordered, key=itemgetter(0))]

    def _check_payloads(self, payload_bytes: int) -> int:
        """How many bytes they have together."""
        payloads = self.payloads
        if set(map(type, payloads)) != {bytes}:
            index = next(i for i, payload in enumerate(payloads) if type(payload) is not bytes)
            raise Invalid(
                f"drafts[{index}].payload", f"must be bytes, not {type(payloads[index]).__name__}"
            )
        # None is larger than all of them: mostly there is nothing to look for.
        if (size := sum(map(len, payloads))) > payload_bytes:
            for index, payload in enumerate(payloads):
                if len(payload) > payload_bytes:
                    raise Invalid(
                        f"drafts[{index}].payload",
                        f"is {len(payload)} bytes long, at most {payload_bytes} are allowed",
                    )
        return size

    def _check_ids(self) -> None:
        if self.ids.count(None) != len(self.ids):
            for index, chosen in enumerate(self.ids):
                if chosen is not None:
                    self.ids[index] = check_transaction_id(
                        f"drafts[{index}].transaction_id", chosen
                    )
        if self.traces.count(None) != len(self.traces):
            for index, trace in enumerate(self.traces):
                if trace is not None and (not isinstance(trace, UUID) or not trace.int):
                    raise Invalid(f"drafts[{index}].trace_id", "must be a UUID other than nil")


class PreparedPush(NamedTuple):
    """The appends of a batch, and what they were decided on."""

    appends: tuple[Append, ...]
    queues: tuple[QueueVersion, ...]
    capacity: tuple[Capacity, ...] = ()


class Pusher:
    """Turns batches into appends of known partitions, encrypted where the queue asks for it."""

    def __init__(
        self,
        store: LogStore,
        catalogue: Catalogue,
        peer_sync: PeerSync,
        committer: Committer,
        mode: MaintenanceMode,
        level: FillLevel,
        keys: KeyRing,
    ) -> None:
        self._store = store
        self._level = level
        self._catalogue = catalogue
        self._peer_sync = peer_sync
        self._committer = committer
        self._mode = mode
        self._keys = keys

    async def push(self, batch: PushBatch, producer: str | None) -> Applied:
        """Append a batch, again if what it was decided on has changed."""
        backoff = None
        while True:
            if self._mode.buffers:
                await self._mode.check_normal()
            outcome = await self.attempt(batch, producer)
            if isinstance(outcome, Applied):
                return outcome
            backoff = backoff or Backoff(f"queue {batch.queue!r}")
            await backoff.pause()

    def attempt(
        self,
        batch: PushBatch,
        producer: str | None,
        *,
        outbox: tuple[int, ...] = (),
        based_on: tuple[EntryVersion, ...] = NORMAL_PUSH,
        queues: tuple[QueueVersion, ...] = (),
    ) -> Awaitable[Outcome]:
        """Append a batch, if what it is decided on still holds when it is committed."""
        queue = self._catalogue.queues.get(batch.queue)
        if queue is None or not _is_ready(queue, batch):
            return self._prepare_and_submit(batch, producer, outbox, based_on, queues)
        change = Change(
            appends=self._appends(queue, batch, producer),
            outbox=outbox,
            queues=queue.versions + queues,
            based_on=based_on,
        )
        return self._committer.submit(change, weight=batch.weight)

    async def _prepare_and_submit(
        self,
        batch: PushBatch,
        producer: str | None,
        outbox: tuple[int, ...],
        based_on: tuple[EntryVersion, ...],
        queues: tuple[QueueVersion, ...],
    ) -> Outcome:
        self._committer.check(batch.weight)
        await self.look_before_creating([batch])
        if based_on == NORMAL_PUSH and self._mode.buffers:
            return Stale()
        await self.check(batch)
        prepared = await self.prepare(batch, producer)
        if prepared is None:
            return Gone()
        change = Change(
            appends=prepared.appends,
            outbox=outbox,
            queues=prepared.queues + queues,
            based_on=based_on,
            capacity=prepared.capacity,
        )
        return await self._committer.submit(change, weight=batch.weight)

    async def look_before_creating(self, batches: Sequence[PushBatch]) -> None:
        """Catch up with other servers if a queue or a partition has to be created.

        What stands against the push must be known before: nothing is created for a refusal.
        """
        for batch in batches:
            queue = self._catalogue.queues.get(batch.queue)
            if queue is None or not all(map(queue.partitions.__contains__, batch.by_partition)):
                await self._peer_sync.catch_up()
                self._check_quotas(batches)
                return

    def _check_quotas(self, batches: Sequence[PushBatch]) -> None:
        wanted: dict[str, set[str]] = {}
        for batch in batches:
            wanted.setdefault(batch.queue, set()).update(batch.by_partition)
        self._catalogue.quotas.check_later(wanted)

    async def check(self, batch: PushBatch, *, beside: int = 0, limited: bool = True) -> None:
        """Raise what stands against a batch, before anything is created for it.

        ``beside`` are messages that the same change has for the queue. Without ``limited`` a
        full queue takes it, too.
        """
        queue = self._catalogue.queues.get(batch.queue)
        if queue is not None:
            if queue.config.options.encryption_enabled:
                self._keys.check(batch.queue)
            if limited:
                await self._capacity(queue, batch, beside)

    async def prepare(
        self, batch: PushBatch, producer: str | None, *, beside: int = 0, limited: bool = True
    ) -> PreparedPush | None:
        """The appends of a batch, with queue and partitions created where there are none.

        None if the queue was deleted meanwhile: the next try creates it.
        """
        queue = await self._catalogue.ensure_queue(batch.queue)
        capacity = await self._capacity(queue, batch, beside) if limited else ()
        if not await self._catalogue.ensure_partitions(queue, batch.by_partition):
            await self._peer_sync.look_at(queue.config.number)
            return None
        return PreparedPush(self._appends(queue, batch, producer), queue.versions, capacity)

    async def _capacity(
        self, queue: QueueState, batch: PushBatch, beside: int
    ) -> tuple[Capacity, ...]:
        """The room that a batch needs. What is stored already needs none.

        It is looked up only if it matters: if the queue would be full otherwise.
        """
        try:
            return await self._level.capacity(queue, len(batch), beside)
        except QueueFull:
            if None in batch.ids:
                raise
        return await self._level.capacity(queue, await self._count_new(queue, batch), beside)

    async def _count_new(self, queue: QueueState, batch: PushBatch) -> int:
        new = len(batch)
        for name, indexes in batch.by_partition.items():
            partition = queue.partitions.get(name)
            if partition is None:
                continue
            for index in indexes:
                found = await self._store.find_offset(partition.number, batch.ids[index] or "")
                new -= found is not None
        return new

    def _appends(
        self, queue: QueueState, batch: PushBatch, producer: str | None
    ) -> tuple[Append, ...]:
        number, partitions = queue.config.number, queue.partitions
        batch.choose_ids(encrypted=queue.config.options.encryption_enabled)
        return tuple(
            [
                Append(
                    queue=number,
                    partition=partitions[name].number,
                    columns=self._columns(queue, name, batch, indexes, producer),
                )
                for name, indexes in batch.by_partition.items()
            ]
        )

    def _columns(
        self,
        queue: QueueState,
        partition: str,
        batch: PushBatch,
        indexes: Sequence[int],
        producer: str | None,
    ) -> Columns:
        payloads, ids, traces = batch.payloads, batch.ids, batch.traces
        if len(indexes) != len(batch):
            payloads = [payloads[index] for index in indexes]
            ids = [ids[index] for index in indexes]
            traces = [traces[index] for index in indexes]
        encrypted = queue.config.options.encryption_enabled
        if encrypted:
            payloads = [
                self._keys.encrypt(payload, place_of(queue.config.name, partition, chosen or ""))
                for payload, chosen in zip(payloads, ids, strict=True)
            ]
        return Columns(
            payloads=payloads,
            transaction_ids=ids if any(ids) else None,
            trace_ids=[trace.bytes if trace else None for trace in traces] if any(traces) else None,
            producers=[producer] * len(payloads) if producer else None,
            flags=bytes([ENCRYPTED]) * len(payloads) if encrypted else None,
        )


def _is_ready(queue: QueueState, batch: PushBatch) -> bool:
    """Whether nothing has to be created, counted or encrypted for a batch: mostly so."""
    options = queue.config.options
    if options.max_size or options.encryption_enabled:
        return False
    return all(map(queue.partitions.__contains__, batch.by_partition))


def _by_partition(names: list[str]) -> dict[str, Sequence[int]]:
    if names.count(names[0]) == len(names):
        return {check_name("drafts[0].partition", names[0]): range(len(names))}
    indexes: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        known = indexes.get(name) if type(name) is str else None
        if known is None:
            known = indexes.setdefault(check_name(f"drafts[{index}].partition", name), [])
        known.append(index)
    return dict(indexes)
