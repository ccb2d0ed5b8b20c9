"""Transactions through a client."""

from typing import Any
from uuid import uuid4

import pytest

from skep import Ack, AsyncClient, Broker, Delivery, Draft, Extend, Push, Verdict
from skep.errors import Invalid, KeyReused, LeaseLost, OutcomeUnknown
from skep.model.operation import Keep, Operation
from skep.testing.clock import ManualClock
from tests.support.broker_builders import Settled, drafts, lease_of, pop, pop_all
from tests.support.faulty_transport import Fault, Weather


@pytest.fixture
async def delivery(broker: Broker) -> Delivery:
    """Two messages of one partition under one lease."""
    await broker.push("orders", drafts(2))
    return await pop(broker, batch=2)


def billing(delivery: Delivery) -> list[Operation]:
    """What a consumer does in one go."""
    number = delivery.messages[0].partition_number
    return [
        Push("invoices", [Draft(b"a", "alice", "i-1"), Draft(b"b", "bob")]),
        Extend(lease_of(delivery), 600),
        Ack(lease_of(delivery), [Verdict(number, 0)]),
        Push("mails", [Draft(b"c")]),
    ]


async def test_all_of_a_transaction_happens(
    client: AsyncClient, broker: Broker, delivery: Delivery
) -> None:
    done = await client.transact(billing(delivery), required_leases=[lease_of(delivery)])

    (first, second), (third,) = done.receipts
    assert (first.partition, first.offset, first.transaction_id) == ("alice", 0, "i-1")
    assert (await broker.messages.get(second.id)).payload == b"b"
    assert third.transaction_id == str(third.id)
    assert done.settlements == [Settled(completed=1)]
    assert not done.repeated
    assert await pop_all(broker, "invoices") == [b"a", b"b"]


async def test_pushes_to_one_queue_keep_their_receipts_apart(client: AsyncClient) -> None:
    done = await client.transact(
        [
            Push("orders", drafts(2)),
            Push("mails", drafts(1)),
            Push("orders", [Draft(b"9", "alice")]),
        ]
    )

    assert [[(r.partition, r.offset) for r in some] for some in done.receipts] == [
        [("Default", 0), ("Default", 1)],
        [("Default", 0)],
        [("alice", 0)],
    ]


async def test_an_ack_of_everything_says_what_it_did(
    client: AsyncClient, delivery: Delivery
) -> None:
    done = await client.transact([Ack(lease_of(delivery))])

    assert done.settlements == [Settled(completed=2, released=True)]


async def test_nothing_of_a_transaction_happens_without_its_lease(
    client: AsyncClient, broker: Broker, delivery: Delivery, clock: ManualClock
) -> None:
    clock.advance(300)

    with pytest.raises(LeaseLost) as caught:
        await client.transact(billing(delivery))

    assert caught.value.lease_id == delivery.lease_id
    assert [queue.name for queue in await broker.queues.list()] == ["orders"]


async def test_a_transaction_with_a_key_happens_once(
    client: AsyncClient, broker: Broker, delivery: Delivery
) -> None:
    first = await client.transact(billing(delivery), idempotency_key="run-1")

    again = await client.transact(billing(delivery), idempotency_key="run-1")

    assert again.repeated
    assert again.receipts == first.receipts
    assert again.settlements == first.settlements
    assert len(await pop_all(broker, "invoices")) == 2
    with pytest.raises(KeyReused):
        await client.transact([Push("orders", drafts(1))], idempotency_key="run-1")


async def test_a_transaction_with_a_key_is_repeated_if_its_answer_is_lost(
    client: AsyncClient, broker: Broker, delivery: Delivery, weather: Weather
) -> None:
    weather.coming += [Fault.ANSWER_LOST, Fault.REQUEST_LOST, Fault.REFUSED]

    done = await client.transact(billing(delivery), idempotency_key="run-1")

    assert done.repeated
    assert [receipt.duplicate for receipt in done.receipts[0]] == [False, False]
    assert len(await pop_all(broker, "invoices")) == 2


async def test_a_transaction_without_a_key_is_not_repeated(
    client: AsyncClient, broker: Broker, delivery: Delivery, weather: Weather
) -> None:
    weather.coming.append(Fault.ANSWER_LOST)

    with pytest.raises(OutcomeUnknown):
        await client.transact(billing(delivery))

    assert weather.count("/transaction") == 1
    assert len(await pop_all(broker, "invoices")) == 2


@pytest.mark.parametrize(
    ("operations", "field"),
    [
        ([], "operations"),
        ([5], "operations[0]"),
        ([Keep([])], "operations[0]"),
        ([Push("orders", [])], "operations[0].drafts"),
        ([Push("", [Draft(b"1")])], "operations[0].queue"),
        (
            [Push("a", [Draft(b"1")]), Push("b", [Draft(b"1"), Draft(b"1", "\n")])],
            "operations[1].drafts[1].partition",
        ),
        ([Ack(str(uuid4()), [Verdict(-1, 0)])], "operations[0].verdicts[0].partition"),
        ([Ack("no lease")], "operations[0].lease_id"),
        ([Extend(str(uuid4()), 0)], "operations[0].seconds"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(
    client: AsyncClient, operations: Any, field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await client.transact(operations)

    assert caught.value.field == field
