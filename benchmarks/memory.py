"""Memory of a server whose partitions are used one after the other and are idle in between.

    make bench-memory PARTITIONS=1000000 MINUTES=30

Two groups have read everything. A client pushes messages with ids of its choice to partitions
drawn at random, and both groups pop and acknowledge them. Reported is the resident memory per
partition and group, minute by minute: it must not grow with the partitions that were used.
"""

import asyncio
import random
import time
from pathlib import Path
from uuid import uuid4

import httpx
from tests.support.server_process import ServerProcess

from benchmarks.report import Report, directory, parser
from benchmarks.scale import BIG, GROUPS, fill, resident, shared, until_loaded
from skep import AsyncClient, Draft

BATCH = 100
PER_SECOND = 1000
MINUTE = 60.0


async def exchange(client: AsyncClient, partitions: int) -> None:
    """Push a batch over as many partitions, and let both groups read it."""
    drafts = [
        Draft(b'{"order":1}', f"customer-{random.randrange(partitions)}", str(uuid4()))
        for _ in range(BATCH)
    ]
    await client.push(BIG, drafts)
    for group in GROUPS:
        delivery = await client.pop(BIG, group=group, batch=BATCH, partitions=BATCH)
        if delivery:
            await client.ack(delivery)


async def use(url: str, partitions: int, until: float) -> None:
    async with AsyncClient(url, timeout=60) as client:
        while time.monotonic() < until:
            begin = time.monotonic()
            await exchange(client, partitions)
            await asyncio.sleep(max(0.0, begin + BATCH / PER_SECOND - time.monotonic()))


async def loaded(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        await until_loaded(client)


def measure(report: Report, store: Path | str, partitions: int, minutes: int) -> None:
    with ServerProcess(store) as empty:
        before = resident(empty.pid)
        empty.end()
    asyncio.run(fill(store, partitions))
    with ServerProcess(store) as server:
        asyncio.run(loaded(server.url))
        for minute in range(minutes + 1):
            used = (resident(server.pid) - before) / (partitions * len(GROUPS))
            report.value(f"after {minute} min", used, "bytes per partition and group (at most 500)")
            if minute < minutes:
                asyncio.run(use(server.url, partitions, time.monotonic() + MINUTE))


def main() -> None:
    reading = parser(__doc__)
    reading.add_argument("--partitions", type=int, default=1_000_000)
    reading.add_argument("--minutes", type=int, default=30)
    reading.add_argument("--store", choices=["rocksdb", "postgres", "both"], default="both")
    arguments = reading.parse_args()
    report = Report()
    if arguments.store != "postgres":
        with directory() as place:
            report.title(f"RocksDB, {arguments.partitions:,} partitions, 2 groups")
            measure(report, place / "store", arguments.partitions, arguments.minutes)
    if arguments.store != "rocksdb":
        with shared() as url:
            report.title(f"PostgreSQL, {arguments.partitions:,} partitions, 2 groups")
            measure(report, url, arguments.partitions, arguments.minutes)
    report.save(arguments.save)


if __name__ == "__main__":
    main()
