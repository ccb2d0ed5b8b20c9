"""Transactions: pushes, acks and extensions that are applied all or nothing, and once."""

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from skep.core.aio import Backoff, KeyedLocks, run_to_completion
from skep.core.cluster.maintenance_mode import NORMAL_PUSH, MaintenanceMode
from skep.core.cluster.peer_sync import PeerSync
from skep.core.consume.change_builder import ChangeBuilder
from skep.core.consume.settlement import Settler
from skep.core.limits import Limits
from skep.core.log.committer import Committer
from skep.core.produce.push_batch import PushBatch
from skep.core.produce.push_preparation import PreparedPush, PushPreparer
from skep.errors import Conflict, Invalid, KeyReused, LeaseLost, NotFound
from skep.model.change import (
    Applied,
    EntryVersion,
    Gone,
    IdempotencyKey,
    Outcome,
    Reused,
)
from skep.model.entry import check_key
from skep.model.name import (
    Instant,
    LeaseId,
    check_count,
    check_label,
    check_lease_id,
    check_transaction_id,
)
from skep.model.operation import (
    Ack,
    Extend,
    Keep,
    Operation,
    Push,
    Settlement,
    Transaction,
    Verdict,
)
from skep.store.protocol import IdempotencyStore

T = TypeVar("T")


class _Request(msgspec.Struct, frozen=True):
    """A validated transaction."""

    operations: Sequence[Operation]
    required: Sequence[LeaseId]
    batches: Sequence[PushBatch]
    producer: str | None
    based_on: tuple[EntryVersion, ...]

    @property
    def is_drain(self) -> bool:
        """Whether it delivers messages that were buffered in maintenance."""
        return self.based_on not in ((), NORMAL_PUSH)


class _Memo(msgspec.Struct, frozen=True, array_like=True):
    """What the answer to a repeated transaction needs besides the offsets of its messages."""

    ids: list[list[str | None]] = []
    """The transaction ids of each push, as they were sent or chosen."""
    settlements: list[Settlement] = []
    caller: bytes = b""
    """The memo of the caller."""


