"""Operations that happen at the same time, where any order must have the same end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Self

from tests.fuzz.admin_operations import Clear, GiveUp, can_be_full
from tests.fuzz.message_operations import (
    NOT_FOUND,
    AckByName,
    Pop,
    PushSome,
    Settle,
    Transact,
    draw_drafts,
)
from tests.fuzz.operation import Operation, Plain, World, outcome
from tests.fuzz.stores_under_test import Seat


async def at_once(operations: Sequence[Operation], seat: Seat) -> list[Plain]:
    """The answers to all of them, each asked at the next server."""
    return await asyncio.gather(
        *(outcome(each, seat.next(number)) for number, each in enumerate(operations))
    )


@dataclass(frozen=True)
class ConcurrentOperations(Operation):
    operations: tuple[Operation, ...]

    async def apply(self, seat: Seat) -> Any:
        return await at_once(self.operations, seat)

    def normal(self, answer: Any) -> Plain:
        return sorted(answer, key=repr)


@dataclass(frozen=True)
class AckEach(ConcurrentOperations):
    """Every message of a delivery alone, perhaps while another message is given up.

    Where one of them was settled before, the order matters: so it is a fresh one.
    """

    kind = "ack-each"
    weight = 4

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        held = world.untouched(random)
        if held is None:
            return None
        acks: list[Operation]
        if random.random() < 0.5:
            acks = [AckByName(held.label, (place,), "completed") for place in held.places]
        else:
            acks = [Settle(held.label, ((place, "completed"),)) for place in held.places]
        acks = acks[: random.choice([2, len(acks)])]
        if random.random() < 0.6:
            partition, last = held.places[-1]
            acks.insert(random.randint(0, 1), GiveUp(held.queue, partition, last + 1, held.group))
        return cls(tuple(acks))

    def normal(self, answer: Any) -> Plain:
        """Without which of them was the last, and so released the lease."""
        return sorted(map(_without_release, answer), key=repr)

    def parts(self, expected: Plain, actual: Plain) -> bool:
        return any(NOT_FOUND in repr(one) for one in expected)


def _without_release(answer: Plain) -> Plain:
    """What an ack by name or by offset did, wherever its message is."""
    if answer in (("refused", "LeaseLost", None), (0, 0, None, True), (0, 0, None, False)):
        # It was done before: whether the lease had ended by then depends on the order.
        return "nothing left to do"
    if isinstance(answer, tuple) and answer and isinstance(answer[0], tuple):
        return tuple((success, error, dlq) for success, error, _, _, dlq in answer)
    return answer[:3] if isinstance(answer, tuple) and len(answer) == 4 else answer


@dataclass(frozen=True)
class ClearTwice(ConcurrentOperations):
    kind = "clear-twice"
    weight = 1

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        clear = Clear(random.choice(world.options.queues), None)
        return cls((clear, clear))

    def normal(self, answer: Any) -> Plain:
        removed = [one for one in answer if isinstance(one, int)]
        return sum(removed), sorted(repr(one) for one in answer if not isinstance(one, int))


@dataclass(frozen=True)
class PopTwice(ConcurrentOperations):
    """Two consumers of a group ask for the same partition: one gets it."""

    kind = "pop-twice"

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        options = world.options
        queue, group = random.choice(options.queues), random.choice(options.groups)
        partition, batch = random.choice(options.partitions), random.choice(options.batches)
        pop = Pop(world.label("d"), queue, group, partition, batch, 10, False, "all")
        return cls((pop, pop))

    def learn(self, answer: Plain, world: World) -> None:
        for operation, one in zip(self.operations, answer, strict=True):
            operation.learn(one, world)


@dataclass(frozen=True)
class PushEverywhere(ConcurrentOperations):
    """A push to each partition, unless the queue may be full: then who comes last is refused."""

    kind = "push-everywhere"

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        if can_be_full(world):
            return None
        queue = random.choice(world.options.queues)
        return cls(
            tuple(
                PushSome(queue, tuple(_moved(draw_drafts(random, world), partition)))
                for partition in world.options.partitions
            )
        )

    def learn(self, answer: Plain, world: World) -> None:
        for one in answer:
            self.operations[0].learn(one, world)


@dataclass(frozen=True)
class TransactTwice(ConcurrentOperations):
    """The same transaction with the same key: one does it, the other gets its answer."""

    kind = "transact-twice"
    weight = 1

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        held = world.delivery(random)
        if held is None:
            return None
        queue, drafts = random.choice(world.options.queues), draw_drafts(random, world)
        one = Transact(held.label, None, queue, drafts, world.label("k"))
        return cls((one, one))


def _moved(drafts: Sequence[Any], partition: str) -> list[Any]:
    return [type(one)(one.payload, partition, one.transaction_id) for one in drafts]


OPERATIONS = (AckEach, ClearTwice, PopTwice, PushEverywhere, TransactTwice)
