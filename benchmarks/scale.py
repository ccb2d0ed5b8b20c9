"""A queue with very many partitions, and other clients beside it.

    make bench-scale PARTITIONS=1000000

Two groups have read everything, so that all partitions are idle. Then each of these is done once:
start, first pops of new groups, configuration, listings, metrics, deletion of a group and of the
queue. All the time another client pushes a message with an id of its choice, pops it and
acknowledges it alone, in turns in a small queue and in its own partition of the large one, while 50
long polls wait in each of the two queues with another group. PostgreSQL has two servers: the other
client sends each request to the other one. What is reported is how long each step takes, and the
longest and the 99th percentile of the other client's requests meanwhile, by queue.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import httpx
from tests.support.server_process import ServerProcess

from benchmarks.postgres import database, postgres
from benchmarks.report import Report, directory, parser
from skep import AsyncClient, Broker, Draft
from skep.errors import SkepError
from skep.store.open import open_store

T = TypeVar("T")
BIG, SMALL = "big", "small"
GROUPS = ("billing", "mailing")
STEP = 1000
POLLS = 50
"""Long polls in each queue."""
PAUSE = 0.01
"""Between two rounds (push, pop, ack) of the other client."""


async def fill(url: str | Path, partitions: int) -> None:
    """One message in each partition, and two groups that have read all of them."""
    async with Broker(open_store(url), sweep_interval=None) as broker:
        for start in range(0, partitions, STEP):
            numbers = range(start, min(partitions, start + STEP))
            drafts = [Draft(b'{"order":%d}' % n, f"customer-{n}", f"order-{n}") for n in numbers]
            await broker.push(BIG, drafts)
        for group in GROUPS:
            await broker.pop(BIG, group=group, partition="none")
            await broker.groups.seek(BIG, group, "end")


class Neighbour:
    """Another client, that does the same all the time and notes how long it takes."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._taken: dict[str, list[float]] = {SMALL: [], BIG: []}
        self._failed = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Neighbour":
        self._tasks = [asyncio.create_task(self._run())]
        for url in self._urls:
            self._tasks.append(asyncio.create_task(self._poll(url, POLLS // len(self._urls))))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(AsyncClient(url)) for url in self._urls]
            turns = cycle(clients)
            for queue in cycle((SMALL, BIG)):
                try:
                    await self._round_trip(turns, queue)
                except SkepError:
                    # The queue was deleted in between.
                    self._failed += 1
                await asyncio.sleep(PAUSE)

    async def _round_trip(self, turns: Iterator[AsyncClient], queue: str) -> None:
        draft = Draft(b"{}", "neighbour", str(uuid4()))
        await self._timed(queue, next(turns).push(queue, [draft]))
        delivery = await self._timed(
            queue, next(turns).pop(queue, group="neighbour", partition="neighbour")
        )
        if delivery:
            await self._timed(queue, next(turns).ack(delivery, delivery.messages))

    async def _timed(self, queue: str, request: Awaitable[T]) -> T:
        start = time.perf_counter()
        try:
            return await request
        finally:
            self._taken[queue].append(time.perf_counter() - start)

    async def _poll(self, url: str, count: int) -> None:
        """Long polls in both queues, of a group that wants what is new."""

        async def poll(client: AsyncClient, queue: str) -> None:
            while True:
                with suppress(SkepError):
                    await client.pop(
                        queue, group="waiting", wait=30, auto_ack=True, subscription_mode="new"
                    )

        async with AsyncClient(url, timeout=600) as client, asyncio.TaskGroup() as tasks:
            for _ in range(count):
                for queue in (SMALL, BIG):
                    tasks.create_task(poll(client, queue))

    def report(self, report: Report, name: str) -> None:
        for queue, found in self._taken.items():
            taken, self._taken[queue] = sorted(found), []
            if taken:
                percentile = taken[int(len(taken) * 0.99)]
                who = f"{name}: other client, {queue}"
                report.value(f"{who}, p99", percentile * 1000, "ms (at most 100)")
                report.value(f"{who}, longest", taken[-1] * 1000, f"ms of {len(taken)}")
        if self._failed:
            report.value(f"{name}: other client, refused", self._failed, "requests")
            self._failed = 0


async def timed(report: Report, name: str, work: Callable[[], Awaitable[object]]) -> None:
    start = time.perf_counter()
    await work()
    report.value(name, (time.perf_counter() - start) * 1000, "ms")


async def until_loaded(client: httpx.AsyncClient) -> None:
    """Totals are told when all partitions are known."""
    (await client.get(f"/api/v1/status/queues/{BIG}")).raise_for_status()


async def steps(report: Report, urls: Sequence[str], rest: float) -> None:
    url, started = urls[0], time.perf_counter()
    async with (
        httpx.AsyncClient(base_url=url, timeout=600) as http,
        AsyncClient(url, timeout=600) as client,
        Neighbour(urls) as neighbour,
    ):

        async def step(name: str, work: Callable[[], Awaitable[object]]) -> None:
            await timed(report, name, work)
            await asyncio.sleep(rest)
            neighbour.report(report, name)

        await step("everything is loaded", lambda: until_loaded(http))
        report.value("since the server listened", time.perf_counter() - started, "s")
        await step("first pop of a new group", lambda: client.pop(BIG, group="new"))
        await step(
            "first pop of a new group, mode new",
            lambda: client.pop(BIG, group="newest", subscription_mode="new"),
        )
        await step("configure", lambda: client.queues.configure(BIG, lease_time=60))
        await step("overview", lambda: http.get("/api/v1/resources/overview"))
        await step("status of the queue", lambda: http.get(f"/api/v1/status/queues/{BIG}"))
        await step("list of groups", lambda: client.groups.list(BIG))
        await step("Prometheus", lambda: http.get("/metrics/prometheus"))
        await step("delete a group", lambda: client.groups.delete(BIG, GROUPS[0]))
        await step("make it again", lambda: client.pop(BIG, group=GROUPS[0]))
        await step("delete", lambda: client.queues.delete(BIG))


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def measure(
    report: Report, store: Path | str, partitions: int, rest: float, *, servers: int
) -> None:
    with ServerProcess(store) as empty:
        before = resident(empty.pid)
        empty.end()
    asyncio.run(fill(store, partitions))
    start = time.perf_counter()
    with ServerProcess(store) as server:
        report.value("start", time.perf_counter() - start, "s (at most 5)")
        asyncio.run(_loaded(server.url))
        used = resident(server.pid) - before
        report.value(
            "memory per idle partition and group",
            used / (partitions * len(GROUPS)),
            "bytes (at most 500)",
        )
        server.end()
    with ExitStack() as stack:
        running = [stack.enter_context(ServerProcess(store)) for _ in range(servers)]
        asyncio.run(steps(report, [each.url for each in running], rest))


async def _loaded(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        await until_loaded(client)


@contextmanager
def shared() -> Iterator[str]:
    with postgres() as server, database(server) as url:
        yield url


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("--partitions", type=int, default=1_000_000)
    arguments = reading.parse_args()
    report = Report()
    with directory() as place:
        report.title(f"RocksDB, {arguments.partitions:,} partitions, 2 groups")
        measure(report, place / "store", arguments.partitions, arguments.seconds, servers=1)
    with shared() as url:
        report.title(f"PostgreSQL, {arguments.partitions:,} partitions, 2 groups, 2 servers")
        measure(report, url, arguments.partitions, arguments.seconds, servers=2)
    report.save(arguments.save)


if __name__ == "__main__":
    main()
