"""Operations on messages: push, pop, settle, extend, transact."""

from dataclasses import dataclass
from random import Random
from typing import Any, Self

from skep import Ack, Draft, Push, Verdict
from skep.client.request import post
from skep.model.address import partition_id
from skep.model.operation import Operation as Part, Status
from skep.wire.message.ack import WIRE_STATUS, AckBatchBody, AckBody, Acked, AckItem
from skep.wire.message.push import from_drafts
from skep.wire.message.transaction import (
    AckOperation,
    PushOperation,
    TransactionBody,
    TransactionResponse,
    WireOperation,
)
from skep.wire.paths import API, TRANSACTION
from skep.wire.problem import from_problem
from tests.fuzz.operation import (
    Held,
    Operation,
    Plain,
    World,
    delivery_of,
    is_refused,
    messages_at,
    plain_delivery,
    plain_receipts,
    plain_settlement,
)
from tests.fuzz.stores_under_test import Seat

PAYLOADS = (b"{}", b'{"n":1.10}', b'"\\u0000"', b"[18446744073709551616]", b"\xff\x00\xfe", b"")
EVERYTHING = 1000
NOT_FOUND = "Message not found"


@dataclass(frozen=True)
class PushSome(Operation):
    kind = "push"
    weight = 6

    queue: str
    drafts: tuple[Draft, ...]

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        return cls(random.choice(world.options.queues), draw_drafts(random, world))

    async def apply(self, seat: Seat) -> Any:
        return await seat.client.push(self.queue, self.drafts)

    def normal(self, answer: Any) -> Plain:
        return plain_receipts(answer)

    def learn(self, answer: Plain, world: World) -> None:
        if not is_refused(answer):
            for partition, offset, _ in answer:
                # What is kept aside during maintenance has no offset yet.
                if offset >= 0:
                    place = self.queue, partition
                    world.pushed[place] = max(offset + 1, world.pushed.get(place, 0))


def draw_drafts(random: Random, world: World) -> tuple[Draft, ...]:
    options = world.options
    size = random.choice(options.batches)

    def chosen() -> str | None:
        # Few ids, so that some are used twice.
        if random.random() >= options.chosen_ids:
            return None
        return random.choice([f"t{random.randint(0, 9)}", world.label("u")])

    def payload() -> bytes:
        return random.choice([*PAYLOADS, b'"%d"' % world.drawn])

    one = random.choice(options.partitions)
    spread = random.random() < 0.3
    return tuple(
        Draft(payload(), random.choice(options.partitions) if spread else one, chosen())
        for _ in range(size)
    )


@dataclass(frozen=True)
class Pop(Operation):
    """From one partition, or everything there is: which of several is served is left open."""

    kind = "pop"
    weight = 6

    label: str
    queue: str
    group: str
    partition: str | None
    batch: int
    lease_seconds: int | None
    auto_ack: bool
    mode: str

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        options = world.options
        partition = random.choice([None, *options.partitions])
        return cls(
            world.label("d"),
            random.choice(options.queues),
            random.choice(options.groups),
            partition,
            random.choice([2, *options.batches]) if partition else EVERYTHING,
            random.choice([None, *options.lease_seconds]),
            random.random() < 0.1,
            "new" if random.random() < 0.05 else "all",
        )

    async def apply(self, seat: Seat) -> Any:
        delivery = await seat.client.pop(
            self.queue,
            group=self.group,
            partition=self.partition,
            batch=self.batch,
            partitions=1 if self.partition else 100,
            lease_seconds=self.lease_seconds,
            auto_ack=self.auto_ack,
            subscription_mode=self.mode,
        )
        if delivery and delivery.lease_id:
            seat.book.deliveries[self.label] = delivery
        return delivery

    def normal(self, answer: Any) -> Plain:
        return plain_delivery(answer)

    def difference(self, expected: Plain, actual: Plain) -> str:
        found = super().difference(expected, actual)
        if found == "answer" and {*actual[-1]} < {*expected[-1]}:
            return "shorter"
        return found

    def learn(self, answer: Plain, world: World) -> None:
        if answer and not is_refused(answer) and not self.auto_ack:
            places = tuple((message[0], message[1]) for message in answer[-1])
            world.deliveries.append(Held(self.label, self.queue, self.group, places))


@dataclass(frozen=True)
class AckAll(Operation):
    kind = "ack-all"

    label: str
    status: Status

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        held = world.delivery(random)
        return cls(held.label, world.verdict(random, held.label)) if held else None

    async def apply(self, seat: Seat) -> Any:
        return await seat.client.settle_all(
            delivery_of(seat, self.label), self.status, error="boom"
        )

    def normal(self, answer: Any) -> Plain:
        return plain_settlement(answer)

    def parts(self, expected: Plain, actual: Plain) -> bool:
        return counts_removed(expected, actual)


@dataclass(frozen=True)
class Settle(Operation):
    """A verdict on each of some messages, by offset."""

    kind = "settle"
    weight = 3

    label: str
    verdicts: tuple[tuple[tuple[str, int], Status], ...]

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        held = world.delivery(random)
        if held is None:
            return None
        alike = random.random() < 0.6
        status = world.verdict(random, held.label)
        some = [
            (place, status if alike else world.verdict(random, held.label))
            for place in world.some(random, held)
        ]
        return cls(held.label, tuple(some))

    @property
    def completed(self) -> set[tuple[str, int]]:
        return {place for place, status in self.verdicts if status == "completed"}

    async def apply(self, seat: Seat) -> Any:
        delivery = delivery_of(seat, self.label)
        messages = messages_at(delivery, [place for place, _ in self.verdicts])
        return await seat.client.settle(
            delivery,
            [
                Verdict(message.partition_number, message.offset, status, "boom")
                for message, (_, status) in zip(messages, self.verdicts, strict=True)
            ],
        )

    def normal(self, answer: Any) -> Plain:
        return plain_settlement(answer)

    def parts(self, expected: Plain, actual: Plain) -> bool:
        return counts_removed(expected, actual)


