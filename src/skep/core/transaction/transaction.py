"""Transactions: pushes, acks and extensions that are applied all or nothing, and once."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from skep.core.aio import Backoff, KeyedLocks, run_to_completion
from skep.core.cluster.maintenance_mode import NORMAL_PUSH, MaintenanceMode
from skep.core.consume.change_builder import ChangeBuilder
from skep.core.consume.settlement import Settler
from skep.core.consume.settlement_builder import SettlementBuilder
from skep.core.log.committer import Committer
from skep.core.produce.push_preparation import PreparedPush, PushPreparer
from skep.core.transaction.request import TransactionRequest, TransactionValidator
from skep.errors import Conflict, Invalid, KeyReused, NotFound
from skep.model.change import (
    Applied,
    EntryVersion,
    Gone,
    IdempotencyKey,
    Outcome,
    Reused,
)
from skep.model.name import (
    LeaseId,
    check_lease_id,
    check_transaction_id,
)
from skep.model.operation import (
    Ack,
    Extend,
    Keep,
    Operation,
    Settlement,
    Transaction,
)
from skep.store.protocol import IdempotencyStore

T = TypeVar("T")


class Transactor:
    def __init__(
        self,
        store: IdempotencyStore,
        committer: Committer,
        preparer: PushPreparer,
        settler: Settler,
        settlement_builder: SettlementBuilder,
        mode: MaintenanceMode,
        validator: TransactionValidator,
    ) -> None:
        self._keys = KeyedLocks[str]()
        self._store = store
        self._committer = committer
        self._preparer = preparer
        self._settler = settler
        self._settlement_builder = settlement_builder
        self._mode = mode
        self._validator = validator

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
        request = self._validator.validate(operations, required_leases, producer, based_on)
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
        return self._validator.pushes(operations).recall(earlier)

    async def _run_once(self, request: TransactionRequest, key: IdempotencyKey) -> Transaction:
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

    async def _run(self, request: TransactionRequest, key: IdempotencyKey | None) -> Transaction:
        def build(builder: ChangeBuilder) -> list[Settlement]:
            for lease_id in request.required:
                self._settlement_builder.extend(builder, lease_id, 0)
            return list(self._settle(builder, request.operations))

        await self._load_leases(request)
        backoff = Backoff("the same partitions")
        while True:
            outcome, settlements = await self._attempt(request, key, build)
            if isinstance(outcome, Applied):
                if outcome.repeated:
                    return request.pushes.recall(outcome)
                return request.pushes.result(outcome, settlements)
            if isinstance(outcome, Reused) and key:
                raise KeyReused(key.name)
            if request.is_drain and request.based_on != self._mode.basis:
                raise Conflict("the maintenance mode has changed")
            await backoff.pause()

    async def _load_leases(self, request: TransactionRequest) -> None:
        """Load what the leases of a transaction hold."""
        named = [
            operation.lease_id
            for operation in request.operations
            if isinstance(operation, Ack | Extend)
        ]
        await self._settler.load([LeaseId(lease_id) for lease_id in (*request.required, *named)])

    async def _attempt(
        self,
        request: TransactionRequest,
        key: IdempotencyKey | None,
        build: Callable[[ChangeBuilder], list[Settlement]],
    ) -> tuple[Outcome, list[Settlement]]:
        pushes = await self._prepare(request, build) if request.pushes.batches else []
        if pushes is None:
            return Gone(), []
        builder, settlements = await self._settler.build(build)
        builder.pushes += pushes
        if key is not None:
            key = replace(key, memo=request.pushes.memo(settlements, key.memo))
        return await self._settler.submit(builder, key, request.based_on), settlements

    async def _prepare(
        self, request: TransactionRequest, build: Callable[[ChangeBuilder], object]
    ) -> list[PreparedPush] | None:
        """The pushes of a transaction; None if a queue was deleted meanwhile.

        Raises what rejects it before a queue or a partition is created for it.
        """
        await self._preparer.look_before_creating(request.pushes.batches)
        if request.based_on == NORMAL_PUSH:
            await self._mode.check_normal()
        await self._settler.build(build)
        self._committer.check(sum(batch.weight for batch in request.pushes.batches))
        # Buffered messages were accepted before: they are delivered even to a full queue.
        limited = not request.is_drain
        for batch, beside in request.pushes.counted():
            await self._preparer.check(batch, beside=beside, limited=limited)
        pushes = [
            await self._preparer.prepare(batch, request.producer, beside=beside, limited=limited)
            for batch, beside in request.pushes.counted()
        ]
        prepared = [push for push in pushes if push is not None]
        return prepared if len(prepared) == len(pushes) else None

    def _settle(
        self, builder: ChangeBuilder, operations: Sequence[Operation]
    ) -> Iterator[Settlement]:
        for index, operation in enumerate(operations):
            if isinstance(operation, Ack):
                lease_id = check_lease_id("lease_id", operation.lease_id)
                try:
                    settlement = self._settlement_builder.settle(
                        builder, lease_id, operation.verdicts
                    )
                except Invalid as error:
                    raise error.within("operations", index) from None
                yield settlement
            elif isinstance(operation, Extend):
                lease_id = check_lease_id("lease_id", operation.lease_id)
                self._settlement_builder.extend(builder, lease_id, operation.seconds)
            elif isinstance(operation, Keep):
                builder.entries += operation.updates
