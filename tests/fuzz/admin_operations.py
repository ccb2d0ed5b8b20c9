"""Operations on queues, groups, single messages and dead letters, and faults."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any, Self

from skep.model.address import message_id
from tests.fuzz.operation import Fault, Operation, Plain, Skipped, World, plain_receipts
from tests.fuzz.stores_under_test import Seat, StoreUnderTest

PATIENCE = 5.0
"""Seconds of real time after which something will never happen."""
PAGE = 1000


def can_be_full(world: World) -> bool:
    """Whether queues have a limit; what was kept aside for one would wait for real time.

    Encrypted queues have none, so that a limit that is not kept does not hide what is stored.
    """
    kinds = world.options.kinds
    limited = Configure.kind in kinds and Maintain.kind not in kinds
    return limited and not world.options.encryption


@dataclass(frozen=True)
class Configure(Operation):
    kind = "configure"
    weight = 3

    queue: str
    options: tuple[tuple[str, Any], ...]

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        can_encrypt = world.options.encryption and Maintain.kind not in world.options.kinds
        options: dict[str, Any] = {
            "lease_time": random.choice(world.options.lease_seconds),
            "retry_limit": random.choice([0, 1, 3]),
            "retry_delay": random.choice([0, 1000]),
            "max_size": random.choice([0, 0, 5, 40]) if can_be_full(world) else 0,
            "delayed_processing": random.choice([0, 0, 0, 2]),
            "encryption_enabled": can_encrypt and random.random() < 0.5,
        }
        if world.options.retention:
            options |= {
                "retention_enabled": True,
                "retention_seconds": random.choice([0, 60, 900]),
                "completed_retention_seconds": random.choice([0, 20]),
            }
        return cls(random.choice(world.options.queues), tuple(options.items()))

    async def apply(self, seat: Seat) -> Any:
        return (await seat.client.queues.configure(self.queue, **dict(self.options))).options


@dataclass(frozen=True)
class DeleteQueue(Operation):
    kind = "delete-queue"
    weight = 1

    queue: str

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        return cls(random.choice(world.options.queues))

    async def apply(self, seat: Seat) -> Any:
        await seat.client.queues.delete(self.queue)

    def learn(self, answer: Plain, world: World) -> None:
        for place in [place for place in world.pushed if place[0] == self.queue]:
            del world.pushed[place]


@dataclass(frozen=True)
class Clear(Operation):
    kind = "clear"

    queue: str
    partition: str | None

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        options = world.options
        return cls(random.choice(options.queues), random.choice([None, *options.partitions]))

    async def apply(self, seat: Seat) -> Any:
        return await seat.client.queues.clear(self.queue, partition=self.partition)


@dataclass(frozen=True)
class Seek(Operation):
    kind = "seek"

    queue: str
    group: str
    partition: str | None
    to: Any

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        options = world.options
        return cls(
            random.choice(options.queues),
            random.choice(options.groups),
            random.choice([None, *options.partitions]),
            random.choice(["beginning", "end", 0, 1, 2, 5]),
        )

    async def apply(self, seat: Seat) -> Any:
        return await seat.client.groups.seek(
            self.queue, self.group, self.to, partition=self.partition
        )


@dataclass(frozen=True)
class DeleteGroup(Operation):
    kind = "delete-group"
    weight = 1

    queue: str
    group: str

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        return cls(random.choice(world.options.queues), random.choice(world.options.groups))

    async def apply(self, seat: Seat) -> Any:
        await seat.client.groups.delete(self.queue, self.group)


@dataclass(frozen=True)
class _OneMessage(Operation):
    queue: str
    partition: str
    offset: int

    @classmethod
    def _where(cls, random: Random, world: World) -> tuple[str, str, int] | None:
        if not world.pushed:
            return None
        (queue, partition), end = random.choice(sorted(world.pushed.items()))
        return queue, partition, random.randrange(end)

    async def number(self, seat: Seat) -> int:
        """The number of the partition, as the store knows it and not as this server does."""
        store = seat.server.broker._store
        for queue in await store.queues():
            if queue.name == self.queue:
                for partition in await store.partitions(queue.number):
                    if partition.name == self.partition:
                        return partition.number
        raise Skipped


@dataclass(frozen=True)
class DeleteMessage(_OneMessage):
    kind = "delete-message"
    weight = 1

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        where = cls._where(random, world)
        return cls(*where) if where else None

    async def apply(self, seat: Seat) -> Any:
        await seat.client.messages.delete(message_id(await self.number(seat), self.offset))


@dataclass(frozen=True)
class GiveUp(_OneMessage):
    kind = "give-up"
    weight = 3

    group: str | None

    @classmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        where = cls._where(random, world)
        return cls(*where, random.choice([None, *world.options.groups])) if where else None

    async def apply(self, seat: Seat) -> Any:
        place = message_id(await self.number(seat), self.offset)
        return await seat.client.messages.give_up(place, group=self.group, error="by hand")

    def normal(self, answer: Any) -> Plain:
        return tuple(sorted(answer))


@dataclass(frozen=True)
class Replay(Operation):
    """All dead letters of a group go back, or are thrown away."""

    kind = "dead-letters"
    weight = 1

    queue: str
    group: str
    deletes: bool

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        options = world.options
        return cls(
            random.choice(options.queues), random.choice(options.groups), random.random() < 0.3
        )

    async def apply(self, seat: Seat) -> Any:
        letters = seat.client.dead_letters
        if self.deletes:
            return await letters.delete_all(self.queue, group=self.group)
        # In the order of places: that of their numbers depends on which commit came first.
        found = await letters.list(self.queue, group=self.group, limit=PAGE)
        numbers = [one.number for one in sorted(found, key=lambda one: (one.partition, one.offset))]
        return plain_receipts(await letters.replay(self.queue, numbers)) if numbers else ()


@dataclass(frozen=True)
class Maintain(Operation):
    """Begin or end to keep pushes aside; at the end, until all of them are delivered."""

    kind = "maintenance"
    weight = 1

    on: bool

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        return cls(random.random() < 0.4)

    async def apply(self, seat: Seat) -> Any:
        state = await seat.client.maintenance.set_pushing(self.on)
        if not self.on:
            async with asyncio.timeout(PATIENCE):
                while seat.server.broker.maintenance.buffers:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.001)
        return state.pushing


@dataclass(frozen=True)
class Sweep(Operation):
    kind = "sweep"

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        return cls()

    async def apply(self, seat: Seat) -> Any:
        return await seat.server.broker.sweep()


@dataclass(frozen=True)
class Wait(Fault):
    """Time passes."""

    kind = "wait"
    weight = 4

    seconds: float

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        return cls(random.choice([0.5, 1, 1.3, 5, 11, 31, 61, 301, 1000]))

    def strike(self, place: StoreUnderTest, server: int) -> None:
        place.clock.advance(self.seconds)


@dataclass(frozen=True)
class Restart(Fault):
    """A server ends, in order or as a crash does, and comes back."""

    kind = "restart"
    weight = 1

    crash: bool

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        return cls(random.random() < 0.7)

    def strike(self, place: StoreUnderTest, server: int) -> None:
        place.restart(server, crash=self.crash)


OPERATIONS = (
    Configure,
    DeleteQueue,
    Clear,
    Seek,
    DeleteGroup,
    DeleteMessage,
    GiveUp,
    Replay,
    Maintain,
    Sweep,
    Wait,
    Restart,
)
