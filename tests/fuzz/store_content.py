"""Everything that can be seen of a store, without what may differ between stores."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Self

from skep.model.dead_letter import FailedMessage
from skep.model.segment import DELETED, ENCRYPTED
from skep.store.protocol import Store
from tests.fuzz.operation import Operation, Plain, World, outcome, plain_message
from tests.fuzz.stores_under_test import Seat
from tests.support.faults.traffic import PlainClient

PAGE = 1000
BY_HAND = "by hand"


async def configuration(client: PlainClient, queue: str) -> Plain:
    return (await client.queues.get(queue)).options


async def counts(client: PlainClient, queue: str) -> Plain:
    stats = await client.queues.stats(queue)
    return stats.messages, stats.pushed, stats.depth, stats.groups, stats.dead_letters


async def partitions(client: PlainClient, queue: str) -> Plain:
    found = await client.queues.partitions(queue)
    return sorted((one.name, one.start, one.end, one.newest_at) for one in found)


async def cursors(client: PlainClient, queue: str) -> Plain:
    """Where each group is in each partition, and what it holds there."""
    return [
        (
            group.group,
            lag.partition,
            lag.cursor,
            lag.end,
            lag.backlog,
            lag.leased,
            lag.lease_expires_at,
            lag.attempt,
            lag.messages_consumed,
        )
        for group in sorted(await client.groups.list(queue), key=lambda group: group.group)
        for lag in sorted(
            await client.groups.lag(queue, group.group), key=lambda lag: lag.partition
        )
    ]


async def messages(client: PlainClient, queue: str) -> Plain:
    """All that is kept, byte for byte."""
    return [
        plain_message(message)
        for partition in sorted(one.name for one in await client.queues.partitions(queue))
        for message in (await client.messages.list(queue, partition=partition, limit=PAGE)).messages
    ]


async def letters(client: PlainClient, queue: str) -> Plain:
    found = await client.dead_letters.list(queue, limit=PAGE)
    return sorted(
        (one.group, one.partition, one.offset, one.payload, one.error, _attempts(one))
        for one in found
    )


def _attempts(letter: FailedMessage) -> int:
    """What was given up beside acks was so before or after the run it lies behind had ended."""
    return 0 if letter.error == BY_HAND else letter.attempts


ASPECTS: tuple[Callable[[PlainClient, str], Awaitable[Plain]], ...] = (
    configuration,
    counts,
    partitions,
    cursors,
    messages,
    letters,
)
_BY_NAME = {aspect.__name__: aspect for aspect in ASPECTS}
STORED = "encrypted"
"""An aspect that no server shows: whether what is stored can be read by who has the disk."""


@dataclass(frozen=True)
class Look(Operation):
    """Read one aspect of a queue."""

    kind = "look"
    weight = 4

    queue: str
    aspect: str

    @property
    def name(self) -> str:
        return f"{self.kind}.{self.aspect}"

    @classmethod
    def draw(cls, random: Random, world: World) -> Self:
        return cls(random.choice(world.options.queues), random.choice([*_BY_NAME, STORED]))

    async def apply(self, seat: Seat) -> Any:
        if self.aspect == STORED:
            return await encrypted(seat.server.broker._store, self.queue)
        return await _BY_NAME[self.aspect](seat.client, self.queue)


async def content(seat: Seat, queues: Sequence[str]) -> dict[str, Plain]:
    """All aspects of all queues as one server shows them, and how they are stored."""
    return {
        f"{queue}.{aspect}": await outcome(Look(queue, aspect), seat)
        for queue in queues
        for aspect in (*_BY_NAME, STORED)
    }


async def encrypted(store: Store, name: str) -> Plain:
    """Which of the stored messages are encrypted; nobody who reads them can see that."""
    found = [
        (partition.name, segment.start + index)
        for queue in await store.queues()
        if queue.name == name
        for partition in await store.partitions(queue.number)
        for segment in await store.read(
            partition.number, partition.start, messages=PAGE, size=1 << 30
        )
        for index, flags in enumerate(segment.columns.flags or b"")
        if flags & ENCRYPTED and not flags & DELETED and segment.start + index >= partition.start
    ]
    return sorted(found)


OPERATIONS = (Look,)
