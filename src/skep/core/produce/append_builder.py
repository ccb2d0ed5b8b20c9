"""Turns a batch into appends to known partitions, encrypted where the queue requires it."""

from collections.abc import Sequence

from skep.core.log.encryption import KeyRing, place_of
from skep.core.produce.push_batch import PushBatch
from skep.core.state.queue_state import QueueState
from skep.model.change import Append
from skep.model.segment import ENCRYPTED, Columns


class AppendBuilder:
    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    def check(self, queue: QueueState) -> None:
        """Raise ``EncryptionUnavailable`` if the queue is encrypted and there is no key."""
        if queue.config.options.encryption_enabled:
            self._keys.check(queue.config.name)

    def build(
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
