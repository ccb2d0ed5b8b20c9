"""A process under load: ``python -m tests.support.faults.worker_process STORE HISTORIES MODE``.

In the mode ``run`` it works until it is killed. In the mode ``finish`` it repeats what was left
without an answer, works off what waits, reads everything once more, and ends. It learns from the
histories of the processes before it how far they were; its own is a new file beside theirs.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import skep
from skep import Broker, Delivery
from tests.support.faults.history import (
    Invocation,
    Operation,
    Recorder,
    Return,
    Seen,
    digest_of,
    read,
    value_of,
)
from tests.support.faults.recording_clients import (
    LEASE_SECONDS,
    SOURCE,
    TARGET,
    Consumer,
    Copier,
    Producer,
    audit,
)

PARTITIONS = [f"p{n}" for n in range(20)]
PRODUCERS = [f"producer{n}" for n in range(4)]
RETRY_LIMIT = 2
COPIER, CAREFUL, CLUMSY = "copier", "careful", "clumsy"
CLUMSY_BATCH = 5
DRAIN_SECONDS = 60
ENOUGH = 5000
"""Messages that wait for groups before the producers pause, so that there is an end."""


class Run:
    def __init__(
        self, broker: Broker, recorder: Recorder, past: Sequence[Operation], seed: int
    ) -> None:
        self._broker = broker
        self._recorder = recorder
        self._past = past
        self._seed = seed
        self.finishing = False

    def tasks(self) -> list[asyncio.Task[None]]:
        work = [
            *(self._produce(n, name) for n, name in enumerate(PRODUCERS)),
            *(self._consume_carefully(n) for n in range(3)),
            *(self._consume_clumsily(n) for n in range(2)),
            *(self._copy(n) for n in range(2)),
        ]
        return [asyncio.create_task(one) for one in work]

    # What each of them does, for ever.

    async def _produce(self, number: int, name: str) -> None:
        """The even ones choose ids, so they can repeat what was not answered."""
        ids, random = number % 2 == 0, Random(f"{self._seed}{name}")
        producer = Producer(self._broker, self._recorder, random)
        mine = [operation for operation in self._past if operation.asked.client == name]
        if ids and mine and not mine[-1].answer:
            lost = mine[-1].asked.sent
            await producer.push(name, lost[0].partition, [one.value for one in lost], ids=True)
        n = 1 + max((_number(op.asked.sent[-1].value) for op in mine), default=-1)
        while not self.finishing:
            size = random.choice([1, 1, 1, 10, 10, 60])
            values = [f"{name}-{n + index}" for index in range(size)]
            partition = random.choice(PARTITIONS)
            done = await producer.push(name, partition, values, ids=ids)
            if done and ids and random.random() < 0.1:
                await producer.push(name, partition, values, ids=True)
            n += size
            while await self._backlog() > ENOUGH:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.01)

    async def _consume_carefully(self, number: int) -> None:
        """All or some at a time, in any order, now and then in part only, or too late."""
        random = Random(f"{self._seed}{CAREFUL}{number}")
        consumer = Consumer(self._broker, self._recorder, random, CAREFUL)
        while True:
            delivery = await consumer.pop(
                batch=random.choice([1, 10, 100]), partitions=random.choice([1, 1, 3]), wait=0.05
            )
            if not delivery:
                continue
            if random.random() < 0.01:
                await asyncio.sleep(LEASE_SECONDS * 1.1)
            if random.random() < 0.4:
                await consumer.complete_all(delivery)
                continue
            messages = random.sample(delivery.messages, len(delivery.messages))
            half = (len(messages) + 1) // 2
            rest = messages[half:] if self.finishing or random.random() < 0.9 else []
            first = consumer.complete(delivery, messages[:half])
            await asyncio.gather(first, *([consumer.complete(delivery, rest)] if rest else []))

    async def _consume_clumsily(self, number: int) -> None:
        """Fails as a whole, and in part; always with the same batch."""
        random = Random(f"{self._seed}{CLUMSY}{number}")
        consumer = Consumer(self._broker, self._recorder, random, CLUMSY)
        while True:
            delivery = await consumer.pop(batch=CLUMSY_BATCH, wait=0.05)
            if delivery:
                await _stumble(consumer, delivery, random)

    async def _copy(self, number: int) -> None:
        random = Random(f"{self._seed}{COPIER}{number}")
        copier = Copier(self._broker, self._recorder, random, COPIER)
        for asked in self._lost_transactions()[number::2]:
            await copier.transact(asked)
        while True:
            delivery = await copier.pop(batch=random.choice([1, 5, 30]), wait=0.05)
            if delivery:
                await copier.copy(delivery)
                if random.random() < 0.1:
                    await copier.copy(delivery)

    def _lost_transactions(self) -> list[Invocation]:
        return [op.asked for op in self._past if op.asked.does == "transact" and not op.answer]

    # The end.

    async def drain(self) -> None:
        """Until every group is done with everything."""
        async with asyncio.timeout(DRAIN_SECONDS):
            while await self._backlog():  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.02)

    async def _backlog(self) -> int:
        return sum(lag.backlog for lag in await self._broker.groups.list(SOURCE))

    async def audit(self) -> None:
        for queue in (SOURCE, TARGET):
            await audit(self._broker, self._recorder, queue)
        for group in (CAREFUL, CLUMSY, COPIER):
            await self._read_letters(group)

    async def _read_letters(self, group: str) -> None:
        asked = self._recorder.invoke(Invocation(does="letters", queue=SOURCE, group=group))
        seen: list[Seen] = []
        before: int | None = None
        while letters := await self._broker.dead_letters.list(
            SOURCE, group=group, before=before, limit=1000
        ):
            before = letters[-1].number
            seen += [
                Seen(one.partition, one.offset, value_of(one.payload), digest_of(one.payload))
                for one in letters
            ]
        self._recorder.answer(asked, Return(seen=seen))


async def _stumble(consumer: Consumer, delivery: Delivery, random: Random) -> None:
    messages = delivery.messages
    fate = random.random()
    if fate < 0.4:
        await consumer.complete(delivery, messages)
    elif fate < 0.8 or len(messages) == 1:
        await consumer.fail(delivery, messages)
    else:
        await consumer.fail(delivery, messages[1:], completed=messages[:1])


def _number(value: str) -> int:
    return int(value.rpartition("-")[2])


async def work(store: Path, recorder: Recorder, past: list[Operation], mode: str) -> None:
    async with skep.open(store) as broker:
        await broker.queues.configure(SOURCE, lease_time=1, retry_limit=RETRY_LIMIT, retry_delay=5)
        await broker.queues.configure(TARGET)
        run = Run(broker, recorder, past, len(past))
        run.finishing = mode == "finish"
        tasks = run.tasks()
        try:
            if run.finishing:
                await asyncio.gather(*tasks[: len(PRODUCERS)])
                await run.drain()
            else:
                await asyncio.gather(*tasks)
        finally:
            await stop(tasks)
        await run.audit()


async def stop(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel them, and hear what went wrong before that."""
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


def main(store: Path, histories: Path, mode: str) -> None:
    files = sorted(histories.glob("*.jsonl"))
    past = read(files)
    recorder = Recorder(histories / f"{len(files):04}.jsonl", f"process{len(files)}")
    asyncio.run(work(store, recorder, past, mode))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
