"""Short words for what the tests of the broker are made of."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from skep import Broker, Delivery, Draft, KeyRing, Limits, Message, Settlement
from skep.model.dead_letter import FailedMessage
from skep.model.name import DEFAULT_PARTITION, QUEUE_MODE, Offset, to_datetime
from skep.model.pipeline import PipelineRun
from skep.store.protocol import Store
from skep.testing.clock import ManualClock

T = TypeVar("T")
TURNS = 50
"""Turns of the event loop that are enough for whatever does not wait for a disk."""
PATIENCE = 30
"""Seconds after which a test takes it that something will never end."""


@dataclass(frozen=True, eq=False)
class Settled:
    """Equal to a settlement with these numbers, whichever messages they count."""

    completed: int = 0
    dead_letters: int = 0
    retry_at: datetime | None = None
    released: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settlement) and (
            (self.completed, self.dead_letters, self.retry_at, self.released)
            == (other.completed, other.dead_letters, other.retry_at, other.released)
        )

    __hash__ = None  # type: ignore[assignment]


def make_broker(
    store: Store, *, keys: KeyRing | None = None, limits: Limits | None = None
) -> Broker:
    """A broker that does nothing by itself and has the same luck in every test."""
    return Broker(store, keys=keys, limits=limits, sweep_interval=None, random=Random(1))


def drafts(n: int, partition: str = DEFAULT_PARTITION, *, first: int = 0) -> list[Draft]:
    """Messages whose payloads are numbers, from ``first`` on."""
    return [Draft(b"%d" % number, partition) for number in range(first, first + n)]


def a_run(identity: str = "archive-1", **fields: Any) -> PipelineRun:
    """A run of a pipeline, as its host tells of it."""
    told = {"pipeline": "archive", "queues": ("orders",), "state": "running", "host": "mill"}
    began = {"started_at": datetime(2030, 1, 1, tzinfo=UTC)}
    return PipelineRun(id=identity, **{**told, **began, **fields})


async def pop(queue: Broker, name: str = "orders", **asked: Any) -> Delivery:
    """A pop that must deliver something."""
    delivery = await queue.pop(name, **asked)
    assert delivery is not None
    return delivery


async def pop_all(queue: Broker, name: str = "orders", **asked: Any) -> list[bytes]:
    """Pop and acknowledge until there is nothing more; the payloads in order."""
    found: list[bytes] = []
    while delivery := await queue.pop(name, **asked):
        found += payloads(delivery)
        await queue.ack(delivery)
    return found


def payloads(delivery: Delivery | None) -> list[bytes]:
    return [message.payload for message in delivery.messages] if delivery else []


def offsets(delivery: Delivery | None) -> list[Offset]:
    return [message.offset for message in delivery.messages] if delivery else []


def places(delivery: Delivery | None) -> list[tuple[str, Offset]]:
    """The partition and offset of each message."""
    return [(m.partition, m.offset) for m in delivery.messages] if delivery else []


def partitions(delivery: Delivery | None) -> list[str]:
    """The partitions of a delivery, in the order in which they come."""
    return list(dict.fromkeys(m.partition for m in delivery.messages)) if delivery else []


def of(delivery: Delivery, *partitions: str) -> list[Message]:
    """The messages of a delivery that come from these partitions."""
    return [message for message in delivery.messages if message.partition in partitions]


def lease_of(delivery: Delivery) -> str:
    assert delivery.lease_id is not None
    return delivery.lease_id


async def cursors(
    queue: Broker, name: str = "orders", group: str = QUEUE_MODE
) -> dict[str, Offset]:
    """A group's cursor in each partition."""
    return {lag.partition: lag.cursor for lag in await queue.groups.lag(name, group)}


async def backlogs(queue: Broker, name: str = "orders", group: str = QUEUE_MODE) -> dict[str, int]:
    """What a group still has to do in each partition."""
    return {lag.partition: lag.backlog for lag in await queue.groups.lag(name, group)}


async def letters(queue: Broker, name: str = "orders") -> list[FailedMessage]:
    """The dead letters of a queue in the order of their messages."""
    found = await queue.dead_letters.list(name)
    return sorted(found, key=lambda letter: (letter.partition, letter.offset, letter.group))


async def dead(queue: Broker, name: str = "orders") -> list[bytes]:
    """The payloads of the dead letters of a queue, in the order of their messages."""
    return [letter.payload for letter in await letters(queue, name)]


def moment(clock: ManualClock, seconds: float = 0) -> datetime:
    """The time, or a time so many seconds from it."""
    return to_datetime(clock.now()) + timedelta(seconds=seconds)


async def turn() -> None:
    """Let everybody go on who can."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Let everybody go on until something is so that must come about by itself."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await turn()


async def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin something, and let it go on until it waits."""
    task = asyncio.create_task(work)
    await turn()
    return task


async def finish(task: asyncio.Task[T]) -> T:
    """The result of something that must come to its end by itself."""
    return await asyncio.wait_for(task, PATIENCE)


async def long_poll(
    queue: Broker, name: str | None = "orders", *, wait: float = 30, **asked: Any
) -> asyncio.Task[Delivery | None]:
    """A pop that found nothing and waits.

    It is tried without waiting first: so the group is known to the store, and the second pop
    waits for nothing but messages.
    """
    assert await queue.pop(name, **asked) is None
    task = await start(queue.pop(name, wait=wait, **asked))
    assert not task.done()
    return task
