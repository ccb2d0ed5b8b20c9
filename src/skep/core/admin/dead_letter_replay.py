"""Appends dead letters to their partitions again, in the change that deletes them."""

from collections.abc import Sequence

from skep.core.aio import Backoff
from skep.core.cluster.maintenance_mode import NORMAL_PUSH, MaintenanceMode
from skep.core.log.committer import Committer
from skep.core.log.encryption import KeyRing, place_of
from skep.core.state.queue_state import PartitionState
from skep.core.state.registry import Registry
from skep.errors import DeadLetterNotFound
from skep.model.change import Append, Applied, Change, DeadLetterRemoval
from skep.model.dead_letter import DeadLetter
from skep.model.message import Receipt
from skep.model.segment import ENCRYPTED, Columns
from skep.store.protocol import DeadLetterStore


class DeadLetterReplayer:
    def __init__(
        self,
        store: DeadLetterStore,
        registry: Registry,
        committer: Committer,
        mode: MaintenanceMode,
        keys: KeyRing,
    ) -> None:
        self._store = store
        self._registry = registry
        self._committer = committer
        self._mode = mode
        self._keys = keys

    async def replay(self, dead_letters: Sequence[DeadLetter]) -> Sequence[Receipt]:
        """Replay dead letters in one change; raises ``DeadLetterNotFound`` if one is missing."""
        backoff = Backoff("the same dead letters")
        while True:
            await self._mode.check_normal()
            partitions = [partition_of(self._registry, each) for each in dead_letters]
            outcome = await self._committer.submit(self._change(dead_letters, partitions))
            if isinstance(outcome, Applied):
                break
            await self._check_present(dead_letters)
            await backoff.pause()
        return [
            Receipt(
                partition.name,
                partition.number,
                appended.offsets[0],
                False,
                dead_letter.transaction_id,
            )
            for dead_letter, partition, appended in zip(
                dead_letters, partitions, outcome.appended, strict=True
            )
        ]

    def _change(
        self, dead_letters: Sequence[DeadLetter], partitions: Sequence[PartitionState]
    ) -> Change:
        return Change(
            appends=tuple(map(self._append, dead_letters, partitions)),
            removals=tuple(
                DeadLetterRemoval(queue=each.queue, number=each.number) for each in dead_letters
            ),
            queues=tuple({partition.queue.versions[0] for partition in partitions}),
            based_on=NORMAL_PUSH,
        )

    def _append(self, dead_letter: DeadLetter, partition: PartitionState) -> Append:
        payload, encrypted = dead_letter.payload, dead_letter.encrypted
        config = partition.queue.config
        if not encrypted and config.options.encryption_enabled:
            # The queue was not encrypted yet when the message was pushed.
            bound_to = place_of(config.name, partition.name, dead_letter.transaction_id)
            payload, encrypted = self._keys.encrypt(payload, bound_to), True
        columns = Columns(
            payloads=[payload],
            transaction_ids=[dead_letter.transaction_id],
            trace_ids=[dead_letter.trace] if dead_letter.trace else None,
            producers=[dead_letter.producer] if dead_letter.producer else None,
            flags=bytes([ENCRYPTED]) if encrypted else None,
        )
        return Append(
            queue=dead_letter.queue,
            partition=dead_letter.partition,
            columns=columns,
            replay=True,
        )

    async def _check_present(self, dead_letters: Sequence[DeadLetter]) -> None:
        for each in dead_letters:
            if await self._store.find_dead_letter(each.queue, each.number) is None:
                raise DeadLetterNotFound(each.number)


def partition_of(registry: Registry, dead_letter: DeadLetter) -> PartitionState:
    """The partition of a dead letter; raises if its queue was deleted a moment ago."""
    partition = registry.find_partition(dead_letter.partition)
    if partition is None:
        raise DeadLetterNotFound(dead_letter.number)
    return partition
