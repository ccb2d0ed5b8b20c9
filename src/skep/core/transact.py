"""Pushes, acks and extensions that happen together or not at all, and once."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from skep.core.committer import Committer
from skep.core.following import Following
from skep.core.limits import Limits
from skep.core.push import Batch, Pushing
from skep.core.reading import Reading
from skep.core.settle import Plan, Settling
from skep.core.state import Room
from skep.core.whole import Locks, to_the_end
from skep.errors import Conflict, Invalid, KeyReused, LeaseLost, QueueNotFound
from skep.model.change import (
    Append,
    Appended,
    Applied,
    Change,
    Gone,
    IdempotencyKey,
    Outcome,
    Reused,
)
from skep.model.entry import check_key
from skep.model.names import (
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
)
from skep.store.protocol import Store

_ATTEMPTS = 50
"""Decisions in a row that somebody else's write makes obsolete before we stop trying."""

T = TypeVar("T")


class _Asked(msgspec.Struct, frozen=True):
    operations: Sequence[Operation]
    required: Sequence[LeaseId]
    batches: Sequence[Batch]
    producer: str | None
    once: IdempotencyKey | None = None


class Transacting:
    def __init__(
        self,
        store: Store,
        committer: Committer,
        following: Following,
        pushing: Pushing,
        settling: Settling,
        reading: Reading,
        limits: Limits,
    ) -> None:
        self._keys = Locks[str]()
        self._reading = reading
        self._store = store
        self._committer = committer
        self._following = following
        self._pushing = pushing
        self._settling = settling
        self._limits = limits

    async def run(
        self,
        operations: Sequence[Operation],
        *,
        required_leases: Sequence[str] = (),
        key: str | None = None,
        producer: str | None = None,
    ) -> Transaction:
        required = self._check_all(operations, required_leases)
        producer = check_label("producer", producer)
        batches = self._batches(operations)
        if key is None:
            return await self._run(_Asked(operations, required, batches, producer))
        once = _once(key, operations, required)
        asked = _Asked(operations, required, batches, producer, once)
        # Who asked may go, and come back with the same key: then this must not be half done.
        return await to_the_end(self._run_once(asked, once))

    async def _run_once(self, asked: _Asked, once: IdempotencyKey) -> Transaction:
        # Sent twice at once, the second waits for what becomes of the first.
        async with self._keys.of(once.name):
            if earlier := await self._store.find_outcome(once):
                # It may be so fresh that its sync is under way: an empty change ends after that.
                await self._committer.submit(Change())
                return await self._answer_again(asked, earlier)
            return await self._run(asked)

    async def _run(self, asked: _Asked) -> Transaction:
        batches = asked.batches
        appends: list[Append] = []

        def build(plan: Plan) -> list[Settlement]:
            plan.appends += appends
            for lease_id in asked.required:
                self._settling.extend(plan, lease_id, 0)
            return list(self._settle(plan, asked.operations))

        # Whatever stands against it is found before a queue or a partition is made for it.
        await self._plan(build)
        self._committer.check(sum(batch.weight for batch in batches))
        for batch in batches:
            await self._pushing.check(batch)
        room = Room()
        try:
            for batch in batches:
                queue, prepared = await self._pushing.prepare(batch, asked.producer)
                await self._pushing.take_room(queue, batch, room)
                appends += prepared
        except BaseException:
            room.give_back()
            raise
        outcome, settlements = await self.decide(build, key=asked.once, room=room)
        if isinstance(outcome, Applied) and outcome.repeated:
            return await self._answer_again(asked, outcome)
        return _answer(asked, outcome, batches, settlements)

    async def decide(
        self,
        build: Callable[[Plan], T],
        *,
        key: IdempotencyKey | None = None,
        room: Room | None = None,
    ) -> tuple[Applied | Gone | Reused, T]:
        """Build a change on the present state and commit it; again, if the state has moved."""
        room = room or Room()
        for _ in range(_ATTEMPTS):
            try:
                plan, result = await self._plan(build)
                change = plan.change(key)
            except BaseException:
                room.give_back()
                raise
            room.hold()
            plan.submit()
            outcome = await self._committer.submit(change, partial(_settled, plan, room))
            if isinstance(outcome, Applied | Gone | Reused):
                return outcome, result
        raise Conflict("others keep changing the same partitions; try again")

    async def _plan(self, build: Callable[[Plan], T]) -> tuple[Plan, T]:
        """What ``build`` makes of the present state."""
        plan = Plan()
        try:
            return plan, build(plan)
        except LeaseLost:
            if not self._store.shared:
                raise
        # Another server may have given or extended it.
        await self._following.catch_up()
        plan = Plan()
        return plan, build(plan)

    async def _answer_again(self, asked: _Asked, earlier: Outcome) -> Transaction:
        """The answer of the first time, without the ids that were chosen this time."""
        batches = self._batches(asked.operations)
        if isinstance(earlier, Applied):
            await self._recall_ids(earlier, batches)
        return _answer(asked, earlier, batches, [])

    async def _recall_ids(self, earlier: Applied, batches: Sequence[Batch]) -> None:
        """Find the ids that were chosen for drafts without one, because they are encrypted."""
        appended = iter(earlier.appended)
        for batch in batches:
            for (_, indexes), places in zip(
                batch.by_partition.items(), _some(appended, batch), strict=True
            ):
                for index, offset in zip(indexes, places.offsets, strict=True):
                    if batch.ids[index] is None:
                        batch.ids[index] = await self._reading.chosen_id(places.partition, offset)

    def _batches(self, operations: Sequence[Operation]) -> list[Batch]:
        batches: list[Batch] = []
        for index, operation in enumerate(operations):
            if isinstance(operation, Push):
                try:
                    batches.append(Batch(operation.queue, operation.drafts, self._limits))
                except Invalid as error:
                    raise error.within(f"operations[{index}]") from None
        return batches

    def _settle(self, plan: Plan, operations: Sequence[Operation]) -> Iterator[Settlement]:
        for index, operation in enumerate(operations):
            if isinstance(operation, Ack):
                lease_id = check_lease_id("lease_id", operation.lease_id)
                try:
                    settlement = self._settling.ack(plan, lease_id, operation.verdicts)
                except Invalid as error:
                    raise error.within(f"operations[{index}]") from None
                yield settlement
            elif isinstance(operation, Extend):
                lease_id = check_lease_id("lease_id", operation.lease_id)
                self._settling.extend(plan, lease_id, operation.seconds)
            elif isinstance(operation, Keep):
                plan.entries += operation.updates

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


def _settled(plan: Plan, room: Room) -> None:
    plan.settled()
    room.give_back()


def _answer(
    asked: _Asked, outcome: Outcome, batches: Sequence[Batch], settlements: list[Settlement]
) -> Transaction:
    if isinstance(outcome, Reused) and asked.once:
        raise KeyReused(asked.once.name)
    if not isinstance(outcome, Applied):
        raise QueueNotFound(", ".join(batch.queue for batch in batches))
    appended = iter(outcome.appended)
    return Transaction(
        receipts=[batch.receipts(_some(appended, batch)) for batch in batches],
        settlements=settlements,
        repeated=outcome.repeated,
    )


def _some(appended: Iterator[Appended], batch: Batch) -> list[Appended]:
    return [next(appended) for _ in batch.by_partition]


def _once(key: str, operations: Sequence[Operation], required: Sequence[LeaseId]) -> IdempotencyKey:
    """The key, with a fingerprint of what it stands for."""
    check_transaction_id("idempotency_key", key)
    asked = msgspec.msgpack.encode((operations, required), enc_hook=str.__str__)
    return IdempotencyKey(name=key, fingerprint=hashlib.blake2b(asked, digest_size=16).digest())
