"""A producer: many drafts in few requests, in order, and no more than fits."""

import asyncio
from random import Random
from uuid import UUID

import pytest

from skep import AsyncClient, AsyncProducer, Broker, Draft, Receipt, Retry
from skep.client.produce.async_producer import BUFFERS
from skep.errors import Closed, Invalid, QueueFull, SkepError, Unavailable
from tests.client.conftest import async_client
from tests.support.broker_builders import drafts, pop_all, start, turn
from tests.support.faulty_transport import Fault, Gate, Weather

FOR_EVER = 3600.0
"""As long as a draft may linger if the test does not flush."""


def in_lane(lane: int, nth: int = 0) -> str:
    """The name of a partition that takes this lane."""
    names = (f"p{number}" for number in range(1000))
    return [name for name in names if hash(name) % BUFFERS == lane][nth]


def numbered(places: list[str]) -> list[Draft]:
    return [Draft(b"%d" % number, place) for number, place in enumerate(places)]


async def push_all(producer: AsyncProducer, some: list[Draft]) -> list[asyncio.Future[Receipt]]:
    return [await producer.push("orders", draft) for draft in some]


async def test_drafts_are_sent_together(
    queue: AsyncClient, broker: Broker, weather: Weather
) -> None:
    async with AsyncProducer(queue, linger=FOR_EVER) as producer:
        futures = await push_all(producer, drafts(100))

    assert weather.count("/push") == 1
    assert [future.result().offset for future in futures] == list(range(100))
    assert await pop_all(broker, batch=100) == [b"%d" % n for n in range(100)]


async def test_a_receipt_comes_when_the_draft_is_stored(queue: AsyncClient, broker: Broker) -> None:
    async with AsyncProducer(queue) as producer:
        receipt = await (await producer.push("orders", Draft(b"1", "alice", "o-1")))

        assert (receipt.partition, receipt.transaction_id) == ("alice", "o-1")
        assert (await broker.messages.get(receipt.id)).payload == b"1"


async def test_a_full_batch_does_not_linger(queue: AsyncClient, weather: Weather) -> None:
    async with AsyncProducer(queue, linger=FOR_EVER, max_batch=5) as producer:
        futures = await push_all(producer, drafts(10))

        await asyncio.gather(*futures)

    assert weather.count("/push") == 2


async def test_a_batch_is_full_when_it_has_enough_bytes(
    queue: AsyncClient, weather: Weather
) -> None:
    large = [Draft(b"x" * 400), Draft(b"x" * 400), Draft(b"x" * 400), Draft(b"x" * 5000)]
    async with AsyncProducer(queue, linger=FOR_EVER, max_bytes=1000) as producer:
        futures = await push_all(producer, large)

        await asyncio.gather(*futures)

    assert weather.count("/push") == 3


async def test_a_draft_does_not_wait_for_others_for_ever(queue: AsyncClient) -> None:
    async with AsyncProducer(queue, linger=0.001) as producer:
        future = await producer.push("orders", Draft(b"1"))

        assert (await asyncio.wait_for(future, 10)).offset == 0


async def test_a_flush_sends_what_lingers_and_waits_for_it(queue: AsyncClient) -> None:
    async with AsyncProducer(queue, linger=FOR_EVER, max_batch=3) as producer:
        futures = await push_all(producer, drafts(10))

        await producer.flush()

        assert all(future.done() for future in futures)
        await producer.flush()


async def test_each_queue_gets_what_is_meant_for_it(queue: AsyncClient, broker: Broker) -> None:
    async with AsyncProducer(queue) as producer:
        await producer.push("orders", Draft(b"1"))
        await producer.push("mails", Draft(b"2"))

    assert await pop_all(broker, "orders") == [b"1"]
    assert await pop_all(broker, "mails") == [b"2"]


def stormy(random: Random) -> list[Fault]:
    """About every second request goes wrong in one way or another."""
    return [random.choice([Fault.NONE, Fault.NONE, *Fault]) for _ in range(400)]


@pytest.mark.parametrize("seed", range(5))
async def test_every_partition_keeps_its_order_whatever_is_lost(
    broker: Broker, weather: Weather, seed: int
) -> None:
    random = Random(seed)
    weather.coming.extend(stormy(random))
    places = [f"p{random.randrange(9)}" for _ in range(300)]

    async with (
        async_client(broker, weather, Retry(attempts=100, max_delay=0)) as client,
        AsyncProducer(client, linger=0, max_batch=7, max_pending=50) as producer,
    ):
        futures = await push_all(producer, numbered(places))

    assert not any(future.result().duplicate for future in futures)
    for place in set(places):
        pushed = [b"%d" % number for number, each in enumerate(places) if each == place]
        assert await pop_all(broker, partition=place, group=place, batch=500) == pushed


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_overtakes_what_failed_without_failing_too(
    broker: Broker, weather: Weather, seed: int
) -> None:
    random = Random(seed)
    weather.coming.extend(stormy(random))
    places = [f"p{random.randrange(3)}" for _ in range(300)]

    async with (
        async_client(broker, weather, Retry(attempts=1)) as client,
        AsyncProducer(client, linger=0, max_batch=7) as producer,
    ):
        futures = await push_all(producer, numbered(places))

    for place in set(places):
        of_place = [n for n, each in enumerate(places) if each == place]
        ends = [futures[n].exception() for n in of_place]
        first = next(index for index, error in enumerate(ends) if error)
        assert all(isinstance(error, SkepError) for error in ends[first:])
        stored = await pop_all(broker, partition=place, group=place, batch=500)
        # The answer of the one request that failed may have been lost behind its commit.
        begin = [b"%d" % n for n in of_place]
        assert stored == begin[: len(stored)]
        assert len(stored) >= first


