"""Who reads what two servers write to one database misses nothing that is still being written."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import asyncpg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyspark_skep.column import SourceColumn
from pyspark_skep.options import Options
from pyspark_skep.position import JournalPosition
from pyspark_skep.stream import StreamReader
from skep import Client, Draft
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess

PAYLOAD = (SourceColumn("payload"),)
PUSHES = 100
WRITERS = 4

_HOLD = """
CREATE FUNCTION queen.wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.messages > 1 THEN
        PERFORM pg_advisory_xact_lock_shared(4711);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER wait_for_test AFTER INSERT ON queen.segment
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION queen.wait_for_test();
"""
_HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted"


@pytest.fixture
def database() -> str:
    return databases().empty()


@pytest.fixture
def servers(database: str) -> Iterator[list[ServerProcess]]:
    with ServerProcess(database) as one, ServerProcess(database) as two:
        with Client(one.url) as client:
            client.queues.configure("a")
        yield [one, two]


class Reading:
    """A stream's two sides without Spark between them."""

    def __init__(self, url: str) -> None:
        options = Options(url, queue=("a",), starting_offsets="earliest", max_offsets_per_trigger=7)
        self._reader = StreamReader(options, PAYLOAD)
        self._at: JournalPosition = self._reader.initialOffset()
        self.found: list[str] = []

    def step(self, *, everything: bool = False) -> None:
        limit = ReadAllAvailable() if everything else ReadMaxRows(7)
        end = self._reader.latestOffset(self._at, limit)
        for split in self._reader.partitions(self._at, end):
            for batch in self._reader.read(split):
                self.found += batch.column(0).to_pylist()
        self._at = end


@contextmanager
def transactions_held_open(database: str) -> Iterator[asyncpg.Connection]:
    """Let pushes of several messages wait at the end of their transactions while this lasts."""
    run = databases().run
    connection: asyncpg.Connection = run(asyncpg.connect(database))
    run(connection.execute(_HOLD))
    run(connection.execute("SELECT pg_advisory_lock(4711)"))
    try:
        yield connection
    finally:
        run(connection.execute("SELECT pg_advisory_unlock_all()"))
        run(connection.execute("DROP FUNCTION queen.wait_for_test CASCADE"))
        run(connection.close())


def push(url: str, partition: str, *payloads: str) -> None:
    with Client(url) as client:
        client.push("a", [Draft(payload.encode(), partition) for payload in payloads])


def test_a_transaction_that_is_open_while_others_are_read_is_read_when_it_is_committed(
    database: str, servers: list[ServerProcess]
) -> None:
    """It began before them, and its messages were given their places before theirs."""
    one, two = (server.url for server in servers)
    for url, partition in ((one, "p"), (two, "q")):
        push(url, partition, f"{partition}0")
    reading = Reading(two)
    with ThreadPoolExecutor() as threads:
        with transactions_held_open(database) as connection:
            held = threads.submit(push, one, "p", "p1", "p2")
            while not databases().run(connection.fetchval(_HELD)):
                assert not held.done()
            push(two, "q", "q1")
            reading.step(everything=True)
            assert sorted(reading.found) == ["p0", "q0", "q1"]
            assert not held.done()
        held.result()
    push(two, "q", "q2")
    reading.step(everything=True)

    assert sorted(reading.found) == ["p0", "p1", "p2", "q0", "q1", "q2"]


def test_what_is_written_while_it_is_read_is_read_once(servers: list[ServerProcess]) -> None:
    urls = [server.url for server in servers]
    stopped = threading.Event()

    def write(writer: int) -> list[str]:
        names = []
        for number in range(PUSHES):
            # Of all sizes, to partitions of its own and to some that others write to as well.
            some = [f"{writer}-{number}-{n}" for n in range(1 + number % 9)]
            push(urls[number % 2], f"p{(writer, number)[number % 3 == 0] % 11}", *some)
            names += some
        return names

    def read(url: str) -> list[str]:
        reading = Reading(url)
        while not stopped.is_set():
            reading.step()
        reading.step(everything=True)
        return reading.found

    with ThreadPoolExecutor() as threads:
        readers = [threads.submit(read, url) for url in urls]
        writers = [threads.submit(write, writer) for writer in range(WRITERS)]
        try:
            pushed = Counter(name for each in writers for name in each.result())
        finally:
            stopped.set()
        found = [Counter(each.result()) for each in readers]

    assert found == [pushed, pushed]
