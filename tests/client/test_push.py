"""Pushing through a client, also when answers are lost."""

from uuid import UUID

import pytest

from skep import AsyncClient, Broker, Draft
from skep.errors import EncryptionUnavailable, Invalid, OutcomeUnknown, QueueFull, Unavailable
from tests.support.broker_builders import drafts, payloads, pop_all
from tests.support.faulty_transport import Fault, Weather

TRACE = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")


async def test_a_payload_arrives_byte_for_byte(client: AsyncClient, broker: Broker) -> None:
    sent = [b'{"n": 1, "n": 2}', b" 1 ", b"", b"\x00\xff", "ä".encode(), b"9" * 40]

    await client.push("orders", [Draft(payload) for payload in sent])

    assert payloads(await broker.pop("orders", batch=10)) == sent
    assert payloads(await client.pop("orders", group="other", batch=10)) == sent


async def test_a_receipt_says_where_the_message_is(client: AsyncClient, broker: Broker) -> None:
    first, second, third = await client.push(
        "orders", [Draft(b"1", "alice", "o-1", TRACE), Draft(b"2", "bob"), Draft(b"3", "alice")]
    )

    assert [first.partition, second.partition, third.partition] == ["alice", "bob", "alice"]
    assert [first.offset, second.offset, third.offset] == [0, 0, 1]
    assert first.transaction_id == "o-1"
    stored = await broker.messages.get(first.id)
    assert (stored.payload, stored.trace_id) == (b"1", TRACE)
    assert (await broker.messages.get(second.id)).transaction_id == second.transaction_id


async def test_every_message_gets_an_id_of_its_own(client: AsyncClient) -> None:
    receipts = [*await client.push("orders", drafts(3)), *await client.push("orders", drafts(3))]

    assert len({receipt.transaction_id for receipt in receipts}) == 6
    assert not any(receipt.duplicate for receipt in receipts)


async def test_what_was_pushed_before_is_a_duplicate(client: AsyncClient, broker: Broker) -> None:
    (first,) = await client.push("orders", [Draft(b"1", transaction_id="o-1")])

    again, new = await client.push(
        "orders", [Draft(b"1", transaction_id="o-1"), Draft(b"2", transaction_id="o-2")]
    )

    assert (again.duplicate, again.id) == (True, first.id)
    assert not new.duplicate
    assert await pop_all(broker) == [b"1", b"2"]


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.REQUEST_LOST])
async def test_a_push_whose_answer_is_lost_makes_no_second_message(
    client: AsyncClient, broker: Broker, weather: Weather, fault: Fault
) -> None:
    weather.coming += [fault, fault]

    receipts = await client.push("orders", [*drafts(2), Draft(b"2", transaction_id="o-1")])

    assert [receipt.offset for receipt in receipts] == [0, 1, 2]
    assert not any(receipt.duplicate for receipt in receipts)
    assert await pop_all(broker, batch=10) == [b"0", b"1", b"2"]


async def test_a_repeated_push_says_which_of_its_own_messages_are_the_same(
    client: AsyncClient, weather: Weather
) -> None:
    weather.coming.append(Fault.ANSWER_LOST)

    alice, bob = Draft(b"1", "alice", "o-1"), Draft(b"1", "bob", "o-1")
    receipts = await client.push("orders", [alice, alice, bob])

    assert [receipt.duplicate for receipt in receipts] == [False, True, False]


async def test_a_repeated_push_still_knows_what_others_have_pushed(
    client: AsyncClient, weather: Weather
) -> None:
    await client.push("orders", [Draft(b"1", transaction_id="o-1")])
    weather.coming.append(Fault.REQUEST_LOST)

    receipts = await client.push(
        "orders", [Draft(b"1", transaction_id="o-1"), Draft(b"2", transaction_id="o-2")]
    )

    assert [receipt.duplicate for receipt in receipts] == [True, False]


async def test_a_push_that_finds_nobody_is_tried_again(
    client: AsyncClient, broker: Broker, weather: Weather
) -> None:
    weather.coming += [Fault.REFUSED] * 3

    await client.push("orders", drafts(1))

    assert await pop_all(broker) == [b"0"]


async def test_a_push_that_finds_nobody_for_long_wrote_nothing(
    client: AsyncClient, broker: Broker, weather: Weather
) -> None:
    weather.coming += [Fault.REFUSED] * 4

    with pytest.raises(Unavailable):
        await client.push("orders", drafts(1))

    assert await broker.queues.list() == []


async def test_that_nobody_listens_any_more_does_not_mean_that_nothing_was_written(
    client: AsyncClient, broker: Broker, weather: Weather
) -> None:
    weather.coming += [Fault.ANSWER_LOST, Fault.REFUSED, Fault.REFUSED, Fault.REFUSED]

    with pytest.raises(OutcomeUnknown):
        await client.push("orders", drafts(1))

    assert await pop_all(broker) == [b"0"]


async def test_a_full_queue_says_how_much_room_there_is(
    client: AsyncClient, broker: Broker, weather: Weather
) -> None:
    await broker.queues.configure("orders", max_size=2)
    await client.push("orders", drafts(1))

    with pytest.raises(QueueFull) as caught:
        await client.push("orders", drafts(2))

    assert (caught.value.depth, caught.value.capacity, caught.value.remaining) == (1, 2, 1)
    assert weather.count("/push") == 5  # the server says when to come back, so it is asked again


async def test_what_is_laid_aside_has_no_place_yet_and_is_delivered_later(
    client: AsyncClient, broker: Broker
) -> None:
    await broker.maintenance.set_pushing(True)

    (receipt,) = await client.push("orders", [Draft(b"1", "alice", "o-1")])

    assert (receipt.partition_number, receipt.offset) == (-1, -1)
    assert (receipt.transaction_id, receipt.duplicate) == ("o-1", False)
    await broker.maintenance.set_pushing(False)
    assert payloads(await broker.pop("orders", wait=5)) == [b"1"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "drafts"),
        (b"bytes", "drafts"),
        (None, "drafts"),
        ([b"bytes"], "drafts[0]"),
        ([Draft(b"1"), Draft("text")], "drafts[1].payload"),  # type: ignore[arg-type]
        ([Draft(b"1", "")], "drafts[0].partition"),
        ([Draft(b"1", "\ud800")], "request"),
        ([Draft(b"1", transaction_id="")], "drafts[0].transaction_id"),
        ([Draft(b"1", trace_id=UUID(int=0))], "drafts[0].trace_id"),
    ],
)
async def test_what_cannot_be_pushed_is_refused_by_name(
    client: AsyncClient, given: list[Draft], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await client.push("orders", given)

    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


async def test_a_push_to_an_encrypted_queue_without_a_key_is_sent_once(
    client: AsyncClient, broker: Broker, weather: Weather
) -> None:
    await broker.queues.configure("orders", encryption_enabled=True)

    with pytest.raises(EncryptionUnavailable, match="no key is configured"):
        await client.push("orders", drafts(1))

    assert weather.count("/push") == 1
