"""A queue under steady load while somebody holds a snapshot of its database open, as a report does.

    make bench-snapshot

No row version that died since can be removed meanwhile, and the rows of partitions, consumers and
lanes are written all the time. Shown are what comes through, how long requests take, and how large
the tables are: before, for ``--minutes`` with the snapshot, and after it. Retention runs all along.
"""

import asyncio
import random
import re
import time
from collections import deque

import asyncpg
import uvloop

from benchmarks.latency import Connection, connect
from benchmarks.postgres import database, postgres, skep
from benchmarks.report import Report, parser
from skep import AsyncClient

MESSAGES = 100
PARTITIONS = 100
PUSHERS, CONSUMERS = 8, 4
KEEP_SECONDS = 30
SHOWN = ("segment", "partition", "consumer", "lane", "lane_head", "news", "removal")

_SIZES = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class
 WHERE relnamespace = 'queen'::regnamespace AND relkind = 'r'
"""
_POP = (
    f"GET /api/v1/pop/queue/orders?consumerGroup=bench&batch=1000&partitions={PARTITIONS}"
    "&wait=true&timeout=1000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
).encode()


def _request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _push(partition: int) -> bytes:
    item = '{{"queue":"orders","partition":"p{}","payload":{{"order":12345,"note":"{}"}}}}'
    items = (item.format(partition, random.randbytes(64).hex()) for _ in range(MESSAGES))
    return _request("/api/v1/push", f'{{"items":[{",".join(items)}]}}'.encode())


class Load:
    """Pushes at a steady rate and consumers that keep up; counts between two looks at it."""

    def __init__(self, url: str, rate: float) -> None:
        self._url = url
        self._rate = rate
        self._bodies = [_push(partition) for partition in range(PARTITIONS)]
        self._since = time.perf_counter()
        self._settled = 0
        self._pushes: list[float] = []
        self._acks: list[float] = []

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._push())
            for _ in range(CONSUMERS):
                tasks.create_task(self._consume())

    def look(self) -> dict[str, float]:
        """What was done since the last look."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        pushes, self._pushes = sorted(self._pushes), []
        acks, self._acks = sorted(self._acks), []
        settled, self._settled = self._settled, 0
        return {
            "pushed/s": len(pushes) * MESSAGES / seconds,
            "acked/s": settled / seconds,
            "push p50": _part(pushes, 0.5) * 1000,
            "push p99": _part(pushes, 0.99) * 1000,
            "ack p99": _part(acks, 0.99) * 1000,
        }

    async def _push(self) -> None:
        idle = deque([await connect(self._url) for _ in range(PUSHERS)])
        free = asyncio.Semaphore(PUSHERS)
        begin, number = time.perf_counter(), 0
        while True:
            # Counted from when it was due: who has to wait for a connection waits, too.
            due = begin + number / self._rate
            await asyncio.sleep(due - time.perf_counter())
            await free.acquire()
            connection = idle.popleft()
            answer = connection.ask(self._bodies[number * 7 % PARTITIONS])
            number += 1

            def done(_: object, due: float = due, connection: Connection = connection) -> None:
                self._pushes.append(time.perf_counter() - due)
                idle.append(connection)
                free.release()

            answer.add_done_callback(done)

    async def _consume(self) -> None:
        connection = await connect(self._url)
        while True:
            lease = re.search(rb'"leaseId":"([^"]+)"', await connection.ask(_POP))
            if lease:
                begin = time.perf_counter()
                path = f"/api/v1/lease/{lease[1].decode()}/settle"
                answer = await connection.ask(_request(path, b'{"status":"completed"}'))
                self._acks.append(time.perf_counter() - begin)
                done = re.search(rb'"completed":(\d+)', answer)
                self._settled += int(done[1]) if done else 0


def _part(values: list[float], part: float) -> float:
    return values[int(len(values) * part)] if values else 0.0


class Watch:
    """Looks at the load and at the tables, and prints a line for each look."""

    def __init__(self, report: Report, load: Load, connection: asyncpg.Connection) -> None:
        self._report = report
        self._load = load
        self._connection = connection
        self._begin = time.perf_counter()

    async def phase(self, name: str, seconds: float, looks: int) -> None:
        self._report.title(name)
        print(
            f"  {'second':>7} {'pushed/s':>9} {'acked/s':>9} {'p50':>7} {'p99':>7} {'ack p99':>8}"
        )
        for look in range(looks):
            await asyncio.sleep(seconds / looks)
            figures = self._load.look()
            sizes = {row[0]: row[1] / 1e6 for row in await self._connection.fetch(_SIZES)}
            self._print(figures, sizes)
            where = f"{name}, {look + 1} of {looks}"
            for what, value in figures.items():
                self._report.figures[f"{where}, {what}"] = round(value, 3)
            for table, megabytes in sorted(sizes.items()):
                self._report.figures[f"{where}, {table} MB"] = round(megabytes, 3)

    def _print(self, figures: dict[str, float], sizes: dict[str, float]) -> None:
        rates = " ".join(f"{figures[name]:9,.0f}" for name in ("pushed/s", "acked/s"))
        times = " ".join(f"{figures[name]:7.1f}" for name in ("push p50", "push p99", "ack p99"))
        tables = "  ".join(f"{name} {sizes[name]:.2f}" for name in SHOWN)
        elapsed = time.perf_counter() - self._begin
        print(f"  {elapsed:7.0f} {rates} {times}   MB: {tables}", flush=True)


async def measure(report: Report, url: str, served: str, rate: float, minutes: float) -> None:
    async with AsyncClient(served) as client:
        await client.queues.configure(
            "orders",
            retention_enabled=True,
            retention_seconds=KEEP_SECONDS,
            completed_retention_seconds=KEEP_SECONDS,
        )
    load = Load(served, rate)
    loading = asyncio.create_task(load.run())
    watching = await asyncpg.connect(url)
    watch = Watch(report, load, watching)
    # Until retention has begun to delete as much as is pushed.
    await asyncio.sleep(2 * KEEP_SECONDS)
    load.look()
    await watch.phase("before", 60, 2)
    holding = await asyncpg.connect(url)
    async with holding.transaction(isolation="repeatable_read", readonly=True):
        await holding.fetchval("SELECT count(*) FROM queen.partition")
        await watch.phase("with the snapshot", minutes * 60, 10)
    await watch.phase("after", 120, 4)
    loading.cancel()
    await asyncio.wait([loading])
    await asyncio.gather(holding.close(), watching.close())


def main() -> None:
    about = parser(__doc__)
    about.add_argument("--minutes", type=float, default=10.0, help="with the snapshot")
    about.add_argument("--rate", type=float, default=100.0, help=f"pushes of {MESSAGES} per second")
    arguments = about.parse_args()
    report = Report()
    with postgres() as server, database(server) as url, skep(url) as served:
        uvloop.run(measure(report, url, served, arguments.rate, arguments.minutes))
    report.save(arguments.save)


if __name__ == "__main__":
    main()
