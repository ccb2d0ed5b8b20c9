"""A worker with a handler: leases are renewed, failures reported, and a stop is clean."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from skep import AsyncClient, AsyncWorker, Broker, Draft, Message
from skep.client.consume import async_lease_keeper
from skep.errors import Invalid
from skep.testing.clock import ManualClock
from tests.support.broker_builders import (
    backlogs,
    dead,
    drafts,
    finish,
    offsets,
    partitions,
    pop,
    start,
    turn,
)
from tests.support.faulty_transport import Fault, Weather

PATIENCE = 10


class Seen:
    """A handler that remembers, and stops its worker after ``count`` messages."""

    def __init__(self, worker: AsyncWorker, count: int) -> None:
        self._worker = worker
        self._count = count
        self.payloads: list[bytes] = []

    async def handle(self, message: Message) -> None:
        self.payloads.append(message.payload)
        if len(self.payloads) == self._count:
            self._worker.stop()


class Held:
    """A handler whose calls begin, and end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Message] = []
        self.may_end = asyncio.Event()
        self._changed = asyncio.Condition()

    async def handle(self, message: Message) -> None:
        async with self._changed:
            self.begun.append(message)
            self._changed.notify_all()
        await self.may_end.wait()

    async def until(self, begun: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.begun) >= begun)


async def run(worker: AsyncWorker, handler: Callable[[Message], Awaitable[None]]) -> None:
    await asyncio.wait_for(worker.run(handler), PATIENCE)


async def test_every_message_is_handled_and_acknowledged(
    queue: AsyncClient, broker: Broker, weather: Weather
) -> None:
    await broker.push("orders", drafts(25))
    worker = AsyncWorker(queue, "orders", group="billing", batch=10)
    seen = Seen(worker, 25)

    await run(worker, seen.handle)

    assert seen.payloads == [b"%d" % n for n in range(25)]
    assert await backlogs(broker, group="billing") == {"Default": 0}
    assert weather.count("/settle") == 3


async def test_a_handler_can_be_named_beforehand(queue: AsyncClient, broker: Broker) -> None:
    await broker.push("orders", drafts(1))
    worker = AsyncWorker(queue, "orders")
    seen: list[Message] = []

    @worker.handler
    async def handle(message: Message) -> None:
        seen.append(message)
        worker.stop()

    await asyncio.wait_for(worker.run(), PATIENCE)

    assert offsets(await broker.pop("orders")) == []
    assert [message.payload for message in seen] == [b"0"]


async def test_a_handler_can_take_whole_deliveries(queue: AsyncClient, broker: Broker) -> None:
    await broker.push("orders", drafts(5))
    worker = AsyncWorker(queue, "orders", batch=3)
    sizes: list[int] = []

    async def handle(messages: list[Message]) -> None:
        sizes.append(len(messages))
        if sum(sizes) == 5:
            worker.stop()

    await asyncio.wait_for(worker.run_batches(handle), PATIENCE)

    assert sizes == [3, 2]
    assert await backlogs(broker) == {"Default": 0}


