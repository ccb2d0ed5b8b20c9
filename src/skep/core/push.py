"""Pushing: drafts become appends, appends become receipts."""

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from uuid import UUID, uuid4

from skep.core.catalogue import Catalogue
from skep.core.encryption import KeyRing, place_of
from skep.core.limits import Limits
from skep.core.state import QueueState, Room
from skep.errors import Invalid
from skep.model.change import CHANGE_WEIGHT, Append, Appended, weight_of
from skep.model.message import Draft, Receipt, Receipts
from skep.model.names import check_name, check_transaction_id
from skep.model.segment import ENCRYPTED, Columns
from skep.store.protocol import Store


class Batch:
    """The drafts of one push to one queue, checked, and sorted by partition.

    Columns are taken apart once and checked as a whole: a message costs no more than it must.
    """

    def __init__(self, queue: str, drafts: Sequence[Draft], limits: Limits) -> None:
        self.queue = check_name("queue", queue)
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
        self.weight = CHANGE_WEIGHT + weight_of(len(drafts), size)
        self.by_partition = _by_partition(names)

    def __len__(self) -> int:
        return len(self.payloads)

    def choose_ids(self) -> None:
        """Give an id to each draft that has none.

        An encrypted payload is bound to its transaction id, so it needs one before it has a place.
        """
        self.ids = [chosen or str(uuid4()) for chosen in self.ids]

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


class Pushing:
    """Turns batches into appends of known partitions, encrypted where the queue asks for it."""

    def __init__(self, store: Store, catalogue: Catalogue, keys: KeyRing) -> None:
        self._store = store
        self._catalogue = catalogue
        self._keys = keys

    def known(self, batch: Batch, producer: str | None) -> tuple[Append, ...] | None:
        """The appends of a batch, if there is nothing to make, to count or to encrypt for it.

        So it is with most pushes, and none of them should pay for the others.
        """
        queue = self._catalogue.queues.get(batch.queue)
        if queue is None or queue.config.options.max_size:
            return None
        if queue.config.options.encryption_enabled:
            return None
        partitions = queue.partitions
        if not all(map(partitions.__contains__, batch.by_partition)):
            return None
        return tuple(
            [
                Append(
                    queue=queue.config.number,
                    partition=partitions[name].number,
                    columns=self._columns(queue, name, batch, indexes, producer),
                )
                for name, indexes in batch.by_partition.items()
            ]
        )

    async def check(self, batch: Batch) -> None:
        """Raise what stands against a batch, before anything is made for it."""
        queue = self._catalogue.queues.get(batch.queue)
        if queue is None:
            return
        if queue.config.options.encryption_enabled:
            self._keys.check()
        queue.check_room(await self._new(queue, batch))

    async def take_room(self, queue: QueueState, batch: Batch, room: Room) -> None:
        room.take(queue, await self._new(queue, batch))

    async def _new(self, queue: QueueState, batch: Batch) -> int:
        """How much room a batch needs; what is stored already needs none.

        It is looked up only if it matters: if the queue would be full otherwise.
        """
        if queue.has_room(len(batch)) or None in batch.ids:
            return len(batch)
        known = 0
        for name, indexes in batch.by_partition.items():
            partition = queue.partitions.get(name)
            if partition is not None:
                known += await self._count_known(partition.number, batch, indexes)
        return len(batch) - known

    async def _count_known(self, partition: int, batch: Batch, indexes: Sequence[int]) -> int:
        found = [
            await self._store.find_offset(partition, batch.ids[index] or "") for index in indexes
        ]
        return len(found) - found.count(None)

    async def prepare(self, batch: Batch, producer: str | None) -> tuple[QueueState, list[Append]]:
        queue = await self._catalogue.ensure_queue(batch.queue)
        if queue.config.options.encryption_enabled:
            batch.choose_ids()
        partitions = await self._catalogue.ensure_partitions(queue, batch.by_partition)
        appends = [
            Append(
                queue=queue.config.number,
                partition=partitions[name].number,
                columns=self._columns(queue, name, batch, indexes, producer),
            )
            for name, indexes in batch.by_partition.items()
        ]
        return queue, appends

    def _columns(
        self,
        queue: QueueState,
        partition: str,
        batch: Batch,
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
