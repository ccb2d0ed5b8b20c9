"""Clients of a real server that go on whatever happens, and whether they get on as before.

Four producers with one push under way each, consumers in two groups, and one who moves messages
on to another queue. Each does something several times a second, not as often as it can: so how fast
it goes says whether it is answered, and not how much else this machine has to do.
"""

import asyncio
import os
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Self

import httpx
import msgspec

from skep import AsyncClient, Delivery, Draft
from skep.client.request import post
from skep.client.retry import Retry
from skep.model.message import Receipt
from skep.wire import paths
from skep.wire.message.push import PushBody, PushResult, from_drafts, to_receipts
from tests.support.faults.history import Invocation, Operation, Recorder, Return, read
from tests.support.faults.persistent_producers import PATIENT
from tests.support.faults.recording_clients import SOURCE, TARGET, Consumer, Copier, Producer, audit

PARTITIONS = [f"p{n}" for n in range(24)]
PRODUCERS = 4
GROUPS = ("billing", "mailing")
COPIER = "copier"
LEASE_SECONDS = 2
SIZES = [1, 1, 1, 1, 1, 1, 10, 10, 10, 100]
PERIOD = 0.15
ONCE = Retry(attempts=1)

WINDOW = 1.0
STEP = 0.1
LONG = "SKEP_LONG" in os.environ
AS_BEFORE = 0.95 if LONG else 0.5
RECOVERY_SECONDS = 10.0 if LONG else 60.0
"""How fast is measured by ``make test-long``, on a machine with nothing else to do."""
DRAIN_SECONDS = 60.0
KINDS = ("push", "settle", "transact")


