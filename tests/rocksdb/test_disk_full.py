"""A full disk: nothing answered is lost, and writing resumes when there is space again."""

import resource
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest
from rocksdict import WriteBatch

from skep.errors import StoreFull
from skep.model.change import Change
from skep.store.protocol import Store
from skep.store.rocksdb.database import Database
from skep.store.rocksdb.keys import about
from tests.support.rocksdb_builders import count_numbers, number, open_store, push_numbers, start
from tests.support.server_process import ServerProcess
from tests.support.small_disk import SmallDisk, small_disk

PATIENCE = 30.0
"""Seconds; RocksDB looks for space every five."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


async def test_a_store_resumes_when_space_is_freed(disk: SmallDisk, tmp_path: Path) -> None:
    store = open_store(disk.path / "store")
    partition = await start(store)
    await push_numbers(store, partition, 0, 5)
    disk.fill()

    stored = 5
    while await is_stored(store, number(partition, stored)):
        stored += 1
    with pytest.raises(StoreFull):
        await store.commit([Change()])
    crashed = shutil.copytree(disk.path / "store", tmp_path / "crashed")
    disk.free()
    wait_until(lambda: is_writable(store._db))
    await push_numbers(store, partition, stored, stored + 4)
    await store.close()

    assert await count_numbers(crashed) == stored
    assert await count_numbers(disk.path / "store") == stored + 4


async def is_stored(store: Store, change: Change) -> bool:
    try:
        await store.commit([change])
    except StoreFull:
        return False
    return True


async def test_what_was_written_before_the_disk_was_full_can_be_synced(disk: SmallDisk) -> None:
    database = Database(disk.path / "store")

    database.write(batch(about("id"), b"written"))
    disk.fill()
    with pytest.raises(StoreFull):
        database.write(batch(b"refused", bytes(1 << 20)))
    await database.sync()
    disk.free()
    wait_until(lambda: is_writable(database))
    database.close()

    database = Database(disk.path / "store")
    assert database.get_many([about("id"), b"refused"]) == [b"written", None]
    database.close()


def batch(key: bytes, value: bytes) -> WriteBatch:
    made = WriteBatch(raw_mode=True)
    made.put(key, value)
    return made


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "writing does not resume"
        time.sleep(0.1)


def is_writable(database: Database) -> bool:
    try:
        database.check()
    except StoreFull:
        return False
    return True


class Producer:
    """Pushes numbers to a server, and knows what became of each."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30)
        self.next = 0
        self.stored: list[int] = []
        self.unknown: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def push(self) -> int:
        n, self.next = self.next, self.next + 1
        # Large enough to leave the space that is reserved for the log soon.
        item = {"queue": "q", "payload": {"n": n, "fill": "x" * 10_000}, "transactionId": f"t{n}"}
        status = self._client.post("/api/v1/push", json={"items": [item]}).status_code
        if status == 201:
            self.stored.append(n)
        elif status != 503:
            self.unknown.append(n)
        return status

    def push_until(self, *statuses: int) -> None:
        while self.push() not in statuses:
            pass

    def status(self, path: str) -> int:
        return self._client.get(path).status_code

    def pop_all(self) -> list[int]:
        found: list[int] = []
        while True:
            answer = self._client.get("/api/v1/pop/queue/q?batch=1000&autoAck=true")
            if answer.status_code == 204:
                return found
            found += [message["data"]["n"] for message in answer.json()["messages"]]


def test_a_server_resumes_when_space_is_freed(disk: SmallDisk) -> None:
    with ServerProcess(disk.path / "data") as server, Producer(server.url) as producer:
        producer.push()
        disk.fill()
        producer.push_until(503)
        alive, ready = producer.status("/health/live"), producer.status("/health/ready")
        repeated = [producer.push() for _ in range(20)]
        disk.free()
        wait_until(lambda: producer.status("/health/ready") == 200)
        again = [producer.push() for _ in range(20)]
        found = producer.pop_all()

    assert (alive, ready) == (200, 503)
    assert repeated == [503] * 20
    assert again == [201] * 20
    assert producer.unknown == []
    assert found == producer.stored


def test_a_server_whose_store_cannot_resume_exits_and_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = ServerProcess(tmp_path / "data")
    with server, Producer(server.url) as producer:
        producer.push()
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (200_000, 200_000))
        producer.push_until(504)
        code = server.wait()
    with server, Producer(server.url) as consumer:
        found = consumer.pop_all()

    assert code == 3
    assert (
        "stopping because the store failed: error=the store stopped after a failed write"
        in capfd.readouterr().err
    )
    assert [n for n in found if n not in producer.unknown] == producer.stored
