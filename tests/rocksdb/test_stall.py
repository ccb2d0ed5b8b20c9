"""A write stall of RocksDB: the server answers, refuses writes, and loses nothing."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from skep.errors import StoreStalled
from skep.store.rocksdb.store import RocksStore
from tests.support.broker_builders import drafts, make_broker, payloads, pop
from tests.support.rocksdb_builders import count_numbers, number, open_store, push_numbers, start
from tests.support.rocksdb_child_process import ROOT
from tests.support.stalling_server import set_limit, stall

PATIENCE = 20.0


class StallingServer:
    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self.url = url

    def stall(self) -> None:
        self._process.send_signal(signal.SIGUSR1)

    def recover(self) -> None:
        self._process.send_signal(signal.SIGUSR2)


@contextmanager
def stalling_server(path: Path) -> Iterator[StallingServer]:
    command = [sys.executable, "-m", "tests.support.stalling_server", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield StallingServer(process, process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[StallingServer]:
    with stalling_server(tmp_path / "data") as server:
        yield server


@pytest.fixture
async def http(server: StallingServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=10) as http:
        yield http


async def push(http: httpx.AsyncClient, payload: int) -> httpx.Response:
    item = {"queue": "q", "payload": payload, "transactionId": f"t{payload}"}
    return await http.post("/api/v1/push", json={"items": [item]})


async def until_stopped_is(http: httpx.AsyncClient, stopped: int) -> None:
    line = f"skep_rocksdb_write_stopped {stopped}.0"
    end = time.monotonic() + PATIENCE
    while line not in (await http.get("/metrics/prometheus")).text.splitlines():
        assert time.monotonic() < end, f"the metrics do not say {line}"


async def test_a_stalled_server_answers_and_refuses_pushes_until_the_stall_has_ended(
    server: StallingServer, http: httpx.AsyncClient
) -> None:
    before = await push(http, 0)
    server.stall()
    await until_stopped_is(http, 1)
    pushes = [asyncio.create_task(push(http, n)) for n in range(1, 6)]
    asked_at = time.monotonic()
    alive = await http.get("/health/live")
    alive_after = time.monotonic() - asked_at
    refused = await asyncio.gather(*pushes)
    at_once = await push(http, 6)
    ready = await http.get("/health/ready")
    popped = await http.get("/api/v1/pop/queue/q")
    server.recover()
    await until_stopped_is(http, 0)
    again = await push(http, 7)
    found = await http.get("/api/v1/pop/queue/q?batch=100&autoAck=true")

    assert before.status_code == again.status_code == 201
    assert (alive.status_code, ready.status_code, popped.status_code) == (200, 503, 503)
    assert alive_after < 1
    for answer in [*refused, at_once]:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["type"] == "StoreStalled"
    assert [message["data"] for message in found.json()["messages"]] == [0, 7]


async def test_the_metrics_tell_how_far_rocksdb_is_behind(
    server: StallingServer, http: httpx.AsyncClient
) -> None:
    await push(http, 0)
    server.stall()
    await until_stopped_is(http, 1)

    lines = (await http.get("/metrics/prometheus")).text.splitlines()

    assert "skep_rocksdb_level0_files 1.0" in lines
    assert "skep_rocksdb_immutable_memtables 0.0" in lines
    assert "skep_rocksdb_delayed_write_rate 0.0" in lines
    assert "skep_rocksdb_pending_compaction_bytes 0.0" in lines


async def test_a_short_stall_refuses_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store._context.stall_seconds = PATIENCE
    partition = await start(store)
    await push_numbers(store, partition, 0, 3)
    stall(store)
    pushing = asyncio.create_task(push_numbers(store, partition, 3, 6))
    creating = asyncio.create_task(store.create_partitions(partition.queue, ["other"]))
    await asyncio.wait([pushing, creating], timeout=0.05)
    waited = not pushing.done() and not creating.done()
    set_limit(store, 36)
    await pushing
    await creating
    await store.close()

    assert waited


async def test_what_a_stall_refused_is_not_stored(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    partition = await start(store)
    await push_numbers(store, partition, 0, 3)
    stall(store)

    refused = await asyncio.gather(
        store.commit([number(partition, 3)]),
        store.truncate(partition.queue, partition.number, 2, kind="age"),
        return_exceptions=True,
    )
    set_limit(store, 36)
    await push_numbers(store, partition, 3, 5)
    await store.close()

    assert [type(error) for error in refused] == [StoreStalled, StoreStalled]
    assert await count_numbers(tmp_path) == 5


async def test_a_group_whose_deletion_a_stall_refused_goes_on_where_it_was(tmp_path: Path) -> None:
    store = RocksStore(tmp_path)
    async with make_broker(store) as queue:
        await queue.push("orders", drafts(3))
        await queue.ack(await pop(queue, group="billing"))
        stall(store)
        with pytest.raises(StoreStalled):
            await queue.groups.delete("orders", "billing")
        set_limit(store, 36)

        assert payloads(await pop(queue, group="billing")) == [b"1"]