class Pulse(Recorder):
    """A history that also knows, while it is written, when something was done."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "traffic")
        self._done: defaultdict[str, list[float]] = defaultdict(list)

    def answer(self, asked: Invocation, answer: Return) -> Operation:
        operation = super().answer(asked, answer)
        if operation.is_ok:
            self._done[asked.does].append(time.monotonic())
        return operation

    def count(self, kind: str, start: float, end: float) -> int:
        done = self._done[kind]
        return bisect_left(done, end) - bisect_left(done, start)


class Beat:
    """Lets somebody go on at most once in a period, however long he took since the last time."""

    def __init__(self) -> None:
        self._next = 0.0

    async def wait(self) -> None:
        now = time.monotonic()
        self._next = max(self._next + PERIOD, now)
        await asyncio.sleep(self._next - now)


class Problem(msgspec.Struct, frozen=True):
    """What the body of every refusal says."""

    error: str
    type: str
    status: int


class Watched(httpx.AsyncBaseTransport):
    """Looks at every answer on its way: a server in trouble says so in its own words."""

    def __init__(self) -> None:
        self._inner = httpx.AsyncHTTPTransport(
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100)
        )
        self.refusals: defaultdict[int, int] = defaultdict(int)
        self.wrong: list[str] = []
        self.longest = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        began = time.monotonic()
        response = await self._inner.handle_async_request(request)
        if response.status_code >= 500:
            self._look(response.status_code, response.headers, await response.aread())
            self.longest = max(self.longest, time.monotonic() - began)
        return response

    def _look(self, status: int, headers: httpx.Headers, body: bytes) -> None:
        self.refusals[status] += 1
        try:
            problem = msgspec.json.decode(body, type=Problem)
        except msgspec.DecodeError:
            self.wrong.append(f"{status} without a problem: {body[:200]!r}")
            return
        if problem.status != status or status not in (503, 504):
            self.wrong.append(f"{status}: {problem}")
        if status == 503 and not headers.get("retry-after", "").isdigit():
            self.wrong.append(f"503 does not say when to come back: {problem}")

    async def aclose(self) -> None:
        await self._inner.aclose()


class PlainClient(AsyncClient):
    """Pushes without ids, as clients do that do not repeat themselves."""

    async def push(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Receipt]:
        body = PushBody(items=from_drafts(queue, drafts))
        answer = await self.connection.send(post(paths.PUSH, body, repeatable=False))
        return to_receipts(drafts, answer.decode(list[PushResult]))


class Traffic:
    """Everybody who uses the server, from the first push to the last audit."""

    def __init__(
        self, url: str, place: Path, seed: int, lease_seconds: int = LEASE_SECONDS
    ) -> None:
        self._path = place / "history.jsonl"
        self._pulse = Pulse(self._path)
        self._seed = seed
        self._lease_seconds = lease_seconds
        self._producing = True
        self._tasks: list[asyncio.Task[None]] = []
        self._before: dict[str, float] = {}
        self.watched = Watched()
        self._plain = PlainClient(url, retry=ONCE, transport=self.watched)
        self._client = AsyncClient(url, retry=ONCE, transport=self.watched)
        self._patient = AsyncClient(url, retry=PATIENT)

    async def __aenter__(self) -> Self:
        await self._patient.queues.configure(SOURCE, lease_time=self._lease_seconds)
        await self._patient.queues.configure(TARGET)
        work = [
            *(self._produce(number) for number in range(PRODUCERS)),
            *(self._consume(group, number) for group in GROUPS for number in range(2)),
            self._copy(),
        ]
        self._tasks = [asyncio.create_task(each) for each in work]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in (self._plain, self._client, self._patient):
            await client.close()
        for each in ended:
            if isinstance(each, Exception):
                raise each

    # What each of them does.

    async def _produce(self, number: int) -> None:
        """The even ones choose ids, and repeat what was not answered until it is."""
        name, ids = f"producer{number}", number % 2 == 0
        random = Random(f"{self._seed}{name}")
        producer = Producer(self._client if ids else self._plain, self._pulse, random)
        count, beat = 0, Beat()
        while self._producing:
            await beat.wait()
            size = random.choice(SIZES)
            values = [f"{name}-{count + n}" for n in range(size)]
            partition = random.choice(PARTITIONS)
            while not await producer.push(name, partition, values, ids=ids) and ids:
                await beat.wait()
            count += size

    async def _consume(self, group: str, number: int) -> None:
        """All at once, or in two parts at the same time."""
        random = Random(f"{self._seed}{group}{number}")
        consumer = Consumer(self._client, self._pulse, random, group, self._lease_seconds)

        async def settle(delivery: Delivery) -> None:
            messages = random.sample(delivery.messages, len(delivery.messages))
            half = len(messages) // 2
            if not half or random.random() < 0.5:
                await consumer.complete_all(delivery)
                return
            await asyncio.gather(
                consumer.complete(delivery, messages[:half]),
                consumer.complete(delivery, messages[half:]),
            )

        await self._pop_for_ever(consumer, random, settle)

    async def _copy(self) -> None:
        random = Random(f"{self._seed}{COPIER}")
        copier = Copier(self._client, self._pulse, random, COPIER, self._lease_seconds)

        async def copy(delivery: Delivery) -> None:
            asked = copier.copying(delivery)
            await copier.transact(asked)
            while copier.in_doubt:
                await asyncio.sleep(PERIOD)
                await copier.transact(asked)

        await self._pop_for_ever(copier, random, copy)

    async def _pop_for_ever(
        self, consumer: Consumer, random: Random, settle: Callable[[Delivery], Awaitable[None]]
    ) -> None:
        beat = Beat()
        while True:
            await beat.wait()
            batch, partitions = random.choice([10, 100, 1000]), random.choice([1, 3])
            delivery = await consumer.pop(batch=batch, partitions=partitions, wait=1)
            if delivery:
                await settle(delivery)

    # Whether they get on.

    async def settle_down(self, seconds: float) -> None:
        """Learn what is usual, from so many seconds without a fault."""
        await self.until_done(3)
        start = time.monotonic()
        await asyncio.sleep(seconds)
        for kind in KINDS:
            self._before[kind] = median(self._rates(kind, start, time.monotonic()))

    async def until_done(self, number: int, *kinds: str) -> None:
        """Until so much more was done, of these kinds or of each."""
        start = time.monotonic()
        async with asyncio.timeout(DRAIN_SECONDS):
            while any(
                self._pulse.count(kind, start, time.monotonic()) < number for kind in kinds or KINDS
            ):
                self._check_tasks()
                await asyncio.sleep(STEP)

    async def recover(self, within: float = RECOVERY_SECONDS) -> float:
        """Be as fast as before; return after how many seconds that was reached."""
        healed = time.monotonic()
        slow = set(KINDS)
        while slow:
            await asyncio.sleep(STEP)
            now = time.monotonic()
            slow = {
                kind
                for kind in slow
                if max(self._rates(kind, healed, now), default=0) < AS_BEFORE * self._before[kind]
            }
            assert now - healed < within, f"still slower than before: {sorted(slow)}"
        return time.monotonic() - healed

    def _rates(self, kind: str, start: float, end: float) -> list[int]:
        steps = int((end - start - WINDOW) / STEP) + 1
        return [
            self._pulse.count(kind, start + n * STEP, start + n * STEP + WINDOW)
            for n in range(steps)
        ]

    def _check_tasks(self) -> None:
        for task in self._tasks:
            if task.done() and task.exception():
                task.result()

    # The end.

    async def finish(self) -> list[Operation]:
        """Stop producing, let every group come to the end, and read everything once more."""
        self._producing = False
        async with asyncio.timeout(DRAIN_SECONDS):
            await asyncio.gather(*self._tasks[:PRODUCERS])
            while await self._backlog():
                self._check_tasks()
                await asyncio.sleep(STEP)
        for queue in (SOURCE, TARGET):
            await audit(self._patient, self._pulse, queue)
        return read([self._path])

    async def _backlog(self) -> int:
        return sum(lag.backlog for lag in await self._patient.groups.list(SOURCE))