@dataclass(frozen=True)
class AckByName(Operation):
    """``/ack`` and ``/ack/batch``, which name messages by transaction id."""

    kind = "ack"
    weight = 3

    label: str
    places: tuple[tuple[str, int], ...]
    status: Status

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        held = world.delivery(random)
        if held is None:
            return None
        return cls(held.label, world.some(random, held), world.verdict(random, held.label))

    async def apply(self, seat: Seat) -> Any:
        delivery = delivery_of(seat, self.label)
        items = [
            AckItem(
                transaction_id=message.transaction_id,
                partition_id=partition_id(message.partition_number),
                status=WIRE_STATUS[self.status],
                error="boom",
                lease_id=delivery.lease_id,
            )
            for message in messages_at(delivery, self.places)
        ]
        body: AckBody | AckBatchBody = AckBatchBody(acknowledgments=items)
        if len(items) == 1:
            body = AckBody(**{name: getattr(items[0], name) for name in AckItem.__struct_fields__})
        path = f"{API}/ack" if len(items) == 1 else f"{API}/ack/batch"
        answer = await seat.client.connection.send(post(path, body, repeatable=False))
        return answer.decode(list[Acked])

    def normal(self, answer: Any) -> Plain:
        return tuple(
            (one.success, one.error, one.partition_name, one.lease_released, one.dlq)
            for one in answer
        )

    def parts(self, expected: Plain, actual: Plain) -> bool:
        """A server that has not heard that a message was removed may take the ack of it."""
        return not is_refused(expected) and any(one[:2] == (False, NOT_FOUND) for one in expected)


@dataclass(frozen=True)
class ExtendLease(Operation):
    kind = "extend"

    label: str
    seconds: int

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        held = world.delivery(random)
        return cls(held.label, random.choice([1, 20, 500])) if held else None

    async def apply(self, seat: Seat) -> Any:
        return await seat.client.extend(delivery_of(seat, self.label), self.seconds)


@dataclass(frozen=True)
class Transact(Operation):
    """Acknowledge and push together; with a key it may come again."""

    kind = "transact"
    weight = 3
    alike = frozenset({"LeaseLost", "MessageNotFound", "InMaintenance"})

    label: str | None
    places: tuple[tuple[str, int], ...] | None
    queue: str
    drafts: tuple[Draft, ...]
    key: str | None

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        known = [one for one in world.keyed if type(one) is cls]
        if known and random.random() < 0.5:
            return random.choice(known)
        held = world.delivery(random) if random.random() < 0.8 else None
        return cls(
            held.label if held else None,
            world.some(random, held) if held and random.random() < 0.5 else None,
            random.choice(world.options.queues),
            draw_drafts(random, world),
            world.label("k") if random.random() < 0.7 else None,
        )

    async def apply(self, seat: Seat) -> Any:
        parts: list[Part] = [Push(self.queue, self.drafts)]
        if self.label:
            delivery = delivery_of(seat, self.label)
            verdicts = None
            if self.places:
                messages = messages_at(delivery, self.places)
                verdicts = [Verdict(m.partition_number, m.offset) for m in messages]
            parts.insert(0, Ack(str(delivery.lease_id), verdicts))
        return await seat.client.transact(parts, idempotency_key=self.key)

    def parts(self, expected: Plain, actual: Plain) -> bool:
        if is_refused(expected) or is_refused(actual) or "skipped" in (expected, actual):
            return False
        pairs = zip(expected[1], actual[1], strict=True)
        return any(counts_removed(one, other) for one, other in pairs)

    def normal(self, answer: Any) -> Plain:
        receipts = tuple(map(plain_receipts, answer.receipts))
        return receipts, tuple(map(plain_settlement, answer.settlements)), answer.repeated

    def learn(self, answer: Plain, world: World) -> None:
        if self.key and not is_refused(answer) and answer != "skipped":
            world.keyed.append(self)


@dataclass(frozen=True)
class TransactByName(Transact):
    """The same with messages named by transaction id, as Queen's clients do."""

    kind = "transact-by-name"

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        found = super().draw(random, world)
        return found if found and found.places else None

    async def apply(self, seat: Seat) -> Any:
        delivery = delivery_of(seat, self.label or "")
        acks: list[WireOperation] = [
            AckOperation(
                transaction_id=message.transaction_id,
                partition_id=partition_id(message.partition_number),
                lease_id=delivery.lease_id,
            )
            for message in messages_at(delivery, self.places or ())
        ]
        push = PushOperation(items=from_drafts(self.queue, self.drafts))
        body = TransactionBody(operations=[*acks, push], idempotency_key=self.key)
        answer = await seat.client.connection.send(post(TRANSACTION, body, repeatable=False))
        done = answer.decode(TransactionResponse)
        if done.problem is not None:
            raise from_problem(done.problem)
        return done

    def normal(self, answer: Any) -> Plain:
        results = tuple((one.type, one.success, one.offset, one.status) for one in answer.results)
        return results[-len(self.drafts) :], results[: -len(self.drafts)], answer.repeated


def counts_removed(expected: Plain, actual: Plain) -> bool:
    """Whether an ack completed messages whose removal its server had not heard of."""
    if is_refused(expected) or is_refused(actual) or "skipped" in (expected, actual):
        return False
    return isinstance(actual[0], int) and bool(actual[0] > expected[0])


OPERATIONS = (PushSome, Pop, AckAll, Settle, AckByName, ExtendLease, Transact, TransactByName)
