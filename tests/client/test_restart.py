"""A real server over a directory, which goes away and comes back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skep import AsyncClient, AsyncProducer, AsyncWorker, Client, Draft, Message, Retry
from skep.client.consume import async_lease_keeper
from tests.support.blocking_client import in_threads
from tests.support.broker_builders import drafts, payloads, pop_all
from tests.support.in_process_server import Restarting

PATIENT = Retry(attempts=1000, first_delay=0.01, max_delay=0.05)


@pytest.fixture
async def server(tmp_path: Path, unused_port: int) -> AsyncIterator[Restarting]:
    server = Restarting(tmp_path / "data", unused_port)
    yield server
    await server.stop()


@pytest.fixture(params=["async", "sync"])
async def client(request: pytest.FixtureRequest, server: Restarting) -> AsyncIterator[AsyncClient]:
    if request.param == "async":
        async with AsyncClient(server.url, retry=PATIENT) as client:
            yield client
        return
    with Client(server.url, retry=PATIENT) as blocking:
        yield in_threads(blocking)


async def restart(server: Restarting) -> None:
    await server.stop()
    await server.start()


async def test_a_client_goes_on_after_a_restart(client: AsyncClient, server: Restarting) -> None:
    await server.start()
    await client.push("orders", drafts(1))
    delivery = await client.pop("orders", group="billing")
    assert delivery is not None

    await restart(server)

    (receipt,) = await client.push("orders", drafts(1, first=1))
    assert (receipt.offset, receipt.duplicate) == (1, False)
    assert (await client.ack(delivery)).completed == 1
    assert payloads(await client.pop("orders", group="billing")) == [b"1"]


async def test_a_push_waits_for_a_server_that_is_about_to_start(
    client: AsyncClient, server: Restarting
) -> None:
    pushing = asyncio.create_task(client.push("orders", drafts(2)))

    broker = await server.start()

    assert [receipt.offset for receipt in await pushing] == [0, 1]
    assert await pop_all(broker, batch=10) == [b"0", b"1"]


async def test_a_producer_goes_on_through_a_restart(server: Restarting) -> None:
    await server.start()
    async with AsyncClient(server.url, retry=PATIENT) as client:
        async with AsyncProducer(client, linger=0, max_batch=5, max_pending=20) as producer:
            futures = []
            for number in range(300):
                if number == 100:
                    restarting = asyncio.create_task(restart(server))
                draft = Draft(b"%d" % number, f"p{number % 3}")
                futures.append(await producer.push("orders", draft))
            await restarting

        assert not any(future.result().duplicate for future in futures)
        for rest in range(3):
            pushed = [b"%d" % number for number in range(rest, 300, 3)]
            delivery = await client.pop("orders", partition=f"p{rest}", batch=1000)
            assert payloads(delivery) == pushed


async def test_a_worker_goes_on_after_a_restart(
    server: Restarting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_lease_keeper, "_SETTLE_DELAY_SECONDS", 0.01)
    await server.start()
    seen: list[bytes] = []
    handled = asyncio.Condition()

    async def handle(message: Message) -> None:
        async with handled:
            seen.append(message.payload)
            handled.notify_all()

    async def until(count: int) -> None:
        async with handled:
            await handled.wait_for(lambda: len(seen) >= count)

    async with AsyncClient(server.url, retry=PATIENT) as client:
        worker = AsyncWorker(client, "orders", concurrency=2, max_backoff=0.05)
        running = asyncio.create_task(worker.run(handle))
        await client.push("orders", drafts(1))
        await until(1)
        await restart(server)
        await client.push("orders", drafts(1, first=1))
        await until(2)
        worker.stop()
        await running

        assert seen == [b"0", b"1"]
        assert await client.pop("orders") is None


async def test_a_handler_that_outlasts_a_restart_is_acknowledged(
    server: Restarting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_lease_keeper, "_SETTLE_DELAY_SECONDS", 0.01)
    await server.start()

    async with AsyncClient(server.url, retry=PATIENT) as client:
        await client.push("orders", drafts(2))
        async with AsyncWorker(client, "orders", max_backoff=0.05) as worker:
            async for message in worker:
                if message.offset == 0:
                    await restart(server)
                else:
                    worker.stop()

        assert await client.pop("orders") is None
