"""Clients of real servers that hop between them, each doing one thing over and over."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random

from skep import Delivery
from skep.model.message import Receipt
from tests.fuzz.load_options import LoadOptions
from tests.support.faults.history import Recorder
from tests.support.faults.recording_clients import Consumer, Copier, Hopping, Producer

PAUSE = 0.01
COPIER, SEEKER = "copier", "seeker"
LATEST = 50
"""Messages of which one may be given up."""


class Actors:
    """Everybody who uses the servers, until told to come to an end."""

    def __init__(self, queue: Hopping, recorder: Recorder, options: LoadOptions, seed: str) -> None:
        self._queue = queue
        self._recorder = recorder
        self._options = options
        self._seed = seed
        self._pushed: deque[Receipt] = deque(maxlen=LATEST)
        self.producing = True
        self.finishing = False

    def consumers(self) -> list[Awaitable[None]]:
        options = self._options
        work: list[Awaitable[None]] = [
            self._consume(group, number)
            for group in options.groups
            for number in range(options.consumers)
        ]
        work.append(self._copy())
        if options.seeks:
            work += [self._consume(SEEKER, 0), self._seek()]
        return work

    def producers(self) -> list[Awaitable[None]]:
        options = self._options
        work: list[Awaitable[None]] = [self._produce(n) for n in range(options.producers)]
        if options.give_ups:
            work.append(self._give_up())
        return work

    async def _produce(self, number: int) -> None:
        name = f"producer{number}"
        random = self._random(name)
        producer = Producer(self._queue, self._recorder, random)
        count = 0
        while self.producing:
            size = random.choice(self._options.batches)
            values = [f"{name}-{count + n}" for n in range(size)]
            ids = random.random() < self._options.chosen_ids
            partition = random.choice(self._options.partitions)
            while not await producer.push(name, partition, values, ids=ids) and ids:  # noqa: ASYNC110
                await asyncio.sleep(PAUSE)
            self._pushed.extend(producer.receipts)
            count += size
            await asyncio.sleep(random.random() * 5 * PAUSE)

    async def _consume(self, group: str, number: int) -> None:
        random = self._random(f"{group}{number}")
        consumer = Consumer(self._queue, self._recorder, random, group, self._options.lease_seconds)

        async def settle(delivery: Delivery) -> None:
            way = "all" if self.finishing else random.choice(self._options.ways)
            await self._settle(consumer, random, delivery, way)

        await self._pop_for_ever(consumer, random, settle)

    async def _settle(
        self, consumer: Consumer, random: Random, delivery: Delivery, way: str
    ) -> None:
        messages = random.sample(delivery.messages, len(delivery.messages))
        half = messages[: len(messages) // 2]
        if way == "each":
            await asyncio.gather(*(consumer.complete(delivery, [m]) for m in messages))
        elif way == "each by name":
            await asyncio.gather(*(consumer.complete_by_name(delivery, [m]) for m in messages))
        elif way == "batch by name":
            await consumer.complete_by_name(delivery, messages)
        elif way == "some":
            await asyncio.gather(*(consumer.complete(delivery, [m]) for m in half))
        elif way == "fail":
            await consumer.fail(delivery, messages[:1], messages[1:])
        elif way == "extend":
            await consumer.extend(delivery)
            await consumer.complete_all(delivery)
        else:
            await consumer.complete_all(delivery)

    async def _copy(self) -> None:
        random = self._random(COPIER)
        copier = Copier(self._queue, self._recorder, random, COPIER, self._options.lease_seconds)

        async def copy(delivery: Delivery) -> None:
            asked = copier.copying(delivery)
            await copier.transact(asked)
            while copier.in_doubt:
                await asyncio.sleep(PAUSE)
                await copier.transact(asked)
            if random.random() < 0.2:
                await copier.transact(asked)

        await self._pop_for_ever(copier, random, copy)

    async def _give_up(self) -> None:
        """Give up messages that were pushed a moment ago, for one of the groups."""
        random = self._random("give up")
        while self.producing:
            await asyncio.sleep(random.random() * 3 * PAUSE)
            if self._pushed:
                pushed = random.choice(self._pushed)
                group = random.choice(self._options.groups)
                consumer = Consumer(self._queue, self._recorder, random, group)
                await consumer.give_up(pushed.id, (pushed.partition, pushed.offset))

    async def _seek(self) -> None:
        random = self._random("seek")
        consumer = Consumer(self._queue, self._recorder, random, SEEKER)
        while self.producing:
            await asyncio.sleep(random.random() * 100 * PAUSE)
            await consumer.seek(random.choice(["beginning", "beginning", "end"]))

    async def _pop_for_ever(
        self, consumer: Consumer, random: Random, settle: Callable[[Delivery], Awaitable[None]]
    ) -> None:
        while True:
            batch = random.choice([*self._options.batches, 30])
            delivery = await consumer.pop(batch=batch, partitions=random.choice([1, 1, 3]))
            if delivery:
                await settle(delivery)
            await asyncio.sleep(PAUSE * (1 if delivery else 5))

    def _random(self, name: str) -> Random:
        return Random(f"{self._seed}-{name}")
