"""The embedded queue beside the bare store that it is built on, in one run.

    make bench

Absolute figures drift between machines and hours; the ratios are what counts. ``bare`` writes
ready-made segments of the same size with the same number of them per sync.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from rocksdict import WriteBatch

import skep
from benchmarks.report import Report, directory, parse
from skep import Draft
from skep.model.segment import Columns, Segment
from skep.store.rocksdb import keys, segment_codec as columns
from skep.store.rocksdb.database import Database

PAYLOAD = b'{"order":12345,"customer":"alice","items":["tea","rice","salt"],"note":"%s"}' % (
    b"x" * 128
)
PARTITIONS = 100
SIZES = (1, 10, 100, 1000)
CALLERS = (1, 64)


def segment(partition: int, size: int) -> bytes:
    """A segment as it is stored; no two partitions share their bytes."""
    made = Segment(
        queue=1,
        partition=partition,
        start=0,
        created_at=0,
        lane=0,
        position=partition,
        size=0,
        columns=Columns(payloads=[PAYLOAD] * size),
    )
    return columns.encode(made)


def bare(size: int, callers: int, seconds: float) -> float:
    """Messages per second into RocksDB: one write and one sync for as many segments as callers."""
    ready = [segment(number, size) for number in range(PARTITIONS)]
    count = 0
    with directory() as path:
        database = Database(path)
        sync = database._db.flush_wal
        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            batch = WriteBatch(raw_mode=True)
            for _ in range(callers):
                number = count % PARTITIONS
                batch.put(keys.segment_key(number, count), ready[number], database.segments)
                count += 1
            database.write(batch)
            sync(True)
        elapsed = time.perf_counter() - begin
        del sync
        database.close()
    return count * size / elapsed


async def rate(callers: int, work: Callable[[int, float], Awaitable[int]], seconds: float) -> float:
    begin = time.perf_counter()
    done = await asyncio.gather(*(work(n, begin + seconds) for n in range(callers)))
    return sum(done) / (time.perf_counter() - begin)


async def push_and_consume(
    size: int, callers: int, *, ids: bool, seconds: float
) -> tuple[float, float]:
    with directory() as path:
        async with skep.open(path) as queue:
            ready = [[Draft(PAYLOAD, f"p{n}")] * size for n in range(PARTITIONS)]

            async def push(caller: int, until: float) -> int:
                count = 0
                while time.perf_counter() < until:
                    number = (caller * 7 + count) % PARTITIONS
                    drafts = ready[number]
                    if ids:
                        drafts = [
                            Draft(PAYLOAD, f"p{number}", f"{caller}-{count}-{n}")
                            for n in range(size)
                        ]
                    await queue.push("orders", drafts)
                    count += 1
                return count * size

            async def consume(_: int, until: float) -> int:
                count = 0
                while time.perf_counter() < until:
                    delivery = await queue.pop("orders", group="billing", batch=size)
                    if delivery is None:
                        break
                    await queue.ack(delivery)
                    count += len(delivery.messages)
                return count

            pushed = await rate(callers, push, seconds)
            consumed = await rate(callers, consume, seconds)
    return pushed, consumed


async def pop_latency(queue: skep.Broker, name: str, *, pops: int) -> float:
    """The median of a pop of one message, in milliseconds."""
    times = []
    for _ in range(pops):
        begin = time.perf_counter()
        delivery = await queue.pop(name, group="billing")
        times.append(time.perf_counter() - begin)
        if delivery is None:
            raise RuntimeError("the queue ran dry")
        await queue.ack(delivery)
    return statistics.median(times) * 1000


async def latency_by_depth(report: Report, messages: int) -> None:
    with directory() as path:
        async with skep.open(path) as queue:
            for _ in range(messages // 1000):
                await queue.push("deep", [Draft(PAYLOAD)] * 1000)
            figures = {}
            await queue.pop("deep", group="billing", auto_ack=True)
            for percent in (1, 50, 99):
                await queue.groups.seek("deep", "billing", messages * percent // 100)
                figures[percent] = await pop_latency(queue, "deep", pops=300)
                report.value(f"pop, {percent} % of {messages:,} consumed", figures[percent], "ms")
            worst = max(figures.values()) / min(figures.values())
            report.value("slowest beside fastest", worst, "x (at most 1.5)")


async def latency_by_partitions(report: Report) -> None:
    figures = {}
    for partitions in (1, 1_000, 100_000):
        with directory() as path:
            async with skep.open(path) as queue:
                each = max(1, 1_000 // partitions)
                for start in range(0, partitions, 10_000):
                    names = range(start, min(partitions, start + 10_000))
                    drafts = [Draft(PAYLOAD, f"p{n}") for n in names for _ in range(each)]
                    await queue.push("wide", drafts)
                figures[partitions] = await pop_latency(queue, "wide", pops=300)
                report.value(f"pop, {partitions:,} partitions", figures[partitions], "ms")
    worst = max(figures.values()) / min(figures.values())
    report.value("slowest beside fastest", worst, "x (at most 1.5)")


MEMORY = """
import asyncio, resource, skep
from skep import Draft

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6

async def main(path, partitions):
    async with skep.open(path) as queue:
        async def push():
            for start in range(0, partitions, 1000):
                names = (f"customer-{n}" for n in range(start, start + 1000))
                await queue.push("wide", [Draft(b'{"n":1}', name) for name in names])
        async def consume(group):
            while delivery := await queue.pop("wide", group=group, batch=1000, partitions=1000):
                await queue.ack(delivery)
        await push()
        await consume("billing")
        await consume("shipping")
        await push()
        print(rss(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)

asyncio.run(main(__import__("sys").argv[1], int(__import__("sys").argv[2])))
"""


def memory(report: Report, partitions: int) -> None:
    """A process of its own: partitions with a message each, read by two groups, then one more."""
    with directory() as path:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(path), str(partitions)],
            capture_output=True,
            text=True,
            check=True,
        )
    now, peak = map(float, done.stdout.split())
    report.value(f"memory, {partitions:,} partitions, 2 groups", now, "MB (at most 200)")
    report.value("at its peak", peak, "MB")


async def run(report: Report, seconds: float) -> None:
    for callers in CALLERS:
        report.title(f"{callers} concurrent caller{'s' * (callers > 1)}")
        for size in SIZES:
            base = bare(size, callers, seconds)
            report.rate(f"bare segments of {size}, {callers} per sync", base)
            for ids in (False, True):
                pushed, consumed = await push_and_consume(size, callers, ids=ids, seconds=seconds)
                chosen = ", chosen ids" if ids else ""
                report.rate(f"push {size} x {callers}{chosen}", pushed, bare=pushed / base)
                if not ids:
                    report.rate(f"pop + ack {size} x {callers}", consumed)
    report.title("latency of a pop")
    await latency_by_depth(report, messages=200_000)
    await latency_by_partitions(report)
    report.title("memory")
    memory(report, 100_000)


def main() -> None:
    arguments = parse(__doc__)
    report = Report()
    asyncio.run(run(report, arguments.seconds))
    report.save(arguments.save)


if __name__ == "__main__":
    main()