async def test_a_delivery_whose_handler_raises_comes_again_later(
    queue: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", drafts(3))
    worker = AsyncWorker(queue, "orders")

    async def handle(messages: list[Message]) -> None:
        worker.stop()
        raise ZeroDivisionError

    await asyncio.wait_for(worker.run_batches(handle), PATIENCE)

    assert await broker.pop("orders") is None
    clock.advance(10)
    assert offsets(await broker.pop("orders", batch=10)) == [0, 1, 2]


async def test_a_message_that_fails_among_others_becomes_a_dead_letter(
    queue: AsyncClient, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.push("orders", drafts(3))
    worker = AsyncWorker(queue, "orders")

    async def handle(message: Message) -> None:
        if message.offset == 2:
            worker.stop()
        if message.offset == 1:
            raise ZeroDivisionError("no")

    await run(worker, handle)

    (letter,) = await broker.dead_letters.list("orders")
    assert (letter.payload, letter.error) == (b"1", "ZeroDivisionError: no")
    assert await backlogs(broker) == {"Default": 0}
    assert "queue=orders partition=Default offset=1" in caplog.text


async def test_no_more_messages_are_handled_at_a_time_than_allowed(
    queue: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", [Draft(b"1", f"p{n}") for n in range(5)])
    worker = AsyncWorker(queue, "orders", concurrency=2)
    held = Held()
    running = asyncio.create_task(worker.run(held.handle))

    await held.until(begun=2)
    await turn()

    assert len(held.begun) == 2
    held.may_end.set()
    await held.until(begun=5)
    worker.stop()
    await finish(running)
    assert {message.partition for message in held.begun} == {f"p{n}" for n in range(5)}


async def test_messages_of_a_partition_are_handled_one_after_the_other(
    queue: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", [Draft(b"%d" % n, f"p{n % 3}") for n in range(60)])
    worker = AsyncWorker(queue, "orders", batch=4, concurrency=5)
    busy: set[str] = set()
    seen: dict[str, list[int]] = {}

    async def handle(message: Message) -> None:
        assert message.partition not in busy
        busy.add(message.partition)
        await asyncio.sleep(0)
        busy.remove(message.partition)
        seen.setdefault(message.partition, []).append(message.offset)
        if sum(map(len, seen.values())) == 60:
            worker.stop()

    await run(worker, handle)

    assert seen == {f"p{n}": list(range(20)) for n in range(3)}
    assert await dead(broker) == []


async def test_a_stop_finishes_what_is_begun_and_gives_back_the_rest(
    queue: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", drafts(3))
    worker = AsyncWorker(queue, "orders")
    held = Held()
    running = asyncio.create_task(worker.run(held.handle))
    await held.until(begun=1)

    worker.stop()
    await turn()
    assert not running.done()
    held.may_end.set()
    await finish(running)

    assert [message.offset for message in held.begun] == [0]
    assert offsets(await broker.pop("orders", batch=10)) == [1, 2]


async def test_a_stop_ends_a_long_poll_and_leaves_no_lease(
    queue: AsyncClient, broker: Broker, weather: Weather
) -> None:
    worker = AsyncWorker(queue, "orders")
    running = asyncio.create_task(worker.run(Held().handle))
    await weather.until("/orders", 1)

    worker.stop()
    await finish(running)

    await broker.push("orders", drafts(1))
    assert offsets(await broker.pop("orders")) == [0]


async def test_a_stop_ends_a_loop_after_the_message_in_hand(
    queue: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", drafts(3))

    async with AsyncWorker(queue, "orders") as worker:
        async for _ in worker:
            worker.stop()

    assert offsets(await broker.pop("orders", batch=10)) == [1, 2]


async def test_a_stop_ends_a_loop_that_waits(queue: AsyncClient, weather: Weather) -> None:
    async def loop(worker: AsyncWorker) -> None:
        async with worker:
            async for _ in worker:
                raise AssertionError("there is no message")

    worker = AsyncWorker(queue, "orders")
    looping = asyncio.create_task(loop(worker))
    await weather.until("/orders", 1)

    worker.stop()

    await finish(looping)


async def test_a_lease_is_renewed_while_a_handler_runs(
    queue: AsyncClient, broker: Broker, weather: Weather, clock: ManualClock
) -> None:
    await broker.push("orders", drafts(1))
    worker = AsyncWorker(queue, "orders", lease_seconds=1)

    async def handle(message: Message) -> None:
        clock.advance(0.7)
        await weather.until("/extend", 1)
        await turn()
        clock.advance(0.7)
        assert worker.holds(message)
        worker.stop()

    await run(worker, handle)

    assert await backlogs(broker) == {"Default": 0}


async def test_a_renewal_that_fails_is_tried_again(
    queue: AsyncClient, broker: Broker, weather: Weather, clock: ManualClock
) -> None:
    await broker.push("orders", drafts(1))
    worker = AsyncWorker(queue, "orders", lease_seconds=1)

    async def handle(message: Message) -> None:
        weather.coming += [Fault.REFUSED] * 4
        clock.advance(0.7)
        await weather.until("/extend", 5)
        await turn()
        clock.advance(0.7)
        assert worker.holds(message)
        worker.stop()

    await run(worker, handle)

    assert await backlogs(broker) == {"Default": 0}


async def test_a_lease_is_renewed_while_the_body_of_a_loop_runs(
    queue: AsyncClient, broker: Broker, weather: Weather, clock: ManualClock
) -> None:
    await broker.push("orders", drafts(1))

    async with AsyncWorker(queue, "orders", lease_seconds=1) as worker:
        async for message in worker:
            clock.advance(0.7)
            await weather.until("/extend", 1)
            await turn()
            clock.advance(0.7)
            assert worker.holds(message)
            worker.stop()

    assert await backlogs(broker) == {"Default": 0}


async def test_a_handler_can_learn_that_its_lease_is_lost(
    queue: AsyncClient,
    broker: Broker,
    weather: Weather,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await broker.push("orders", drafts(2))
    worker = AsyncWorker(queue, "orders", lease_seconds=1)
    seen: list[tuple[int, int, bool]] = []

    async def handle(message: Message) -> None:
        if message.attempt == 1:
            clock.advance(2)
            await weather.until("/extend", 1)
            await turn()
        seen.append((message.offset, message.attempt, worker.holds(message)))
        if message.offset == 1:
            worker.stop()

    await run(worker, handle)

    assert seen == [(0, 1, False), (0, 2, True), (1, 2, True)]
    assert await backlogs(broker) == {"Default": 0}
    assert "lease lost" in caplog.text


async def test_a_server_that_is_away_is_waited_for(
    queue: AsyncClient, broker: Broker, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_lease_keeper, "_SETTLE_DELAY_SECONDS", 0)
    await broker.push("orders", drafts(2))
    worker = AsyncWorker(queue, "orders", max_backoff=0)
    seen = Seen(worker, 2)
    # Pops fail, one comes through, then reporting fails for a while.
    weather.coming += [*[Fault.REFUSED] * 9, Fault.REQUEST_LOST, Fault.NONE, *[Fault.REFUSED] * 9]

    await run(worker, seen.handle)

    assert seen.payloads == [b"0", b"1"]
    assert await backlogs(broker) == {"Default": 0}


async def test_what_cannot_be_reported_comes_again(
    queue: AsyncClient, broker: Broker, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_lease_keeper, "SETTLE_TIMEOUT_SECONDS", 0)
    await broker.push("orders", drafts(1))
    worker = AsyncWorker(queue, "orders", lease_seconds=30)
    weather.coming += [Fault.NONE, *[Fault.REFUSED] * 4]
    seen = Seen(worker, 1)

    await run(worker, seen.handle)

    assert await backlogs(broker) == {"Default": 1}


async def test_an_error_that_will_not_pass_ends_all_of_it(
    queue: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", drafts(1))
    worker = AsyncWorker(queue, "orders", batch=0, concurrency=3)

    with pytest.raises(Invalid) as caught:
        await run(worker, Held().handle)

    assert caught.value.field == "batch"


async def test_a_run_that_is_cancelled_gives_back_what_it_has(
    queue: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", drafts(2))
    worker = AsyncWorker(queue, "orders")
    held = Held()
    running = asyncio.create_task(worker.run(held.handle))
    await held.until(begun=1)

    running.cancel()
    await asyncio.wait([running])

    assert running.cancelled()
    again = await pop(broker, batch=10)
    assert [(message.offset, message.attempt) for message in again.messages] == [(0, 2), (1, 2)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_run_in_order_if_asked_to(
    queue: AsyncClient, broker: Broker, number: signal.Signals
) -> None:
    await broker.push("orders", drafts(2))
    worker = AsyncWorker(queue, "orders", install_signal_handlers=True)
    before = signal.getsignal(number)

    async def handle(message: Message) -> None:
        os.kill(os.getpid(), number)
        await turn()

    await run(worker, handle)

    assert offsets(await broker.pop("orders", batch=10)) == [1]
    assert signal.getsignal(number) == before


async def test_a_signal_ends_a_loop_in_order_if_asked_to(
    queue: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", drafts(2))

    async with AsyncWorker(queue, "orders", install_signal_handlers=True) as worker:
        async for _ in worker:
            os.kill(os.getpid(), signal.SIGTERM)
            await turn()

    assert offsets(await broker.pop("orders", batch=10)) == [1]


async def test_deliveries_of_several_partitions_are_handled_whole(
    queue: AsyncClient, broker: Broker, weather: Weather
) -> None:
    await broker.push("orders", [Draft(b"1", f"p{n}") for n in range(4)])
    worker = AsyncWorker(queue, "orders", partitions=4)
    seen = Seen(worker, 4)

    await run(worker, seen.handle)

    assert weather.count("/settle") == 1
    assert partitions(await broker.pop("orders")) == []


async def test_a_worker_starts_where_it_asks_to(queue: AsyncClient, broker: Broker) -> None:
    await broker.push("orders", drafts(1))
    worker = AsyncWorker(queue, "orders", subscription_mode="new")
    seen = Seen(worker, 1)
    running = await start(worker.run(seen.handle))

    await broker.push("orders", drafts(1, first=1))

    await finish(running)
    assert seen.payloads == [b"1"]


async def test_a_run_without_a_handler_is_refused(queue: AsyncClient) -> None:
    worker = AsyncWorker(queue, "orders")

    with pytest.raises(Invalid, match="must be given"):
        await worker.run()
    with pytest.raises(Invalid, match="async function"):
        await worker.run(print)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="concurrency"):
        AsyncWorker(queue, "orders", concurrency=0)


async def test_a_handler_may_be_an_async_function_with_arguments_of_its_own(
    queue: AsyncClient, broker: Broker
) -> None:
    await broker.push("orders", drafts(1))
    worker = AsyncWorker(queue, "orders")
    seen: list[str] = []

    async def handle(name: str, message: Message) -> None:
        seen.append(name)
        worker.stop()

    await run(worker, partial(handle, "billing"))

    assert seen == ["billing"]
