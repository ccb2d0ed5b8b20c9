"""Acknowledging, failing and extending through a client."""

from typing import Any
from uuid import uuid4

import pytest

from skep import AsyncClient, Broker, Delivery, Verdict
from skep.errors import Invalid, LeaseLost, OutcomeUnknown
from skep.testing.clock import ManualClock
from tests.support.broker_builders import Settled, dead, drafts, lease_of, moment, offsets, pop_all
from tests.support.faulty_transport import Fault, Weather


@pytest.fixture
async def delivery(broker: Broker) -> Delivery:
    """Three messages of one partition under one lease."""
    await broker.push("orders", drafts(3))
    delivery = await broker.pop("orders", batch=3)
    assert delivery is not None
    return delivery


async def test_an_ack_settles_all_of_a_delivery(client: AsyncClient, delivery: Delivery) -> None:
    assert await client.ack(delivery) == Settled(completed=3, released=True)
    assert await client.pop("orders") is None


async def test_an_ack_can_name_messages_and_a_lease_by_its_id(
    client: AsyncClient, delivery: Delivery
) -> None:
    done = await client.ack(lease_of(delivery), delivery.messages[1:])

    assert done == Settled(completed=2)


async def test_a_failed_delivery_comes_again_later(
    client: AsyncClient, delivery: Delivery, clock: ManualClock
) -> None:
    done = await client.fail(delivery, error="the bank is down")

    assert done.retry_at is not None
    assert await client.pop("orders") is None
    clock.advance(10)
    assert offsets(await client.pop("orders", batch=3)) == [0, 1, 2]


async def test_a_failed_message_among_others_becomes_a_dead_letter(
    client: AsyncClient, broker: Broker, delivery: Delivery
) -> None:
    await client.fail(delivery, [delivery.messages[0]], error="no such account")
    await client.ack(delivery, delivery.messages[1:])

    (letter,) = await broker.dead_letters.list("orders")
    assert (letter.payload, letter.error) == (b"0", "no such account")


async def test_each_verdict_does_what_it_says(
    client: AsyncClient, broker: Broker, delivery: Delivery
) -> None:
    number = delivery.messages[0].partition_number

    done = await client.settle(
        delivery,
        [
            Verdict(number, 0),
            Verdict(number, 1, "dead_letter", "poison"),
            Verdict(number, 2, "retry"),
        ],
    )

    assert done == Settled(completed=1, dead_letters=1, released=True)
    assert done.given_up == ((number, 1),)
    assert await dead(broker) == [b"1"]
    assert await pop_all(broker) == [b"2"]


async def test_an_extended_lease_lives_on(
    client: AsyncClient, delivery: Delivery, clock: ManualClock
) -> None:
    clock.advance(299)

    until = await client.extend(delivery, 60)

    assert until == moment(clock, 60)
    clock.advance(59)
    assert (await client.ack(delivery)).completed == 3


async def test_what_comes_after_the_lease_is_over_changes_nothing(
    client: AsyncClient, delivery: Delivery, clock: ManualClock
) -> None:
    clock.advance(300)

    for late in (client.ack(delivery), client.fail(delivery), client.extend(delivery, 60)):
        with pytest.raises(LeaseLost) as caught:
            await late
        assert caught.value.lease_id == delivery.lease_id
    assert offsets(await client.pop("orders", batch=3)) == [0, 1, 2]


async def test_a_settlement_whose_request_is_lost_is_repeated(
    client: AsyncClient, delivery: Delivery, weather: Weather
) -> None:
    weather.coming.append(Fault.REQUEST_LOST)

    assert await client.ack(delivery) == Settled(completed=3, released=True)


async def test_a_settlement_that_was_done_counts_nothing_when_it_is_repeated(
    client: AsyncClient, delivery: Delivery, weather: Weather, broker: Broker
) -> None:
    weather.coming.append(Fault.ANSWER_LOST)

    done = await client.ack(delivery, delivery.messages[:1])

    assert done == Settled(completed=0)
    assert (await broker.ack(delivery)).completed == 2


async def test_nobody_knows_whether_a_lost_settlement_was_in_time_if_its_lease_is_gone(
    client: AsyncClient, delivery: Delivery, weather: Weather
) -> None:
    weather.coming.append(Fault.ANSWER_LOST)

    with pytest.raises(OutcomeUnknown, match="no longer held"):
        await client.ack(delivery)


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.REQUEST_LOST, Fault.REFUSED])
async def test_an_extension_is_repeated_whatever_happens_to_it(
    client: AsyncClient, delivery: Delivery, weather: Weather, clock: ManualClock, fault: Fault
) -> None:
    weather.coming += [fault, fault]

    assert await client.extend(delivery, 600) == moment(clock, 600)


@pytest.mark.parametrize(
    ("call", "arguments", "field"),
    [
        ("ack", ("no lease",), "lease"),
        ("ack", (str(uuid4()), []), "messages"),
        ("ack", (str(uuid4()), 5), "messages"),
        ("fail", (str(uuid4()),), "messages"),
        ("settle", (str(uuid4()), []), "verdicts"),
        ("settle", (str(uuid4()), [5]), "verdicts[0]"),
        ("settle", (str(uuid4()), [Verdict(0, 0, "lost")]), "verdicts[0].status"),  # type: ignore[arg-type]
        ("settle", (str(uuid4()), [Verdict(-1, 0)]), "verdicts[0].partition"),
        ("extend", (str(uuid4()), 0), "seconds"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(
    client: AsyncClient, broker: Broker, call: str, arguments: tuple[Any, ...], field: str
) -> None:
    with pytest.raises(Invalid) as over_http:
        await getattr(client, call)(*arguments)
    with pytest.raises(Invalid) as in_process:
        await getattr(broker, call)(*arguments)

    assert over_http.value.field == in_process.value.field == field


async def test_a_whole_lease_is_failed_by_its_id(client: AsyncClient, delivery: Delivery) -> None:
    settlement = await client.settle_all(lease_of(delivery), "failed", error="no")

    assert settlement.retry_at is not None
    assert settlement.released


async def test_a_whole_lease_is_given_back_by_its_id(
    client: AsyncClient, delivery: Delivery
) -> None:
    settlement = await client.settle_all(lease_of(delivery), "retry")

    assert settlement.released
    assert offsets(await client.pop("orders", batch=3)) == [0, 1, 2]


async def test_a_lease_that_holds_nothing_is_lost(client: AsyncClient) -> None:
    with pytest.raises(LeaseLost):
        await client.settle_all(str(uuid4()), "failed")


async def test_a_status_that_is_none_is_refused(client: AsyncClient, delivery: Delivery) -> None:
    with pytest.raises(Invalid, match="status"):
        await client.settle_all(delivery, "lost")  # type: ignore[arg-type]
