"""A loop over messages, in each kind of client, and the outcome of messages it does not finish."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Protocol

import httpx
import pytest

from skep import AsyncConsumer, AsyncWorker, Broker, Client, Consumer, Draft, Message
from skep.client.consume import async_lease_keeper, sync_lease_keeper
from skep.errors import Invalid
from skep.testing.clock import ManualClock
from tests.client.conftest import AT_ONCE, async_client
from tests.support.blocking_client import LoopInThreads
from tests.support.broker_builders import backlogs, dead, drafts, offsets, payloads, pop
from tests.support.faulty_transport import Fault, FaultyBlocking, Weather
from tests.support.in_process_server import serving


class Consume(Protocol):
    """Makes something to go through the messages of a queue with."""

    def __call__(self, queue: str = "orders", **asked: Any) -> Any: ...


@pytest.fixture(params=["async", "worker", "sync"])
async def consume(
    request: pytest.FixtureRequest, broker: Broker, weather: Weather
) -> AsyncIterator[Consume]:
    if request.param == "sync":
        transport = FaultyBlocking(httpx.HTTPTransport(), weather)
        async with serving(broker) as url:
            with Client(url, retry=AT_ONCE, transport=transport) as blocking:
                yield lambda queue="orders", **asked: LoopInThreads(
                    Consumer(blocking, queue, **asked)
                )
        return
    kind = AsyncWorker if request.param == "worker" else AsyncConsumer
    async with async_client(broker, weather) as client:
        yield lambda queue="orders", **asked: kind(client, queue, **asked)


async def go_through(messages: Any, count: int) -> list[bytes]:
    """The payloads of so many messages; the last of them is left with ``break``."""
    found: list[bytes] = []
    async with messages:
        async for message in messages:
            found.append(message.payload)
            if len(found) == count:
                break
    return found


async def fail_at(messages: Any, offset: int) -> None:
    """A loop whose body raises at this message."""
    with suppress(ZeroDivisionError):
        async with messages:
            async for message in messages:
                if message.offset == offset:
                    raise ZeroDivisionError("no")


async def test_a_message_is_acknowledged_when_the_next_is_asked_for(
    consume: Consume, broker: Broker
) -> None:
    await broker.push("orders", drafts(3))
    left: list[int] = []

    async with consume() as messages:
        async for message in messages:
            left.append((await backlogs(broker))["Default"])
            if message.offset == 2:
                break

    assert left == [3, 2, 1]


async def test_messages_come_in_order_over_many_deliveries(
    consume: Consume, broker: Broker
) -> None:
    await broker.push("orders", drafts(25))

    assert await go_through(consume(batch=10), 25) == [b"%d" % n for n in range(25)]


async def test_what_is_left_with_break_is_given_back_at_once(
    consume: Consume, broker: Broker
) -> None:
    await broker.push("orders", drafts(3))

    await go_through(consume(), 2)

    assert offsets(await broker.pop("orders", batch=10)) == [1, 2]
    assert await dead(broker) == []


async def test_a_message_alone_that_fails_comes_again_later(
    consume: Consume, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", drafts(2))

    await fail_at(consume(batch=1), 0)

    assert await broker.pop("orders") is None
    clock.advance(10)
    again = await pop(broker)
    assert (again.messages[0].offset, again.messages[0].attempt) == (0, 2)


async def test_a_message_that_fails_after_others_becomes_a_dead_letter(
    consume: Consume, broker: Broker
) -> None:
    await broker.push("orders", drafts(4))

    await fail_at(consume(), 1)

    (letter,) = await broker.dead_letters.list("orders")
    assert (letter.payload, letter.error) == (b"1", "ZeroDivisionError: no")
    assert offsets(await broker.pop("orders", batch=10)) == [2, 3]


async def test_a_delivery_of_which_nothing_succeeds_comes_again_as_a_whole(
    consume: Consume, broker: Broker, clock: ManualClock
) -> None:
    await broker.push("orders", drafts(3))

    await fail_at(consume(), 0)

    assert await broker.pop("orders") is None
    clock.advance(10)
    assert offsets(await broker.pop("orders", batch=10)) == [0, 1, 2]
    assert await dead(broker) == []


async def test_a_failure_in_one_partition_does_not_touch_another(
    consume: Consume, broker: Broker
) -> None:
    await broker.push("orders", [Draft(b"a", "alice"), Draft(b"b", "bob"), Draft(b"c", "bob")])

    await fail_at(consume(partitions=2), 0)

    assert payloads(await broker.pop("orders", batch=10)) == [b"b", b"c"]
    assert await dead(broker) == []


async def test_what_is_pushed_later_is_waited_for(consume: Consume, broker: Broker) -> None:
    async def push_more(message: Message) -> None:
        await broker.push("orders", drafts(1, first=message.offset + 1))

    await broker.push("orders", drafts(1))
    async with consume() as messages:
        async for message in messages:
            if message.offset == 3:
                break
            await push_more(message)

    assert message.payload == b"3"


async def test_a_server_that_is_away_is_waited_for(
    consume: Consume, broker: Broker, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_lease_keeper, "_SETTLE_DELAY_SECONDS", 0)
    monkeypatch.setattr(sync_lease_keeper, "_SETTLE_DELAY_SECONDS", 0)
    await broker.push("orders", drafts(3))
    weather.coming += [Fault.REFUSED] * 10 + [Fault.REQUEST_LOST, Fault.NONE] + [Fault.REFUSED] * 9

    assert await go_through(consume(max_backoff=0), 3) == [b"0", b"1", b"2"]


async def test_a_delivery_whose_lease_is_lost_is_left_and_comes_again(
    consume: Consume, broker: Broker, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.push("orders", drafts(3))
    seen: list[tuple[int, int]] = []

    async with consume() as messages:
        async for message in messages:
            seen.append((message.offset, message.attempt))
            if seen == [(0, 1)]:
                clock.advance(300)
            if message.offset == 2:
                break

    assert seen == [(0, 1), (0, 2), (1, 2), (2, 2)]
    assert "lease lost" in caplog.text


async def test_a_loop_that_nobody_entered_is_refused(consume: Consume) -> None:
    with pytest.raises(Invalid, match="must be entered"):
        aiter(consume())


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"queue": ""}, "queue"),
        ({"group": ""}, "group"),
        ({"max_backoff": -1}, "max_backoff"),
    ],
)
async def test_what_cannot_be_consumed_is_refused_at_once(
    consume: Consume, asked: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        consume(**asked)

    assert caught.value.field == field


async def test_an_error_that_will_not_pass_ends_the_loop(consume: Consume) -> None:
    with pytest.raises(Invalid) as caught:
        await go_through(consume(batch=0), 1)

    assert caught.value.field == "batch"


async def test_the_lease_of_what_is_left_is_renewed_between_messages(
    consume: Consume, broker: Broker, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.push("orders", drafts(2))
    now = 0.0
    monkeypatch.setattr(async_lease_keeper, "monotonic", lambda: now)
    monkeypatch.setattr(sync_lease_keeper, "monotonic", lambda: now)

    async with consume(lease_seconds=30) as messages:
        async for message in messages:
            now += 10.0
            if message.offset == 1:
                break

    assert weather.count("/extend") == 1
