"""What a transaction asks for, validated before anything is read or created."""

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from skep.core.cluster.maintenance_mode import NORMAL_PUSH
from skep.core.limits import Limits
from skep.core.produce.push_batch import PushBatch
from skep.errors import Invalid
from skep.model.change import Applied, EntryVersion, IdempotencyKey
from skep.model.entry import check_key
from skep.model.name import (
    LeaseId,
    check_count,
    check_label,
    check_lease_id,
    check_transaction_id,
)
from skep.model.operation import Ack, Extend, Keep, Operation, Push, Settlement, Transaction


class _Memo(msgspec.Struct, frozen=True, array_like=True):
    """What the answer to a repeated transaction needs besides the offsets of its messages."""

    ids: list[list[str | None]] = []
    """The transaction ids of each push, as they were sent or chosen."""
    settlements: list[Settlement] = []
    caller: bytes = b""
    """The memo of the caller."""


class TransactionPushes(msgspec.Struct, frozen=True):
    """The pushes of a transaction, and the results that are derived from them."""

    batches: Sequence[PushBatch]

    def counted(self) -> Iterator[tuple[PushBatch, int]]:
        """Batches, each with the number of messages that earlier ones have for the same queue."""
        before: dict[str, int] = {}
        for batch in self.batches:
            yield batch, before.get(batch.queue, 0)
            before[batch.queue] = before.get(batch.queue, 0) + len(batch)

    def result(self, outcome: Applied, settlements: list[Settlement]) -> Transaction:
        appended = iter(outcome.appended)
        return Transaction(
            receipts=[
                batch.receipts([next(appended) for _ in batch.by_partition])
                for batch in self.batches
            ],
            settlements=settlements,
            repeated=outcome.repeated,
        )

    def memo(self, settlements: list[Settlement], caller: bytes) -> bytes:
        """What is stored with an idempotency key, for ``recall``."""
        ids = [batch.ids for batch in self.batches]
        return msgspec.msgpack.encode(_Memo(ids, settlements, caller))

    def recall(self, outcome: Applied) -> Transaction:
        """The result of the first request, from what was stored with its key."""
        memo = msgspec.msgpack.decode(outcome.memo, type=_Memo) if outcome.memo else _Memo()
        for batch, ids in zip(self.batches, memo.ids, strict=False):
            batch.ids = ids
        return replace(self.result(outcome, memo.settlements), memo=memo.caller)


class TransactionRequest(msgspec.Struct, frozen=True):
    """A validated transaction."""

    operations: Sequence[Operation]
    required: Sequence[LeaseId]
    pushes: TransactionPushes
    producer: str | None
    based_on: tuple[EntryVersion, ...]

    @property
    def is_drain(self) -> bool:
        """Whether it delivers messages that were buffered in maintenance."""
        return self.based_on not in ((), NORMAL_PUSH)


class TransactionValidator:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def validate(
        self,
        operations: Sequence[Operation],
        required_leases: Sequence[str],
        producer: str | None,
        based_on: tuple[EntryVersion, ...] | None,
    ) -> TransactionRequest:
        """The request, if every operation is valid; raises ``Invalid`` otherwise.

        Pushes require normal operation, unless ``based_on`` names the mode that they rely on.
        """
        if not isinstance(operations, Sequence) or not operations:
            raise Invalid("operations", "must be a sequence that is not empty")
        for index, operation in enumerate(operations):
            self._check(f"operations[{index}]", operation)
        if isinstance(required_leases, str) or not isinstance(required_leases, Sequence):
            raise Invalid("required_leases", "must be a sequence of lease ids")
        required = [check_lease_id("required_leases", lease) for lease in required_leases]
        pushes = self.pushes(operations)
        if based_on is None:
            based_on = NORMAL_PUSH if pushes.batches else ()
        producer = check_label("producer", producer)
        return TransactionRequest(operations, required, pushes, producer, based_on)

    def pushes(self, operations: Sequence[Operation]) -> TransactionPushes:
        """The pushes among the operations."""
        batches: list[PushBatch] = []
        for index, operation in enumerate(operations):
            if isinstance(operation, Push):
                try:
                    batches.append(PushBatch(operation.queue, operation.drafts, self._limits))
                except Invalid as error:
                    raise error.within("operations", index) from None
        return TransactionPushes(batches)

    def _check(self, where: str, operation: object) -> None:
        if isinstance(operation, Ack | Extend):
            check_lease_id(f"{where}.lease_id", operation.lease_id)
        if isinstance(operation, Extend):
            most = self._limits.lease_seconds
            check_count(f"{where}.seconds", operation.seconds, least=1, most=most)
        elif isinstance(operation, Keep):
            for update in operation.updates:
                check_key(f"{where}.key", update.key)
        elif not isinstance(operation, Push | Ack):
            raise Invalid(where, f"must be Push, Ack or Extend, not {type(operation).__name__}")


def key_of(
    name: str, operations: Sequence[Operation], required_leases: Sequence[str]
) -> IdempotencyKey:
    """The key of a transaction, with a fingerprint of its content."""
    check_transaction_id("idempotency_key", name)
    request = msgspec.msgpack.encode((operations, required_leases), enc_hook=str.__str__)
    return IdempotencyKey(name=name, fingerprint=fingerprint_of(request))


def fingerprint_of(request: bytes) -> bytes:
    return hashlib.blake2b(request, digest_size=16).digest()