async def test_several_requests_are_under_way_but_one_per_lane(
    gated: AsyncClient, gate: Gate
) -> None:
    async with AsyncProducer(gated, linger=0, max_batch=1) as producer:
        for lane in range(BUFFERS):
            await producer.push("orders", Draft(b"1", in_lane(lane)))
            await producer.push("orders", Draft(b"2", in_lane(lane)))

        await gate.until(waiting=BUFFERS)
        await turn()

        assert gate.waiting == BUFFERS
        gate.open()


async def test_what_is_behind_a_failure_in_its_partition_is_not_sent(
    gated: AsyncClient, gate: Gate, broker: Broker
) -> None:
    mine, other = in_lane(0), in_lane(0, nth=1)
    async with AsyncProducer(gated, linger=0) as producer:
        failing = await producer.push("orders", Draft(b"1", mine))
        await gate.until(waiting=1)
        behind = await producer.push("orders", Draft(b"2", mine))
        beside = await producer.push("orders", Draft(b"3", other))

        gate.let(Fault.REQUEST_LOST)
        gate.open()
        await producer.flush()

        assert isinstance(behind.exception(), Unavailable)
        assert behind.exception().__cause__ is failing.exception()  # type: ignore[union-attr]
        assert beside.result().offset == 0
        after = await (await producer.push("orders", Draft(b"4", mine)))
        assert after.offset == 0
    assert await pop_all(broker, partition=mine) == [b"4"]


async def test_a_push_that_waits_for_room_does_not_overtake_a_failure(
    gated: AsyncClient, gate: Gate, broker: Broker
) -> None:
    mine, other = in_lane(0), in_lane(0, nth=1)
    async with AsyncProducer(gated, linger=0, max_pending=1) as producer:
        failing = await producer.push("orders", Draft(b"1", mine))
        await gate.until(waiting=1)
        behind = await start(producer.push("orders", Draft(b"2", mine)))
        beside = await start(producer.push("orders", Draft(b"3", other)))

        gate.let(Fault.REFUSED)
        gate.open()

        with pytest.raises(Unavailable, match="not sent"):
            await behind
        assert (await (await beside)).offset == 0
        assert isinstance(failing.exception(), Unavailable)
    assert await pop_all(broker) == [b"3"]


async def test_a_push_waits_while_there_is_no_room(gated: AsyncClient, gate: Gate) -> None:
    async with AsyncProducer(gated, linger=0, max_pending=2) as producer:
        await push_all(producer, drafts(2))
        third = await start(producer.push("orders", Draft(b"2")))

        assert not third.done()
        gate.open()
        assert (await (await third)).offset == 2


async def test_who_does_not_wait_any_longer_takes_no_room(gated: AsyncClient, gate: Gate) -> None:
    async with AsyncProducer(gated, linger=0, max_pending=1) as producer:
        await producer.push("orders", Draft(b"1"))
        impatient = await start(producer.push("orders", Draft(b"2")))
        patient = await start(producer.push("orders", Draft(b"3")))

        impatient.cancel()
        gate.open()

        assert (await (await patient)).offset == 1


async def test_an_error_is_that_of_the_server_and_is_logged_once(
    queue: AsyncClient, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.queues.configure("orders", max_size=1)
    async with AsyncProducer(queue) as producer:
        futures = await push_all(producer, drafts(2))
        await producer.flush()

        assert all(isinstance(future.exception(), QueueFull) for future in futures)
    del futures
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    "draft",
    [
        b"1",
        Draft("text"),  # type: ignore[arg-type]
        Draft(b"1", ""),
        Draft(b"1", []),  # type: ignore[arg-type]
        Draft(b"1", transaction_id=""),
        Draft(b"1", trace_id=UUID(int=0)),
    ],
)
async def test_a_draft_that_can_never_be_stored_does_not_spoil_a_batch(
    queue: AsyncClient, draft: Draft
) -> None:
    async with AsyncProducer(queue, linger=FOR_EVER) as producer:
        good = await producer.push("orders", Draft(b"1"))

        with pytest.raises(Invalid):
            await producer.push("orders", draft)

    assert good.result().offset == 0


async def test_a_closed_producer_takes_nothing(gated: AsyncClient, gate: Gate) -> None:
    producer = AsyncProducer(gated, linger=0, max_pending=1)
    future = await producer.push("orders", Draft(b"1"))
    waiting = await start(producer.push("orders", Draft(b"2")))
    closing = await start(producer.close())

    with pytest.raises(Closed):
        await producer.push("orders", Draft(b"3"))
    gate.open()
    await closing

    assert future.result().offset == 0
    with pytest.raises(Closed):
        await waiting


async def test_nobody_has_to_wait_for_his_receipt(queue: AsyncClient, broker: Broker) -> None:
    async with AsyncProducer(queue, linger=FOR_EVER) as producer:
        first, _ = await push_all(producer, drafts(2))
        first.cancel()

    assert await pop_all(broker, batch=10) == [b"0", b"1"]


async def test_a_close_that_is_cancelled_leaves_nobody_waiting(
    gated: AsyncClient, gate: Gate
) -> None:
    producer = AsyncProducer(gated, linger=0, max_batch=1)
    futures = await push_all(producer, drafts(2))
    closing = await start(producer.close())

    closing.cancel()
    await asyncio.wait(futures)

    assert all(future.cancelled() for future in futures)


@pytest.mark.parametrize("bound", ["max_batch", "max_bytes", "max_pending"])
def test_a_producer_that_could_send_nothing_is_refused(queue: AsyncClient, bound: str) -> None:
    with pytest.raises(Invalid):
        AsyncProducer(queue, **{bound: 0})