class Transactor:
    def __init__(
        self,
        store: IdempotencyStore,
        committer: Committer,
        peer_sync: PeerSync,
        preparer: PushPreparer,
        settler: Settler,
        mode: MaintenanceMode,
        limits: Limits,
    ) -> None:
        self._keys = KeyedLocks[str]()
        self._store = store
        self._committer = committer
        self._peer_sync = peer_sync
        self._preparer = preparer
        self._settler = settler
        self._mode = mode
        self._limits = limits

    async def run(
        self,
        operations: Sequence[Operation],
        *,
        required_leases: Sequence[str] = (),
        key: IdempotencyKey | None = None,
        producer: str | None = None,
        based_on: tuple[EntryVersion, ...] | None = None,
    ) -> Transaction:
        """Apply all operations or none; with a key, once.

        Pushes require normal operation, unless ``based_on`` names the mode that they rely on.
        """
        required = self._check_all(operations, required_leases)
        batches = self._batches(operations)
        if based_on is None:
            based_on = NORMAL_PUSH if batches else ()
        request = _Request(
            operations, required, batches, check_label("producer", producer), based_on
        )
        if key is None:
            return await self._run(request, None)
        check_transaction_id("idempotency_key", key.name)
        # A cancelled caller may retry with the same key, which must not find it half done.
        return await run_to_completion(self._run_once(request, key))

    async def find(
        self, key: IdempotencyKey, operations: Sequence[Operation]
    ) -> Transaction | None:
        """The answer to a transaction that was applied before; None if there is none.

        Only the pushes of ``operations`` matter.
        """
        check_transaction_id("idempotency_key", key.name)
        earlier = await self._store.find_outcome(key)
        if earlier is None:
            return None
        if not isinstance(earlier, Applied):
            raise KeyReused(key.name)
        await self._committer.confirm()
        return _recall(self._batches(operations), earlier)

    async def _run_once(self, request: _Request, key: IdempotencyKey) -> Transaction:
        # Of two concurrent requests the second waits for the outcome of the first.
        async with self._keys.of(key.name):
            if earlier := await self.find(key, request.operations):
                return earlier
            try:
                return await self._run(request, key)
            except (Conflict, NotFound):
                # The reason may be that another server has just applied it.
                if earlier := await self.find(key, request.operations):
                    return earlier
                raise

    async def _run(self, request: _Request, key: IdempotencyKey | None) -> Transaction:
        def build(builder: ChangeBuilder) -> list[Settlement]:
            for lease_id in request.required:
                self._settler.extend(builder, lease_id, 0)
            return list(self._settle(builder, request.operations))

        await self._look_up_leases(request)
        backoff = Backoff("the same partitions")
        while True:
            outcome, settlements = await self._attempt(request, key, build)
            if isinstance(outcome, Applied):
                if outcome.repeated:
                    return _recall(request.batches, outcome)
                return _answer(request.batches, outcome, settlements)
            if isinstance(outcome, Reused) and key:
                raise KeyReused(key.name)
            if request.is_drain and request.based_on != self._mode.basis:
                raise Conflict("the maintenance mode has changed")
            await backoff.pause()

    async def _look_up_leases(self, request: _Request) -> None:
        """Load what the leases of a transaction hold."""
        named = [
            operation.lease_id
            for operation in request.operations
            if isinstance(operation, Ack | Extend)
        ]
        await self._look_up([LeaseId(lease_id) for lease_id in (*request.required, *named)])

    async def _look_up(self, leases: Sequence[LeaseId]) -> None:
        """Load what leases hold. Another server may have granted them."""
        if not all(map(self._settler.is_known, leases)):
            await self._peer_sync.catch_up()
            if not all(map(self._settler.is_loaded, leases)):
                await self._peer_sync.complete()

    async def _attempt(
        self,
        request: _Request,
        key: IdempotencyKey | None,
        build: Callable[[ChangeBuilder], list[Settlement]],
    ) -> tuple[Outcome, list[Settlement]]:
        pushes = await self._prepare(request, build) if request.batches else []
        if pushes is None:
            return Gone(), []
        builder, settlements = _try_build(build) or await self._rebuild(build)
        builder.pushes += pushes
        if key is not None:
            memo = _Memo([batch.ids for batch in request.batches], settlements, key.memo)
            key = replace(key, memo=msgspec.msgpack.encode(memo))
        return await self._submit(builder, key, request.based_on), settlements

    async def _prepare(
        self, request: _Request, build: Callable[[ChangeBuilder], object]
    ) -> list[PreparedPush] | None:
        """The pushes of a transaction; None if a queue was deleted meanwhile.

        Raises what rejects it before a queue or a partition is created for it.
        """
        await self._preparer.look_before_creating(request.batches)
        if request.based_on == NORMAL_PUSH:
            await self._mode.check_normal()
        if not _try_build(build):
            await self._rebuild(build)
        self._committer.check(sum(batch.weight for batch in request.batches))
        # Buffered messages were accepted before: they are delivered even to a full queue.
        limited = not request.is_drain
        for batch, beside in _counted(request.batches):
            await self._preparer.check(batch, beside=beside, limited=limited)
        pushes = [
            await self._preparer.prepare(batch, request.producer, beside=beside, limited=limited)
            for batch, beside in _counted(request.batches)
        ]
        prepared = [push for push in pushes if push is not None]
        return prepared if len(prepared) == len(pushes) else None

    async def settle(self, lease_id: LeaseId, verdicts: Sequence[Verdict] | None) -> Settlement:
        """Settle messages of a lease; all of them as completed if none are named."""
        return await self._commit_with_retry(
            lease_id, lambda builder: self._settler.settle(builder, lease_id, verdicts)
        )

    async def extend(self, lease_id: LeaseId, seconds: int) -> Instant:
        """Extend a lease to at least ``seconds`` from now; return when it ends."""
        return await self._commit_with_retry(
            lease_id, lambda builder: self._settler.extend(builder, lease_id, seconds)
        )

    async def _commit_with_retry(self, lease_id: LeaseId, build: Callable[[ChangeBuilder], T]) -> T:
        """Build a change of what a lease holds and commit it; retry if that has changed."""
        if not self._settler.is_known(lease_id):
            await self._look_up([lease_id])
        backoff = None
        while True:
            builder, result = _try_build(build) or await self._rebuild(build)
            if isinstance(await self._submit(builder), Applied):
                return result
            backoff = backoff or Backoff("the same partitions")
            await backoff.pause()

    def _submit(
        self,
        builder: ChangeBuilder,
        key: IdempotencyKey | None = None,
        based_on: tuple[EntryVersion, ...] = (),
    ) -> Awaitable[Outcome]:
        return self._committer.submit(builder.submit(key, based_on), builder.settle)

    async def _rebuild(self, build: Callable[[ChangeBuilder], T]) -> tuple[ChangeBuilder, T]:
        """Build again after catching up: another server may have granted or extended the lease."""
        await self._peer_sync.complete()
        builder = ChangeBuilder()
        return builder, build(builder)

    def _batches(self, operations: Sequence[Operation]) -> list[PushBatch]:
        batches: list[PushBatch] = []
        for index, operation in enumerate(operations):
            if isinstance(operation, Push):
                try:
                    batches.append(PushBatch(operation.queue, operation.drafts, self._limits))
                except Invalid as error:
                    raise error.within("operations", index) from None
        return batches

    def _settle(
        self, builder: ChangeBuilder, operations: Sequence[Operation]
    ) -> Iterator[Settlement]:
        for index, operation in enumerate(operations):
            if isinstance(operation, Ack):
                lease_id = check_lease_id("lease_id", operation.lease_id)
                try:
                    settlement = self._settler.settle(builder, lease_id, operation.verdicts)
                except Invalid as error:
                    raise error.within("operations", index) from None
                yield settlement
            elif isinstance(operation, Extend):
                lease_id = check_lease_id("lease_id", operation.lease_id)
                self._settler.extend(builder, lease_id, operation.seconds)
            elif isinstance(operation, Keep):
                builder.entries += operation.updates

    def _check_all(
        self,
        operations: Sequence[Operation],
        required_leases: Sequence[str],
    ) -> list[LeaseId]:
        if not isinstance(operations, Sequence) or not operations:
            raise Invalid("operations", "must be a sequence that is not empty")
        for index, operation in enumerate(operations):
            self._check(f"operations[{index}]", operation)
        if isinstance(required_leases, str) or not isinstance(required_leases, Sequence):
            raise Invalid("required_leases", "must be a sequence of lease ids")
        return [check_lease_id("required_leases", lease) for lease in required_leases]

    def _check(self, where: str, operation: object) -> None:
        if isinstance(operation, Ack | Extend):
            check_lease_id(f"{where}.lease_id", operation.lease_id)
        if isinstance(operation, Extend):
            check_count(
                f"{where}.seconds", operation.seconds, least=1, most=self._limits.lease_seconds
            )
        elif isinstance(operation, Keep):
            for update in operation.updates:
                check_key(f"{where}.key", update.key)
        elif not isinstance(operation, Push | Ack):
            raise Invalid(where, f"must be Push, Ack or Extend, not {type(operation).__name__}")


