"""A blocking worker: what an asynchronous one does, with handlers in threads."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

import skep
from skep import Broker, Client, Draft, Message, Worker
from skep.client.consume import sync_lease_keeper, sync_poller
from skep.client.consume.worker import Handler
from skep.errors import Invalid
from skep.testing.clock import ManualClock
from tests.client.conftest import AT_ONCE
from tests.support.broker_builders import backlogs, dead, drafts, offsets, partitions, pop
from tests.support.faulty_transport import Fault, FaultyBlocking, Weather
from tests.support.in_process_server import serving

PATIENCE = 10


@pytest.fixture
async def blocking(broker: Broker, weather: Weather) -> AsyncIterator[Client]:
    transport = FaultyBlocking(httpx.HTTPTransport(), weather)
    async with serving(broker) as url:
        with Client(url, retry=AT_ONCE, transport=transport) as client:
            yield client


class Seen:
    """A handler that records payloads and stops its worker after ``count`` messages."""

    def __init__(self, worker: Worker, count: int) -> None:
        self._worker = worker
        self._count = count
        self.payloads: list[bytes] = []

    def handle(self, message: Message) -> None:
        self.payloads.append(message.payload)
        if len(self.payloads) == self._count:
            self._worker.stop()


class Held:
    """A handler whose calls return when the test allows it."""

    def __init__(self) -> None:
        self.started: list[Message] = []
        self.may_return = threading.Event()

    def handle(self, message: Message) -> None:
        self.started.append(message)
        assert self.may_return.wait(PATIENCE)

    async def until(self, started: int) -> None:
        await asyncio.to_thread(wait_for, lambda: len(self.started) >= started)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def run(worker: Worker, handler: Handler | None = None) -> None:
    await asyncio.wait_for(asyncio.to_thread(worker.run, handler), PATIENCE)


async def test_every_message_is_handled_and_acknowledged(
    blocking: Client, broker: Broker, weather: Weather
) -> None:
    await broker.push("orders", drafts(25))
    worker = Worker(blocking, "orders", group="billing", batch=10)
    seen = Seen(worker, 25)

    await run(worker, seen.handle)

    assert seen.payloads == [b"%d" % n for n in range(25)]
    assert await backlogs(broker, group="billing") == {"Default": 0}
    assert weather.count("/settle") == 3


async def test_a_handler_can_be_registered_before_the_run(blocking: Client, broker: Broker) -> None:
    await broker.push("orders", drafts(1))
    worker = Worker(blocking, "orders")
    seen: list[bytes] = []

    @worker.handler
    def handle(message: Message) -> None:
        seen.append(message.payload)
        worker.stop()

    await run(worker)

    assert offsets(await broker.pop("orders")) == []
    assert seen == [b"0"]


async def test_a_handler_can_take_whole_deliveries(blocking: Client, broker: Broker) -> None:
    await broker.push("orders", drafts(5))
    worker = Worker(blocking, "orders", batch=3)
    sizes: list[int] = []

    def handle(messages: list[Message]) -> None:
        sizes.append(len(messages))
        if sum(sizes) == 5:
            worker.stop()

    await asyncio.wait_for(asyncio.to_thread(worker.run_batches, handle), PATIENCE)

    assert sizes == [3, 2]
    assert await backlogs(broker) == {"Default": 0}


async def test_a_delivery_whose_handler_raises_is_retried_later(
    blocking: Client, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", drafts(3))
    worker = Worker(blocking, "orders")

    def handle(messages: list[Message]) -> None:
        worker.stop()
        raise ZeroDivisionError

    await asyncio.wait_for(asyncio.to_thread(worker.run_batches, handle), PATIENCE)

    assert await broker.pop("orders") is None
    clock.advance(10)
    assert offsets(await broker.pop("orders", batch=10)) == [0, 1, 2]


async def test_a_message_that_fails_among_others_becomes_a_dead_letter(
    blocking: Client, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.push("orders", drafts(3))
    worker = Worker(blocking, "orders")

    def handle(message: Message) -> None:
        if message.offset == 2:
            worker.stop()
        if message.offset == 1:
            raise ZeroDivisionError("no")

    await run(worker, handle)

    (letter,) = await broker.dead_letters.list("orders")
    assert (letter.payload, letter.error) == (b"1", "ZeroDivisionError: no")
    assert await backlogs(broker) == {"Default": 0}
    assert "queue=orders partition=Default offset=1" in caplog.text


async def test_no_more_deliveries_are_handled_at_a_time_than_allowed(
    blocking: Client, broker: Broker, weather: Weather
) -> None:
    await broker.push("orders", [Draft(b"1", f"p{n}") for n in range(5)])
    worker = Worker(blocking, "orders", concurrency=2, wait=0)
    held = Held()
    running = asyncio.create_task(run(worker, held.handle))

    await held.until(started=2)

    assert (len(held.started), weather.count("/orders")) == (2, 2)
    held.may_return.set()
    await held.until(started=5)
    worker.stop()
    await running
    assert {message.partition for message in held.started} == {f"p{n}" for n in range(5)}


async def test_messages_of_a_partition_are_handled_in_order(
    blocking: Client, broker: Broker
) -> None:
    await broker.push("orders", [Draft(b"%d" % n, f"p{n % 3}") for n in range(60)])
    worker = Worker(blocking, "orders", batch=4, concurrency=5, wait=0, max_backoff=0.01)
    busy: set[str] = set()
    seen: dict[str, list[int]] = {f"p{n}": [] for n in range(3)}

    def handle(message: Message) -> None:
        assert message.partition not in busy
        busy.add(message.partition)
        time.sleep(0)
        busy.remove(message.partition)
        seen[message.partition].append(message.offset)
        if sum(map(len, seen.values())) == 60:
            worker.stop()

    await run(worker, handle)

    assert seen == {f"p{n}": list(range(20)) for n in range(3)}
    assert await dead(broker) == []


async def test_a_stop_finishes_the_current_message_and_releases_the_rest(
    blocking: Client, broker: Broker
) -> None:
    await broker.push("orders", drafts(3))
    worker = Worker(blocking, "orders")
    held = Held()
    running = asyncio.create_task(run(worker, held.handle))
    await held.until(started=1)

    worker.stop()
    held.may_return.set()
    await running

    assert [message.offset for message in held.started] == [0]
    assert offsets(await broker.pop("orders", batch=10)) == [1, 2]


async def test_a_stop_takes_a_second_while_no_message_comes_and_leaves_no_lease(
    blocking: Client, broker: Broker, weather: Weather, clock: ManualClock
) -> None:
    worker = Worker(blocking, "orders")
    running = asyncio.create_task(run(worker, Held().handle))
    await asyncio.to_thread(wait_for, lambda: weather.count("/orders") >= 1)

    worker.stop()
    clock.advance(1)
    await running

    await broker.push("orders", drafts(1))
    assert offsets(await broker.pop("orders")) == [0]


async def test_a_stop_ends_the_delay_after_a_failed_pop(
    blocking: Client,
    weather: Weather,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sync_poller, "_FIRST_DELAY_SECONDS", 3600)
    weather.coming += [Fault.REFUSED] * 4
    worker = Worker(blocking, "orders", max_backoff=3600)
    running = asyncio.create_task(run(worker, Held().handle))
    await asyncio.to_thread(wait_for, lambda: "delay=3600.0s" in caplog.text)

    worker.stop()

    await running


async def test_a_lease_is_renewed_while_a_handler_runs(
    blocking: Client, broker: Broker, weather: Weather, clock: ManualClock
) -> None:
    await broker.push("orders", drafts(1))
    worker = Worker(blocking, "orders", lease_seconds=1)

    def handle(message: Message) -> None:
        weather.coming += [Fault.REFUSED] * 4
        clock.advance(0.7)
        # The first renewal fails, in four attempts; the second one succeeds.
        wait_for(lambda: weather.count("/extend") >= 6)
        clock.advance(0.7)
        assert worker.holds(message)
        worker.stop()

    await run(worker, handle)

    assert await backlogs(broker) == {"Default": 0}


async def test_a_handler_can_check_whether_its_lease_is_lost(
    blocking: Client, broker: Broker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.push("orders", drafts(2))
    worker = Worker(blocking, "orders", lease_seconds=1)
    seen: list[tuple[int, int, bool]] = []

    def handle(message: Message) -> None:
        if message.attempt == 1:
            clock.advance(2)
            wait_for(lambda: not worker.holds(message))
        seen.append((message.offset, message.attempt, worker.holds(message)))
        if message.offset == 1:
            worker.stop()

    await run(worker, handle)

    assert seen == [(0, 1, False), (0, 2, True), (1, 2, True)]
    assert await backlogs(broker) == {"Default": 0}
    assert "lease lost" in caplog.text


async def test_pops_and_settlements_are_retried_while_the_server_is_unavailable(
    blocking: Client, broker: Broker, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_lease_keeper, "_SETTLE_DELAY_SECONDS", 0)
    await broker.push("orders", drafts(2))
    worker = Worker(blocking, "orders", max_backoff=0)
    seen = Seen(worker, 2)
    weather.coming += [*[Fault.REFUSED] * 9, Fault.REQUEST_LOST, Fault.NONE, *[Fault.REFUSED] * 9]

    await run(worker, seen.handle)

    assert seen.payloads == [b"0", b"1"]
    assert await backlogs(broker) == {"Default": 0}


async def test_messages_that_cannot_be_settled_are_redelivered(
    blocking: Client, broker: Broker, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_lease_keeper, "SETTLE_TIMEOUT_SECONDS", 0)
    await broker.push("orders", drafts(1))
    worker = Worker(blocking, "orders", lease_seconds=30)
    weather.coming += [Fault.NONE, *[Fault.REFUSED] * 4]

    await run(worker, Seen(worker, 1).handle)

    assert await backlogs(broker) == {"Default": 1}


async def test_an_error_that_is_not_temporary_ends_the_run(
    blocking: Client, broker: Broker
) -> None:
    await broker.push("orders", drafts(1))
    worker = Worker(blocking, "orders", batch=0, concurrency=3)

    with pytest.raises(Invalid) as caught:
        await run(worker, Held().handle)

    assert caught.value.field == "batch"


async def test_a_handler_that_exits_ends_the_run_and_releases_its_messages(
    blocking: Client, broker: Broker
) -> None:
    await broker.push("orders", drafts(2))

    def handle(message: Message) -> None:
        raise SystemExit(3)

    def run_until_exit() -> None:
        with pytest.raises(SystemExit):
            Worker(blocking, "orders").run(handle)

    await asyncio.to_thread(run_until_exit)

    again = await pop(broker, batch=10)
    assert [(message.offset, message.attempt) for message in again.messages] == [(0, 2), (1, 2)]


async def test_deliveries_of_several_partitions_are_settled_together(
    blocking: Client, broker: Broker, weather: Weather
) -> None:
    await broker.push("orders", [Draft(b"1", f"p{n}") for n in range(4)])
    worker = Worker(blocking, "orders", partitions=4)

    await run(worker, Seen(worker, 4).handle)

    assert weather.count("/settle") == 1
    assert partitions(await broker.pop("orders")) == []


async def test_a_worker_starts_where_it_is_told_to(blocking: Client, broker: Broker) -> None:
    await broker.push("orders", drafts(1))
    worker = Worker(blocking, "orders", subscription_mode="new")
    seen = Seen(worker, 1)
    running = asyncio.create_task(run(worker, seen.handle))
    await asyncio.to_thread(wait_for, lambda: bool(blocking.groups.list("orders")))

    await broker.push("orders", drafts(1, first=1))

    await running
    assert seen.payloads == [b"1"]


async def test_a_run_without_a_handler_is_rejected(blocking: Client) -> None:
    worker = Worker(blocking, "orders")

    async def handle(message: Message) -> None: ...

    with pytest.raises(Invalid, match="must be given"):
        worker.run()
    with pytest.raises(Invalid, match="not async"):
        worker.run(handle)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="concurrency"):
        Worker(blocking, "orders", concurrency=0)


@contextmanager
def served_in_a_thread() -> Iterator[str]:
    """The URL of a server that leaves the main thread to the test."""
    urls: list[str] = []
    ended = threading.Event()

    async def serve() -> None:
        async with skep.open("memory://") as broker, serving(broker) as url:
            urls.append(url)
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        wait_for(lambda: bool(urls))
        yield urls[0]
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_run_if_asked_to(number: signal.Signals) -> None:
    with served_in_a_thread() as url, Client(url) as client:
        client.push("orders", drafts(2))
        before = signal.getsignal(number)

        def handle(message: Message) -> None:
            os.kill(os.getpid(), number)
            wait_for(lambda: signal.getsignal(number) == before)

        Worker(client, "orders", install_signal_handlers=True).run(handle)

        assert offsets(client.pop("orders", batch=10)) == [1]
