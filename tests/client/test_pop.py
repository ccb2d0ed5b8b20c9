"""Popping through a client."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from skep import AsyncClient, Broker, Delivery, Draft
from skep.errors import Invalid, OutcomeUnknown
from skep.testing.clock import ManualClock
from tests.support.broker_builders import drafts, moment, offsets, partitions, payloads
from tests.support.faulty_transport import Fault, Weather

TRACE = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")
NAMES = ["a b", "a/b", "a%2Fb", "..", ".", "ä€😀", "?a=1&b", "#", "a.b.c", "+"]


async def taken(client: AsyncClient, **asked: Any) -> Delivery:
    delivery = await client.pop("orders", **asked)
    assert delivery is not None
    return delivery


async def test_a_delivery_is_the_one_that_the_broker_gives(
    client: AsyncClient, broker: Broker, clock: ManualClock
) -> None:
    await broker.push(
        "orders", [Draft(b"1", "alice", "o-1", TRACE), Draft(b"2", "alice")], producer="web"
    )

    delivery = await taken(client, group="billing", batch=10)

    direct = await broker.pop("orders", group="shipping", batch=10)
    assert direct is not None
    assert delivery.messages == direct.messages
    assert (delivery.group, delivery.truncated) == ("billing", 0)
    assert (delivery.expires_at, delivery.lease_seconds) == (moment(clock, 300), 300)


async def test_an_empty_queue_gives_nothing(client: AsyncClient) -> None:
    assert await client.pop("orders") is None


async def test_what_is_asked_for_is_what_comes(client: AsyncClient) -> None:
    await client.push("orders", [Draft(b"0", name) for name in ("alice", "bob", "carol")] * 2)

    assert payloads(await taken(client)) == [b"0"]
    assert partitions(await taken(client, group="b", partition="bob", batch=5)) == ["bob"]
    several = await taken(client, group="c", batch=5, partitions=3)
    assert (len(several.messages), len(partitions(several))) == (5, 3)
    assert (await taken(client, group="d", lease_seconds=20)).lease_seconds == 20


async def test_a_pop_can_ask_by_namespace_and_task(client: AsyncClient) -> None:
    await client.push("shop.orders.eu", [Draft(b"1")])
    await client.push("shop.refunds.eu", [Draft(b"2")])

    assert payloads(await client.pop(namespace="shop", task="refunds")) == [b"2"]
    assert payloads(await client.pop(namespace="shop")) == [b"1"]
    assert await client.pop(task="other") is None


async def test_an_automatic_ack_leaves_no_lease(client: AsyncClient) -> None:
    await client.push("orders", drafts(1))

    delivery = await taken(client, auto_ack=True)

    assert (delivery.lease_id, delivery.expires_at, delivery.lease_seconds) == (None, None, None)
    assert await client.pop("orders") is None
    with pytest.raises(Invalid):
        await client.ack(delivery)


async def test_a_group_starts_where_it_asks_to(client: AsyncClient, clock: ManualClock) -> None:
    await client.push("orders", drafts(1))
    clock.advance(10)
    since = moment(clock)
    await client.push("orders", drafts(1, first=1))
    clock.advance(10)

    assert await client.pop("orders", group="a", subscription_mode="new") is None
    assert offsets(await taken(client, group="b", subscription_from=since)) == [1]
    assert offsets(await taken(client, group="c", subscription_mode="all")) == [0]


async def test_a_long_poll_ends_when_something_is_pushed(
    client: AsyncClient, broker: Broker
) -> None:
    assert await client.pop("orders") is None
    waiting = asyncio.create_task(client.pop("orders", wait=30))

    await broker.push("orders", drafts(1))

    assert payloads(await asyncio.wait_for(waiting, 10)) == [b"0"]


async def test_popping_in_maintenance_gives_nothing(client: AsyncClient, broker: Broker) -> None:
    await client.push("orders", drafts(1))
    await broker.maintenance.set_popping(True)

    assert await client.pop("orders", wait=30) is None


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_can_be_popped_from(client: AsyncClient, name: str) -> None:
    await client.push(name, [Draft(b"1", name)])

    delivery = await client.pop(name, partition=name, group=name)

    assert delivery is not None
    (message,) = delivery.messages
    assert (message.queue, message.partition, delivery.group) == (name, name, name)


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.REQUEST_LOST])
async def test_a_pop_whose_answer_is_lost_is_not_repeated(
    client: AsyncClient, clock: ManualClock, weather: Weather, fault: Fault
) -> None:
    await client.push("orders", drafts(1))
    weather.coming.append(fault)

    with pytest.raises(OutcomeUnknown):
        await client.pop("orders")

    clock.advance(300)
    assert offsets(await client.pop("orders")) == [0]


async def test_a_pop_that_finds_nobody_is_tried_again(
    client: AsyncClient, weather: Weather
) -> None:
    await client.push("orders", drafts(1))
    weather.coming += [Fault.REFUSED, Fault.REFUSED]

    assert offsets(await client.pop("orders")) == [0]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "queue"),
        ({"queue": "orders", "namespace": "shop"}, "queue"),
        ({"namespace": "shop", "partition": "alice"}, "partition"),
        ({"queue": ""}, "queue"),
        ({"queue": "orders", "group": ""}, "group"),
        ({"queue": "orders", "partition": "\n"}, "partition"),
        ({"queue": "orders", "batch": 0}, "batch"),
        ({"queue": "orders", "partitions": 0}, "partitions"),
        ({"queue": "orders", "lease_seconds": 0}, "lease_seconds"),
        ({"queue": "orders", "wait": -1}, "wait"),
        ({"queue": "orders", "wait": 3601}, "wait"),
        ({"queue": "orders", "auto_ack": "yes"}, "auto_ack"),
        ({"queue": "orders", "subscription_mode": "some"}, "subscription_mode"),
        ({"queue": "orders", "subscription_from": datetime.min}, "subscription_from"),  # noqa: DTZ901
    ],
)
async def test_what_cannot_be_asked_for_is_refused_by_name(
    client: AsyncClient, broker: Broker, asked: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as over_http:
        await client.pop(**asked)
    with pytest.raises(Invalid) as in_process:
        await broker.pop(**asked)

    assert over_http.value.field == in_process.value.field == field


async def test_a_pop_from_an_instant_keeps_its_microseconds(
    client: AsyncClient, clock: ManualClock
) -> None:
    await client.push("orders", drafts(1))
    pushed_at = moment(clock)
    clock.advance(1)

    later = pushed_at + timedelta(microseconds=1)
    assert await client.pop("orders", group="a", subscription_from=later) is None
    assert offsets(await taken(client, group="b", subscription_from=pushed_at)) == [0]
