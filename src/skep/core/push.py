"""Pushing: drafts become appends, appends become receipts."""

from collections.abc import Sequence
from uuid import UUID, uuid4

from msgspec.structs import replace

from skep.core.catalogue import Catalogue
from skep.core.encryption import KeyRing, place_of
from skep.core.limits import Limits
from skep.core.state import QueueState
from skep.errors import Invalid
from skep.model.change import Append, Appended
from skep.model.message import Draft, Receipt
from skep.model.names import check_name, check_transaction_id
from skep.model.segment import ENCRYPTED, Columns


class Batch:
    """The drafts of one push to one queue, checked, and sorted by partition."""

    def __init__(self, queue: str, drafts: Sequence[Draft], limits: Limits) -> None:
        self.queue = check_name("queue", queue)
        self.drafts = drafts
        if not drafts or len(drafts) > limits.push_messages:
            raise Invalid(
                "drafts", f"must be 1 to {limits.push_messages} messages, not {len(drafts)}"
            )
        _check(drafts, limits.payload_bytes)
        self.by_partition = _by_partition(drafts)

    def choose_ids(self) -> None:
        """Give an id to each draft that has none.

        An encrypted payload is bound to its transaction id, so it needs one before it has a place.
        """
        self.drafts = [
            draft if draft.transaction_id else replace(draft, transaction_id=str(uuid4()))
            for draft in self.drafts
        ]

    def receipts(self, appended: Sequence[Appended]) -> list[Receipt]:
        """Where each draft is, in the order in which they were given."""
        receipts: dict[int, Receipt] = {}
        drafts = self.drafts
        for (name, indexes), places in zip(self.by_partition.items(), appended, strict=True):
            number, duplicates = places.partition, places.duplicates
            for at, (index, offset) in enumerate(zip(indexes, places.offsets, strict=True)):
                receipts[index] = Receipt(
                    name, number, offset, at in duplicates, drafts[index].transaction_id
                )
        return [receipts[index] for index in range(len(drafts))]


class Pushing:
    """Turns batches into appends of known partitions, encrypted where the queue asks for it."""

    def __init__(self, catalogue: Catalogue, keys: KeyRing) -> None:
        self._catalogue = catalogue
        self._keys = keys

    async def prepare(self, batch: Batch, producer: str | None) -> tuple[QueueState, list[Append]]:
        known = self._catalogue.queues.get(batch.queue)
        if known and known.config.options.encryption_enabled:
            self._keys.check()
        queue = known or await self._catalogue.ensure_queue(batch.queue)
        if queue.config.options.encryption_enabled:
            batch.choose_ids()
        # A push that finds no room makes no partition either.
        queue.check_room(len(batch.drafts))
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
        drafts = batch.drafts
        if len(indexes) != len(drafts):
            drafts = [drafts[index] for index in indexes]
        payloads = [draft.payload for draft in drafts]
        ids = [draft.transaction_id for draft in drafts]
        traces = [draft.trace_id.bytes if draft.trace_id else None for draft in drafts]
        encrypted = queue.config.options.encryption_enabled
        if encrypted:
            payloads = [
                self._keys.encrypt(payload, place_of(queue.config.name, partition, chosen or ""))
                for payload, chosen in zip(payloads, ids, strict=True)
            ]
        return Columns(
            payloads=payloads,
            transaction_ids=ids if any(ids) else None,
            trace_ids=traces if any(traces) else None,
            producers=[producer] * len(payloads) if producer else None,
            flags=bytes([ENCRYPTED]) * len(payloads) if encrypted else None,
        )


def _check(drafts: Sequence[Draft], payload_bytes: int) -> None:
    """Look at each draft only as far as needed: most batches are alike all over."""
    for index, draft in enumerate(drafts):
        payload = draft.payload
        if type(payload) is not bytes:
            raise Invalid(
                f"drafts[{index}].payload", f"must be bytes, not {type(payload).__name__}"
            )
        if len(payload) > payload_bytes:
            raise Invalid(
                f"drafts[{index}].payload",
                f"is {len(payload)} bytes long, at most {payload_bytes} are allowed",
            )
        if type(draft.partition) is not str:
            check_name(f"drafts[{index}].partition", draft.partition)
        if draft.transaction_id is not None:
            check_transaction_id(f"drafts[{index}].transaction_id", draft.transaction_id)
        if draft.trace_id is not None and not isinstance(draft.trace_id, UUID):
            raise Invalid(f"drafts[{index}].trace_id", "must be a UUID")


def _by_partition(drafts: Sequence[Draft]) -> dict[str, Sequence[int]]:
    first = drafts[0].partition
    if all(draft.partition == first for draft in drafts):
        return {check_name("drafts[0].partition", first): range(len(drafts))}
    indexes: dict[str, list[int]] = {}
    for index, draft in enumerate(drafts):
        known = indexes.get(draft.partition)
        if known is None:
            check_name(f"drafts[{index}].partition", draft.partition)
            known = indexes[draft.partition] = []
        known.append(index)
    return dict(indexes)