def _try_build(build: Callable[[ChangeBuilder], T]) -> tuple[ChangeBuilder, T] | None:
    """The change that ``build`` makes of the current state; None if a lease is missing."""
    builder = ChangeBuilder()
    try:
        return builder, build(builder)
    except LeaseLost:
        return None


def _counted(batches: Sequence[PushBatch]) -> Iterator[tuple[PushBatch, int]]:
    """Batches, each with the number of messages that earlier ones have for the same queue."""
    before: dict[str, int] = {}
    for batch in batches:
        yield batch, before.get(batch.queue, 0)
        before[batch.queue] = before.get(batch.queue, 0) + len(batch)


def _answer(
    batches: Sequence[PushBatch], outcome: Applied, settlements: list[Settlement]
) -> Transaction:
    appended = iter(outcome.appended)
    return Transaction(
        receipts=[
            batch.receipts([next(appended) for _ in batch.by_partition]) for batch in batches
        ],
        settlements=settlements,
        repeated=outcome.repeated,
    )


def _recall(batches: Sequence[PushBatch], outcome: Applied) -> Transaction:
    """The answer of the first request, from what was recorded with it."""
    memo = msgspec.msgpack.decode(outcome.memo, type=_Memo) if outcome.memo else _Memo()
    for batch, ids in zip(batches, memo.ids, strict=False):
        batch.ids = ids
    return replace(_answer(batches, outcome, memo.settlements), memo=memo.caller)


def key_of(
    name: str, operations: Sequence[Operation], required_leases: Sequence[str]
) -> IdempotencyKey:
    """The key of a transaction, with a fingerprint of its content."""
    check_transaction_id("idempotency_key", name)
    request = msgspec.msgpack.encode((operations, required_leases), enc_hook=str.__str__)
    return IdempotencyKey(name=name, fingerprint=fingerprint_of(request))


def fingerprint_of(request: bytes) -> bytes:
    return hashlib.blake2b(request, digest_size=16).digest()
