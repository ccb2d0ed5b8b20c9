"""A queue with very many partitions, and another client beside it.

    make bench-scale PARTITIONS=1000000

Two groups have read everything, so that all partitions are idle. Then each of these is done once:
start, first pop of a new group, configuration, listing, metrics, deletion. All the time another
client pushes a message with an id of its choice, pops and acknowledges it in another queue. What is
reported is how long each takes, and the longest and the 99th percentile of the other client's round
trips meanwhile.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
from tests.serving import ServerProcess

from benchmarks.postgres import database, postgres
from benchmarks.report import Report, directory, parser
from skep import AsyncClient, Broker, Draft
from skep.store.open import open_store

BIG, SMALL = "big", "small"
GROUPS = ("billing", "mailing")
STEP = 1000
PAUSE = 0.01
"""Between two round trips of the other client."""


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
    """Another client, who does the same all the time and notes how long it takes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._taken: list[float] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Neighbour":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        async with AsyncClient(self._url) as client:
            while True:
                start = time.perf_counter()
                await client.push(SMALL, [Draft(b"{}", "neighbour", str(uuid4()))])
                delivery = await client.pop(SMALL, group="neighbour")
                if delivery:
                    await client.ack(delivery)
                self._taken.append(time.perf_counter() - start)
                await asyncio.sleep(PAUSE)

    def report(self, report: Report, name: str) -> None:
        taken, self._taken = sorted(self._taken), []
        if taken:
            percentile = taken[int(len(taken) * 0.99)]
            report.value(f"{name}: the other client, p99", percentile * 1000, "ms (at most 100)")
            report.value(f"{name}: the other client, longest", taken[-1] * 1000, "ms")


async def timed(report: Report, name: str, work: Callable[[], Awaitable[object]]) -> None:
    start = time.perf_counter()
    await work()
    report.value(name, (time.perf_counter() - start) * 1000, "ms")


async def until_loaded(client: httpx.AsyncClient) -> None:
    """Totals are told when all partitions are known."""
    (await client.get(f"/api/v1/status/queues/{BIG}")).raise_for_status()


async def steps(report: Report, url: str, rest: float) -> None:
    started = time.perf_counter()
    async with (
        httpx.AsyncClient(base_url=url, timeout=600) as http,
        AsyncClient(url, timeout=600) as client,
        Neighbour(url) as neighbour,
    ):

        async def step(name: str, work: Callable[[], Awaitable[object]]) -> None:
            await timed(report, name, work)
            await asyncio.sleep(rest)
            neighbour.report(report, name)

        await step("everything is loaded", lambda: until_loaded(http))
        report.value("since the server listened", time.perf_counter() - started, "s")
        await step("first pop of a new group", lambda: client.pop(BIG, group="new"))
        await step("configure", lambda: client.queues.configure(BIG, lease_time=60))
        await step("overview", lambda: http.get("/api/v1/resources/overview"))
        await step("status of the queue", lambda: http.get(f"/api/v1/status/queues/{BIG}"))
        await step("list of groups", lambda: client.groups.list(BIG))
        await step("Prometheus", lambda: http.get("/metrics/prometheus"))
        await step("delete", lambda: client.queues.delete(BIG))


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def measure(report: Report, store: Path | str, partitions: int, rest: float) -> None:
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
        server.start()
        asyncio.run(steps(report, server.url, rest))


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
        measure(report, place / "store", arguments.partitions, arguments.seconds)
    with shared() as url:
        report.title(f"PostgreSQL, {arguments.partitions:,} partitions, 2 groups")
        measure(report, url, arguments.partitions, arguments.seconds)
    report.save(arguments.save)


if __name__ == "__main__":
    main()
